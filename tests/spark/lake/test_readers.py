"""A table of ours is a Delta table: plain Spark, delta-rs and our own reader see the same rows of every version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.sessions import small_session
from tidegate.lake import attempts, reading, schemas, staging
from tidegate.lake.attempts import Attempt
from tidegate.lake.log import DataFile, Kind, Metadata
from tidegate.lake.table import LakeTable
from tidegate.progress.ranges import Range

pytestmark = pytest.mark.spark

#: What people call columns, and SQL calls something else.
STATS = ("id", "at", "timestamp", "select", "note")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


class Shop:
    """A table that is published to, pruned and refreshed as a pipeline and a table of it do."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark = spark
        self.table = LakeTable(url, "orders")
        self.table.claim("orders", 1, 1)
        self._refreshes = 0

    def staged(self, folder: str, first: int, rows: int, range_: Range | None = None) -> staging.Staged:
        query = f"""
            SELECT id, TIMESTAMP '2026-03-01 12:00:00.000123Z' + make_interval(0, 0, 0, 0, 0, id) AS at,
                   DATE '2026-03-01' AS timestamp, CAST(id % 3 AS INT) AS select,
                   CASE WHEN id % 5 = 0 THEN null ELSE concat(repeat('é', 70), id) END AS note,
                   CAST(if(id % 2 = 0, 'NaN', '-Infinity') AS DOUBLE) AS ratio,
                   named_struct('x', array(id), 'y', map('k', id)) AS deep
            FROM range({first}, {first + rows}, 1, 2)
        """
        frame = self.spark.sql(query)
        return staging.stage(frame, self.table.storage, folder, table="orders", stats_columns=STATS, range_=range_)

    def publish(self, number: int, rows: int = 10) -> None:
        batch = Range(number, number + 1)
        folder = Attempt(epoch=1, range=batch, token=1, attempt=0).folder
        staged = self.staged(folder, number * 100, rows, batch)
        said = self._said(Kind.PUBLISH, end=number + 1)
        if self.table.exists:
            self.table.commit(said, added=staged.files)
        else:
            shape = schemas.new_shape(staged.schema, STATS, created_us=1_000_000)
            assert schemas.statistics_of(shape) == STATS
            self.table.create(shape, said, added=staged.files)

    def prune(self, reader_lo: int) -> None:
        gone = [file for file in self.table.files() if file.range is not None and file.range.hi <= reader_lo]
        self.table.commit(self._said(Kind.PRUNE, reader_lo=reader_lo), removed=gone)

    def refresh(self, first: int) -> tuple[DataFile, ...]:
        self._refreshes += 1
        staged = self.staged(attempts.refresh_folder(1, self._refreshes), first, 7)
        before = self.table.files()
        self.table.commit(self._said(Kind.REFRESH), added=staged.files, removed=before)
        return before

    def _said(self, kind: Kind, **more: int) -> Metadata:
        return Metadata(kind=kind, table="orders", owner="orders", epoch=1, token=1, **more)

    # readers, each opening the table anew

    def by_spark(self, version: int | None = None) -> str:
        read = self.spark.read.format("delta")
        read = read if version is None else read.option("versionAsOf", version)
        return self._told(read.load(self.table.storage.at("")).toArrow(), version)

    def by_frame(self, version: int | None = None) -> str:
        return self._told(reading.frame(self.spark, LakeTable(self.table.url, "orders"), version).toArrow(), version)

    def by_delta_rs(self, version: int | None = None) -> str:
        return self._told(deltalake.DeltaTable(self.table.url, version=version).to_pyarrow_table(), version)

    def by_us(self, version: int | None = None) -> str:
        return self._told(reading.to_arrow(LakeTable(self.table.url, "orders"), version), version)

    def agreed(self, version: int | None = None) -> str:
        """The rows of a version, on which all readers agree."""
        rows = self.by_spark(version)
        assert rows == self.by_delta_rs(version)
        assert rows == self.by_us(version)
        assert rows == self.by_frame(version)
        return rows

    def _told(self, read: pa.Table, version: int | None) -> str:
        shape = self.table.shape(version)
        assert shape is not None
        # As text, for which NaN is itself.
        return "\n".join(map(str, read.cast(reading.arrow_schema(shape.schema_json)).sort_by("id").to_pylist()))


def ids_of(rows: str) -> list[int]:
    return [int(one) for one in re.findall(r"\{'id': (\d+)", rows)]


def test_every_reader_sees_the_same_rows_of_every_version(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, str(tmp_path / "a lake, 50% ü" / "orders"))
    shop.publish(1)
    shop.publish(2)
    shop.prune(2)
    assert ids_of(shop.agreed()) == [*range(200, 210)]
    shop.table.checkpoint()
    assert ids_of(shop.agreed()) == [*range(200, 210)]
    shop.publish(3, rows=3)
    replaced = shop.refresh(500)
    versions = [ids_of(shop.agreed(version)) for version in range(5)]
    first, second, third = [*range(100, 110)], [*range(200, 210)], [*range(300, 303)]
    assert versions == [first, first + second, second, second + third, [*range(500, 507)]]
    # Beyond the newest version nobody needs the files; older versions are gone with them.
    assert len(shop.table.delete_files([file.path for file in replaced])) == len(replaced)
    assert ids_of(shop.agreed()) == [*range(500, 507)]


def test_spark_skips_files_by_our_statistics_and_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, str(tmp_path / "orders"))
    for number in (1, 2, 3):
        shop.publish(number)
    read = spark.read.format("delta").load(str(tmp_path / "orders"))
    for condition in (
        "id >= 205",
        "at >= TIMESTAMP '2026-03-01 15:20:00.000123Z'",
        "timestamp = DATE '2026-03-01'",
        "`select` = 1",
        "note IS NULL",
        f"note > '{'é' * 70}3'",
    ):
        wanted = [row.id for row in reading.frame(spark, shop.table).where(condition).orderBy("id").collect()]
        assert [row.id for row in read.where(condition).orderBy("id").collect()] == wanted
        assert wanted
    assert set(read.where("id >= 300").inputFiles()) <= set(read.inputFiles())
    assert spark.sql(f"SELECT count(*) AS n, max(id) AS top FROM delta.`{tmp_path}/orders`").first() == (30, 309)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{tmp_path}/orders`").first()
    assert detail is not None
    assert (detail.format, detail.minReaderVersion, detail.minWriterVersion) == ("delta", 1, 2)


@pytest.mark.parametrize("name", ["a[1]b{2}", "what?*", "50%25 #1"])
def test_a_frame_over_files_takes_their_paths_to_the_letter(spark: SparkSession, tmp_path: Path, name: str) -> None:
    shop = Shop(spark, str(tmp_path / name / "orders"))
    shop.publish(1)
    assert ids_of(shop.by_frame()) == [*range(100, 110)]
