"""The delta sink under Spark: the contract, what Spark writes, and what every reader of Delta sees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sessions import small_session
from tidegate import errors
from tidegate.lake import reading
from tidegate.lake.table import LakeTable
from tidegate.progress.ranges import Range
from tidegate.sinks.contract import Publication
from tidegate.sinks.delta import DeltaSink
from tidegate.sinks.specs import DeltaSinkSpec
from tidegate.testing.sink_contract import ROWS, SinkContract, ids_of, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


class TestDeltaSink(SinkContract):
    """The contract, and what only a lake table promises."""

    @pytest.fixture(autouse=True)
    def place(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark = spark
        self.folder = tmp_path / "a lake, ü" / "orders"

    def make(self) -> DeltaSink:
        spec = DeltaSinkSpec(name="lake", table="orders")
        return DeltaSink(spec, LakeTable(str(self.folder), "orders"), stats_columns=("id",))

    def opened(self, *, token: int = 1) -> DeltaSink:
        sink = self.make()
        sink.open(self.owner_of(token))
        return sink

    def visible_ids(self) -> Iterable[int]:
        if not (self.folder / "_delta_log").exists():
            return []
        by_delta_rs = deltalake.DeltaTable(str(self.folder)).to_pyarrow_table().column("id").to_pylist()
        ours = reading.to_arrow(LakeTable(str(self.folder), "orders")).column("id").to_pylist()
        assert sorted(ours) == sorted(by_delta_rs)
        return ours

    def frame(self, rows: Sequence[dict[str, Any]]) -> DataFrame:
        values = ", ".join(f"({row['id']}L, {row['checkpoint']}L)" for row in rows)
        empty = "SELECT 0L AS id, 0L AS checkpoint WHERE false"
        return self.spark.sql(f"SELECT * FROM VALUES {values} AS t(id, checkpoint)" if rows else empty)

    def test_spark_reads_the_table_as_delta(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 2), (3, 3))
        sink.prune(3)
        read = self.spark.read.format("delta")
        assert sorted(row.id for row in read.load(str(self.folder)).collect()) == ids_of(3)
        before = read.option("versionAsOf", 1).load(str(self.folder))
        assert sorted(row.id for row in before.where("id >= 200").collect()) == ids_of(2, 3)
        said = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.folder}`").orderBy("version").collect()
        assert [row.operation for row in said] == ["TIDEGATE PUBLISH", "TIDEGATE PUBLISH", "TIDEGATE PRUNE"]
        assert all('"tidegate":1' in row.userMetadata for row in said)

    def test_a_frame_over_the_files_of_a_version_stays_at_that_version(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1))
        frame = reading.frame(self.spark, sink.table)
        self.published(sink, (2, 2))
        assert sorted(row.id for row in frame.collect()) == ids_of(1)
        assert reading.frame(self.spark, sink.table).count() == 2 * ROWS

    def test_a_receipt_names_files_with_rows_sizes_and_statistics(self) -> None:
        frame = self.frame(rows_of(1, 2)).repartition(2)
        receipt = self.opened().deliver(frame, self.delivery(1, 2))
        assert sum(file.rows for file in receipt.files) == receipt.rows == 2 * ROWS
        for file in receipt.files:
            assert (self.folder / file.path).stat().st_size == file.size_bytes
            assert file.range == Range(1, 3)
            assert file.stats is not None
            assert file.stats["minValues"].keys() == {"id"}

    def test_files_without_rows_are_left_out(self) -> None:
        receipt = self.opened().deliver(self.frame(rows_of(1)).repartition(8).where("id = 100"), self.delivery(1, 1))
        assert (receipt.rows, len(receipt.files)) == (1, 1)

    def test_no_folder_is_written_twice(self) -> None:
        sink = self.opened()
        first = self.deliver(sink, 1, 1)
        with pytest.raises(AnalysisException):
            self.deliver(sink, 1, 1)
        assert all((self.folder / file.path).exists() for file in first.files)

    def test_nobody_sees_a_table_before_something_is_published(self) -> None:
        self.deliver(self.opened(), 1, 1)
        assert not deltalake.DeltaTable.is_deltatable(str(self.folder))

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ("SELECT '1' AS id, 1L AS checkpoint", "id is long"),
            ("SELECT 1 AS id, 1L AS checkpoint", "id is long"),
            ("SELECT 1L AS ID, 1L AS checkpoint", "no column id"),
            ("SELECT 1L AS id", "no column checkpoint"),
            ("SELECT 1L AS id, 1L AS checkpoint, TIMESTAMP_NTZ '2026-03-01 12:00:00' AS at", "timestamp_ntz"),
            ("SELECT 1L AS id, 1L AS checkpoint, 1L AS `a b`", "called 'a b'"),
            ("SELECT 1L AS id, 1L AS checkpoint, INTERVAL 1 DAY AS gone", "cannot hold"),
        ],
    )
    @pytest.mark.parametrize("published", [True, False])
    def test_rows_that_are_not_the_tables_are_refused_before_they_are_written(
        self, query: str, says: str, published: bool
    ) -> None:
        sink = self.opened()
        if published:
            self.published(sink, (1, 1))
        else:
            self.deliver(sink, 1, 1)
        with pytest.raises(errors.SinkRejected, match=says):
            sink.deliver(self.spark.sql(query), self.delivery(2, 2))
        assert not (self.folder / "data" / "1-2-2").exists()

    def test_a_new_column_comes_with_the_first_rows_that_have_it(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1))
        wider = self.frame(rows_of(2)).selectExpr("*", "'x' AS note")
        receipt = sink.deliver(wider, self.delivery(2, 2))
        assert deltalake.DeltaTable(str(self.folder)).schema().to_arrow().names == ["id", "checkpoint"]
        sink.publish([receipt], self.publication(3))
        assert sorted(self.visible_ids()) == ids_of(1, 2)
        notes = self.spark.read.format("delta").load(str(self.folder)).orderBy("id").collect()
        assert [row.note for row in notes] == [None] * ROWS + ["x"] * ROWS

    def test_times_keep_their_microseconds_and_have_statistics_that_hold_them(self) -> None:
        sink = DeltaSink(
            DeltaSinkSpec(name="lake", table="orders"), LakeTable(str(self.folder), "orders"), stats_columns=("at",)
        )
        sink.open(self.owner)
        rows = self.spark.sql("SELECT 1L AS id, TIMESTAMP '2026-03-01 12:05:00.000001Z' AS at")
        receipt = sink.deliver(rows, self.delivery(1, 1))
        assert receipt.files[0].stats == {
            "minValues": {"at": "2026-03-01T12:05:00.000Z"},
            "maxValues": {"at": "2026-03-01T12:05:00.001Z"},
            "nullCount": {"at": 0},
        }
        sink.publish([receipt], self.publication(2))
        found = self.spark.read.format("delta").load(str(self.folder))
        assert found.where("at >= TIMESTAMP '2026-03-01 12:05:00.000001Z'").count() == 1
        assert found.where("at > TIMESTAMP '2026-03-01 12:05:00.000001Z'").count() == 0

    def test_rows_of_every_type_come_back_as_they_were(self) -> None:
        query = """SELECT 1L AS id, CAST(1 AS TINYINT) AS b, CAST(2 AS SMALLINT) AS s, 3 AS i, true AS t,
            CAST(1.5 AS FLOAT) AS f, CAST('NaN' AS DOUBLE) AS d, CAST(1.25 AS DECIMAL(10, 2)) AS m, 'ü' AS text,
            X'00FF' AS raw, DATE '2026-03-01' AS day, array(1L, null) AS list, map('a', 1.5D) AS map,
            named_struct('x', 1, 'y', array('z')) AS deep, CAST(null AS STRING) AS nothing"""
        sink = self.opened()
        receipt = sink.deliver(self.spark.sql(query), self.delivery(1, 1))
        sink.publish([receipt], Publication(end=2))
        spark_rows = self.spark.read.format("delta").load(str(self.folder)).collect()
        ours = reading.to_arrow(LakeTable(str(self.folder), "orders")).to_pylist()
        assert (len(spark_rows), spark_rows[0].text, spark_rows[0].deep.y) == (1, "ü", ["z"])
        assert (ours[0]["list"], ours[0]["map"], ours[0]["deep"]) == ([1, None], [("a", 1.5)], {"x": 1, "y": ["z"]})
        assert list(self.visible_ids()) == [1]

    def test_a_transform_that_fails_in_spark_fails_as_spark_says(self) -> None:
        with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|zero"):
            self.opened().deliver(self.spark.sql("SELECT id / 0 AS id FROM range(1)"), self.delivery(1, 1))

    def test_a_place_that_cannot_be_written_is_a_passing_fault(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1))
        data = self.folder / "data"
        os.rename(data, self.folder / "data.aside")
        data.write_text("in the way")
        with pytest.raises(errors.SinkUnavailable):
            self.deliver(sink, 2, 2)
