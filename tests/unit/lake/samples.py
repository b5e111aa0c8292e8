"""A lake table with real files in it, written as Spark writes them but without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.lake import reading, schemas, staging
from tidegate.lake.attempts import Attempt
from tidegate.lake.log import DataFile, Kind, Metadata, TableShape
from tidegate.lake.table import LakeTable
from tidegate.progress.ranges import Range

NAME = "orders"
SCHEMA = schemas.of_columns({"id": "long", "name": "string", "at": "timestamp"})

_attempts = itertools.count()


def shape_of(schema: str = SCHEMA, *, stats: Sequence[str] = ("id",)) -> TableShape:
    """The shape of a new table."""
    return schemas.new_shape(schema, stats, created_us=1_000_000)


def said(kind: Kind = Kind.PUBLISH, *, token: int = 1, **more: Any) -> Metadata:
    """What a commit says."""
    return Metadata(**{"kind": kind, "table": NAME, "owner": NAME, "epoch": 1, "token": token, **more})


def rows_of(*ids: int) -> list[dict[str, Any]]:
    """Rows of these ids."""
    return [{"id": one, "name": f"n{one}"} for one in ids]


def stage(
    table: LakeTable,
    rows: Sequence[Mapping[str, Any]],
    *,
    number: int = 1,
    token: int = 1,
    schema: str = SCHEMA,
    stats: Sequence[str] = ("id",),
    parts: int = 1,
) -> tuple[DataFile, ...]:
    """Rows in the files of a new attempt at a checkpoint, durable and seen by nobody."""
    batch = Range(number, number + 1)
    folder = Attempt(epoch=1, range=batch, token=token, attempt=next(_attempts)).folder
    place = Path(table.storage.at(folder))
    place.mkdir(parents=True)
    each = -(-len(rows) // parts) or 1
    for part in range(parts):
        read = pa.Table.from_pylist(list(rows[part * each : (part + 1) * each]), schema=reading.arrow_schema(schema))
        pq.write_table(read, place / f"part-{part:05d}.snappy.parquet")
        (place / f".part-{part:05d}.snappy.parquet.crc").write_bytes(b"crc")
    staged = staging.collect(table.storage, folder, schema=schema, table=NAME, stats_columns=stats, range_=batch)
    return staged.files


def created(url: Path | str, *, batches: int = 0, shape: TableShape | None = None, **how: Any) -> LakeTable:
    """A claimed table; with batches, checkpoints 1 and on are published in it, of one row each."""
    table = LakeTable(str(url), NAME, **how)
    table.claim(NAME, 1, 1)
    if batches:
        table.create(shape_of() if shape is None else shape, said(end=2), added=stage(table, rows_of(1), number=1))
    for number in range(2, batches + 1):
        table.commit(said(end=number + 1), added=stage(table, rows_of(number), number=number))
    return table


def file_of(path: str, **more: Any) -> DataFile:
    """A file that only a log knows of."""
    return DataFile(**{"path": path, "size_bytes": 10, "rows": 1, "modified_ms": 1_000, **more})
