"""The parquet sink under Spark: the contract again, with what Spark really writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sessions import small_session
from tests.unit.sinks.test_parquet import ParquetCase
from tidegate import errors
from tidegate.sinks import parquet
from tidegate.testing.sink_contract import ROWS, ids_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


class TestParquetSinkUnderSpark(ParquetCase):
    """The contract, and what only Spark does."""

    @pytest.fixture(autouse=True)
    def session(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, rows: Sequence[dict[str, Any]]) -> DataFrame:
        values = ", ".join(f"({row['id']}L, {row['checkpoint']}L)" for row in rows)
        empty = "SELECT 0L AS id, 0L AS checkpoint WHERE false"
        return self.spark.sql(f"SELECT * FROM VALUES {values} AS t(id, checkpoint)" if rows else empty)

    def raw_ids(self, files: Iterable[str]) -> list[int]:
        return sorted(row["id"] for row in self.spark.read.parquet(*files).collect())

    def test_rows_and_sizes_are_those_of_the_files(self) -> None:
        receipt = self.deliver(self.opened(), 1, 4)
        assert sum(file.rows for file in receipt.files) == receipt.rows == 4 * ROWS
        assert all((self.folder / file.path).stat().st_size == file.size_bytes for file in receipt.files)
        assert self.raw_ids(str(self.folder / file.path) for file in receipt.files) == ids_of(1, 2, 3, 4)

    def test_plain_spark_reads_the_folder_and_our_reader_only_what_counts(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1))
        self.deliver(sink, 2, 2)
        assert self.raw_ids([str(self.folder)]) == ids_of(1, 2)
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_times_are_in_utc_with_microseconds(self) -> None:
        sink = self.opened()
        row = self.spark.sql("SELECT 1L AS id, TIMESTAMP '2026-03-01 12:05:00.000001Z' AS at")
        receipt = sink.deliver(row, self.delivery(1, 1))
        sink.publish([receipt], self.publication(2))
        manifest = parquet.read_manifest(str(self.folder))
        assert manifest is not None
        at = parquet.to_arrow(str(self.folder), manifest.files).column("at")
        assert str(at[0]) == "2026-03-01 12:05:00.000001+00:00"

    def test_a_file_that_takes_the_place_under_spark_is_a_passing_fault(self) -> None:
        sink = self.opened()
        self.folder.rename(self.folder.with_name("aside"))
        frame = self.frame([])
        Path(self.folder).write_text("in the way")
        with pytest.raises(errors.SinkUnavailable):
            sink.deliver(frame, self.delivery(1, 1))
