"""The scripted source keeps the contract of sources, and its rows come as Spark gives them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.sessions import small_session
from tidegate.progress.ranges import Range, RangeSet
from tidegate.testing.source_contract import NumberingSourceContract
from tidegate.testing.sources import CRASH, Crashed, Script, ScriptedSource

pytestmark = pytest.mark.spark

FIRST, HOLE = 3, 5
SCHEMA = "id BIGINT, at TIMESTAMP"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark"), master="local[1]") as session:
        yield session


class TestScriptedSource(NumberingSourceContract):
    numbers = (3, 4, 6)

    @pytest.fixture(autouse=True)
    def place(self, spark: SparkSession) -> None:
        self.spark = spark
        items = [[{"id": one} for one in self.ids(number)] for number in range(FIRST, 7)]
        self.script = Script(items, first=FIRST, missing=RangeSet.of(HOLE))

    def session(self) -> SparkSession:
        return self.spark

    def make(self) -> ScriptedSource:
        return ScriptedSource(self.script, SCHEMA)

    def ids(self, number: int) -> list[int]:
        return [number * 10, number * 10 + 1]

    def add(self, number: int) -> None:
        self.script.arrive(number)


def test_a_crash_strikes_who_reads_behind_it_once(spark: SparkSession) -> None:
    source = ScriptedSource(Script([[{"id": 1}], CRASH, [{"id": 2}]]), SCHEMA)
    slices = source.slices(RangeSet.of(Range(0, 2)))
    assert source.rows(spark, slices[:1]).good().count() == 1
    with pytest.raises(Crashed, match="checkpoint 1"):
        source.rows(spark, slices)
    assert source.rows(spark, slices).good().count() == 2
