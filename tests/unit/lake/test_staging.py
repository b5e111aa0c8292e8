"""Rows that were written aside: durable, measured, compared, and seen by nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.lake.samples import NAME, SCHEMA, created, rows_of, stage
from tidegate import errors
from tidegate.lake import footers, reading, schemas, staging
from tidegate.lake.storage import Storage
from tidegate.progress.ranges import Range


def collected(tmp_path: Path, schema: str = SCHEMA) -> staging.Staged:
    return staging.collect(
        Storage(str(tmp_path), table=NAME), "data/1-1-1/1-0", schema=schema, table=NAME, stats_columns=("id", "absent")
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as Spark leaves it: parts, one without rows, their checksums, and its own marks."""
    place = tmp_path / "data/1-1-1/1-0"
    place.mkdir(parents=True)
    for part, ids in enumerate(((1, 2), (), (3,))):
        rows = pa.Table.from_pylist(rows_of(*ids), schema=reading.arrow_schema(SCHEMA))
        pq.write_table(rows, place / f"part-{part:05d}.snappy.parquet")
        (place / f".part-{part:05d}.snappy.parquet.crc").write_bytes(b"crc")
    for odd in ("_SUCCESS", "_started.parquet", ".hidden.parquet", "notes.txt"):
        (place / odd).write_bytes(b"")
    return place


def test_the_files_with_rows_are_told_with_sizes_and_statistics(tmp_path: Path, folder: Path) -> None:
    staged = collected(tmp_path)
    assert (staged.rows, len(staged.files)) == (3, 2)
    for file in staged.files:
        found = os.stat(tmp_path / file.path)
        assert (file.size_bytes, file.modified_ms) == (found.st_size, found.st_mtime_ns // 1_000_000)
    stats = [file.stats for file in staged.files]
    assert stats == [
        {"minValues": {"id": lo}, "maxValues": {"id": hi}, "nullCount": {"id": 0}} for lo, hi in ((1, 2), (3, 3))
    ]


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert collected(tmp_path) == staging.Staged(files=(), schema=SCHEMA)


def test_a_file_of_other_columns_is_named(tmp_path: Path, folder: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), folder / "part-00009.parquet")
    with pytest.raises(errors.SchemaMismatch, match=r"part-00009\.parquet has nothing as column (name|at)"):
        collected(tmp_path)


def test_a_file_without_rows_must_fit_too(tmp_path: Path, folder: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.string())}), folder / "part-00009.parquet")
    with pytest.raises(errors.SchemaMismatch):
        collected(tmp_path)


def test_a_file_that_does_not_read_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / "part-00000.snappy.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(errors.LakeError, match=r"part-00000\.snappy\.parquet does not read"):
        collected(tmp_path)


def test_files_carry_their_batch(tmp_path: Path) -> None:
    assert {file.range for file in stage(created(tmp_path), rows_of(1, 2, 3), number=4, parts=3)} == {Range(4, 5)}


def test_nested_columns_of_a_file_are_compared_to_the_letter(tmp_path: Path) -> None:
    deep = pa.table(
        {
            "m": pa.array(
                [{"x": [1], "y": [("k", "v")]}],
                pa.struct([("x", pa.list_(pa.int64())), ("y", pa.map_(pa.string(), pa.string()))]),
            )
        }
    )
    pq.write_table(deep, tmp_path / "f.parquet")
    storage = Storage(str(tmp_path), table=NAME)
    footer = footers.read(storage, "f.parquet", stats_columns=(), table=NAME)

    def schema(x: str, y: str) -> str:
        fields = [
            {"name": x, "type": {"type": "array", "elementType": y, "containsNull": True}},
            {"name": "y", "type": {"type": "map", "keyType": "string", "valueType": "string"}},
        ]
        return schemas.of_columns({"m": {"type": "struct", "fields": fields}})

    footers.check(footer, schema("x", "long"), "f.parquet", table=NAME)
    for x, y in (("X", "long"), ("x", "integer")):
        with pytest.raises(errors.SchemaMismatch, match="struct as column m"):
            footers.check(footer, schema(x, y), "f.parquet", table=NAME)
