"""Each format with what files bring along: odd names, odd columns, compression, precision, huge lines, no rows."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate import errors
from tidegate.ledger.memory import MemoryStore
from tidegate.sources.contract import Limits, SourceRows
from tidegate.sources.intake import Taken, intake
from tidegate.sources.landing import LandingSource
from tidegate.sources.specs import EventTime, FileFormat, LandingSpec, Reading, WatermarkKind

pytestmark = pytest.mark.spark

ODD_NAMES = (
    "a b", "ü", "a%20b", "a#b", "a?b", "a[1]", "{x}", "a:b", "a,b", "a\\b", "*", "日本", "a'b", 'a"b', "~",
    "2026-03-01T12:05:00Z",
)  # fmt: skip


class Landed:
    """A landing folder and what is read from it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.options: dict[str, str] = {}

    def write(self, name: str, data: bytes | str) -> Path:
        path = self.root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def source(self, format: FileFormat, schema: str, event_time: EventTime | None = None) -> LandingSource:
        kind = WatermarkKind.INTEGER if event_time is None else WatermarkKind.EVENT_TIME
        reading = Reading(format=format, schema=schema, options=self.options)
        spec = LandingSpec(name="made", watermark=kind, path="in", reading=reading, event_time=event_time)
        return LandingSource(spec, root=self.root, store=MemoryStore())

    def read(self, format: FileFormat, schema: str, event_time: EventTime | None = None) -> SourceRows:
        source = self.source(format, schema, event_time)
        return source.rows(self.spark, source.cut({}, source.ends().ends, Limits(max_slices=99), 0))

    def rows(self, format: FileFormat, schema: str) -> list[Any]:
        return [tuple(row) for row in self.read(format, schema).good().collect()]

    def taken(self, format: FileFormat, schema: str, event_time: EventTime) -> Taken:
        rows = self.read(format, schema, event_time)
        return intake(rows, ("0",), late_before_us=None, future_after_us=2**62)[1].get()


@pytest.fixture
def landed(spark: SparkSession, tmp_path: Path) -> Landed:
    return Landed(spark, tmp_path / "a project, ü")


def test_files_may_have_any_name(landed: Landed) -> None:
    """Paths are no globs and no URLs; each file knows its checkpoint."""
    for number, name in enumerate(ODD_NAMES):
        landed.write(f"{name}/{name}.json", json.dumps({"id": number}))
    source = landed.source(FileFormat.JSON, "id BIGINT")
    slices = source.cut({}, source.ends().ends, Limits(max_bytes=1, max_slices=99), 0)
    rows = source.rows(landed.spark, slices)
    assert rows.number is not None
    found = {row.id: row.n for row in rows.df.select("id", rows.number.alias("n")).collect()}
    assert found.keys() == set(range(len(ODD_NAMES)))
    assert sorted(found.values()) == [one.number for one in slices]


def test_a_name_that_is_no_text_is_told(landed: Landed) -> None:
    folder = landed.write("a.json", "{}").parent
    os.rename(os.fsencode(folder / "a.json"), os.fsencode(folder) + b"/\xff.json")
    with pytest.raises(errors.SourceError, match="not UTF-8"):
        landed.read(FileFormat.JSON, "id BIGINT")


def test_columns_may_have_any_name(landed: Landed) -> None:
    """Also one with a dot, which is no path into a struct, and a backtick."""
    row = {"größe": 1, "a b": 2, "a.b": 3, "a`b": 4, "日本": 5}
    schema = "`größe` BIGINT, `a b` BIGINT, `a.b` BIGINT, `a``b` BIGINT, `日本` BIGINT"
    landed.write("a.json", json.dumps(row, ensure_ascii=False))
    assert landed.rows(FileFormat.JSON, schema) == [(1, 2, 3, 4, 5)]
    rows = landed.read(FileFormat.JSON, schema)
    assert rows.good().columns == list(row)


def test_numbers_near_the_end_of_a_doubles_precision_stay_what_they_are(landed: Landed) -> None:
    for number in (2**53 - 1, 2**53 + 1, 2**63 - 1, -(2**63)):
        landed.write(f"{number}.json", json.dumps({"id": number}))
    assert sorted(landed.rows(FileFormat.JSON, "id BIGINT")) == [(-(2**63),), (2**53 - 1,), (2**53 + 1,), (2**63 - 1,)]


def test_a_line_may_be_huge(landed: Landed) -> None:
    text = "x" * 20_000_000
    landed.write("a.json", json.dumps({"id": 1, "text": text}) + "\n" + json.dumps({"id": 2}) + "\n")
    rows = landed.read(FileFormat.JSON, "id BIGINT, text STRING").good()
    assert sorted(tuple(row) for row in rows.selectExpr("id", "length(text)").collect()) == [(1, 20_000_000), (2, None)]


def test_a_name_that_is_a_pattern_with_a_colon_is_told(landed: Landed) -> None:
    """Spark opens each of them, and not the two together."""
    landed.write("[x]: a.json", "{}")
    with pytest.raises(errors.SourceError, match="a colon, and one of"):
        landed.read(FileFormat.JSON, "id BIGINT")


@pytest.mark.parametrize(("ending", "packed"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_packed_files_are_read_as_they_are(landed: Landed, ending: str, packed: Any) -> None:
    landed.write(f"a.json.{ending}", packed(b'{"id": 1}\n{"id": 2}\n'))
    assert sorted(landed.rows(FileFormat.JSON, "id BIGINT")) == [(1,), (2,)]


def test_a_packed_csv_has_its_header_inside(landed: Landed) -> None:
    landed.options = {"header": "true"}
    landed.write("a.csv.gz", gzip.compress("name,id\nü,1\n".encode()))
    assert landed.rows(FileFormat.CSV, "id BIGINT, name STRING") == [(1, "ü")]


def test_csv_with_a_header_is_read_by_name_whatever_the_order(landed: Landed) -> None:
    """Each file in its own order, with columns of its own; one with a mark of its byte order."""
    landed.options = {"header": "true"}
    landed.write("a.csv", "id,name\n1,x\n")
    landed.write("b.csv", 'more,name,id\n9,"y, z",2\n')
    landed.write("c.csv", "\ufeffname,id\nü,3\n")
    landed.write("d.csv", "id,name\n")
    assert sorted(landed.rows(FileFormat.CSV, "id BIGINT, name STRING")) == [(1, "x"), (2, "y, z"), (3, "ü")]


def test_csv_without_a_header_is_read_by_place(landed: Landed) -> None:
    landed.options = {"sep": ";"}
    landed.write("a.csv", "1;x\n2;\n")
    assert sorted(landed.rows(FileFormat.CSV, "id BIGINT, name STRING")) == [(1, "x"), (2, None)]


def test_parquet_is_read_by_name(landed: Landed) -> None:
    table = pa.table({"extra": [0], "name": ["ü"], "id": pa.array([2**53 + 1], pa.int64())})
    target = landed.write("a.parquet", b"")
    pq.write_table(table, target)
    pq.write_table(table.schema.empty_table(), target.with_name("empty.parquet"))
    assert landed.rows(FileFormat.PARQUET, "id BIGINT, name STRING") == [(2**53 + 1, "ü")]


def test_text_is_a_line_a_row(landed: Landed) -> None:
    landed.write("a.log", "one\n\nthrée {\n")
    assert sorted(landed.rows(FileFormat.TEXT, "line STRING")) == [("",), ("one",), ("thrée {",)]


def test_nothing_but_empty_files_has_the_columns_and_no_rows(landed: Landed) -> None:
    landed.write("a.json", "")
    rows = landed.read(FileFormat.JSON, "id BIGINT, name STRING")
    assert (rows.good().columns, rows.good().collect()) == (["id", "name"], [])


MOMENT = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("kind", "value", "micros"),
    [
        ("TIMESTAMP", "2026-03-01T12:00:00Z", MOMENT),
        ("TIMESTAMP", "2026-03-01T13:00:00.000001+01:00", MOMENT + 1),
        ("TIMESTAMP", "2026-03-01T12:00:00", MOMENT),
        ("STRING", "2026-03-01 12:00:00", MOMENT),
        ("DATE", "2026-03-01", MOMENT - 12 * 3600 * 1_000_000),
    ],
)
def test_event_times_are_utc_unless_they_say_otherwise(landed: Landed, kind: str, value: str, micros: int) -> None:
    """A null, and text that is no time, move nothing."""
    landed.write("a.json", json.dumps({"at": value}) + '\n{"at": null}\n{}\n')
    if kind == "STRING":
        landed.write("b.json", '{"at": "soon"}\n')
    taken = landed.taken(FileFormat.JSON, f"id BIGINT, at {kind}", EventTime(column="at"))
    assert taken.maxima == {"0": micros}


def test_only_empty_event_times_move_nothing(landed: Landed) -> None:
    landed.write("a.json", '{"id": 1, "at": null}\n{"id": 2}\n')
    taken = landed.taken(FileFormat.JSON, "id BIGINT, at TIMESTAMP", EventTime(column="at"))
    assert (taken.rows, taken.maxima) == (2, {})
