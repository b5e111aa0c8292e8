"""What is counted of a source's rows is counted whole, whatever the transform does with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom

from tidegate.sources.contract import SourceRows
from tidegate.sources.intake import Taken, hashed, intake
from tidegate.spark import observing
from tidegate.spark.observing import Reach

pytestmark = pytest.mark.spark

ROWS = 1000
WHOLE = Taken(rows=ROWS - 1, dead=1, late=4, skewed=1, maxima={"0": 998_000, "1": 997_000})
Transform = Callable[[DataFrame], DataFrame]


def looks(df: DataFrame) -> DataFrame:
    df.isEmpty()
    return df.where("id >= 0")


def collects(df: DataFrame) -> DataFrame:
    return df.sparkSession.createDataFrame(df.limit(3).collect(), df.schema)


def joins_nothing(df: DataFrame) -> DataFrame:
    return df.join(df.sparkSession.range(0), "id")


TRANSFORMS: dict[str, Transform] = {
    "hands all on": lambda df: df.select("at", F.col("id").alias("key")),
    "hands all on in fewer tasks": lambda df: df.coalesce(1).select("at"),
    "filters all away": lambda df: df.where("1 = 0"),
    "repeats": lambda df: df.select(F.explode(F.array("id", "id"))),
    "has its rows twice": lambda df: df.unionByName(df),
    "sums": lambda df: df.groupBy(F.col("id") % 3).count(),
    "joins itself": lambda df: df.join(df.select("id"), "id"),
    "joins nothing": joins_nothing,
    "takes a few": lambda df: df.limit(5),
    "looks first": looks,
    "collects": collects,
    "makes its own": lambda df: df.sparkSession.range(3),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> SourceRows:
    df = spark.range(0, ROWS, 1, 2).withColumn("at", F.col("id") * 1000)
    return SourceRows(
        df=df,
        columns=("id", "at"),
        event_time=F.when(F.col("id") == 0, F.lit(10**15)).otherwise(F.col("at")),
        part=F.col("id") % 2,
        dead=F.col("id") == ROWS - 1,
    )


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_counts_are_those_of_all_rows(rows: SourceRows, tmp_path: Path, name: str) -> None:
    """Dead rows above all: one that is not counted would be gone without a word."""
    taken = counted(rows, tmp_path, TRANSFORMS[name])
    assert taken == WHOLE


@pytest.mark.parametrize("name", ["takes a few", "looks first", "makes its own", "hands all on"])
def test_they_are_also_where_the_rows_are_kept_for_several_sinks(rows: SourceRows, tmp_path: Path, name: str) -> None:
    assert counted(rows, tmp_path, TRANSFORMS[name], kept=True) == WHOLE


def counted(rows: SourceRows, tmp_path: Path, transform: Transform, *, kept: bool = False) -> Taken:
    observed, reading = intake(rows, ("0", "1"), late_before_us=5000, future_after_us=10**14)
    frame = transform(replace(rows, df=observed).good())
    reading.transformed(frame)
    if kept:
        frame = frame.persist()
        frame.count()
    frame.write.parquet(str(tmp_path / "out"))
    return reading.get()


def test_asked_before_an_action_it_reads_the_rows_by_itself(rows: SourceRows) -> None:
    """Nobody waits for an action that never comes."""
    _, reading = intake(rows, ("0", "1"), late_before_us=5000, future_after_us=10**14)
    assert reading.get() == WHOLE


def test_only_what_surely_hands_every_row_on_is_believed(rows: SourceRows) -> None:
    """The cheap way stays cheap: no second reading for a transform that selects and filters."""
    observed, _ = intake(rows, ("0", "1"), late_before_us=None, future_after_us=None)
    reach = {name: observing.reach(make(observed), observed) for name, make in TRANSFORMS.items()}
    assert {name for name, found in reach.items() if found is Reach.WHOLE} == {
        "hands all on", "hands all on in fewer tasks", "filters all away", "repeats", "has its rows twice",
        "looks first",
    }  # fmt: skip
    assert {name for name, found in reach.items() if found is Reach.NONE} == {"collects", "makes its own"}


def test_the_maxima_of_many_parts_are_exact(spark: SparkSession) -> None:
    """The hash by which a sketch knows a part is computed here as Spark does."""
    parts = 1500
    df = spark.range(0, parts * 3, 1, 4).select(
        (F.col("id") % parts).alias("part"), (F.lit(2**52) + F.col("id") * 7).alias("at")
    )
    rows = SourceRows(df=df, columns=("at",), event_time=F.col("at"), part=F.col("part"))
    _, reading = intake(rows, [str(n) for n in range(parts)], late_before_us=None, future_after_us=2**62)
    assert reading.get().maxima == {str(n): 2**52 + (parts * 2 + n) * 7 for n in range(parts)}
    assert len({hashed(n) for n in range(parts)}) == parts
