"""The rows of the generator are those of its rule, whoever reads them and how many at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.clock import SystemClock, from_micros
from tidegate.ledger.memory import MemoryStore
from tidegate.progress.ranges import RangeSet
from tidegate.sources.contract import Slice
from tidegate.sources.generator import GeneratorSource, Shares
from tidegate.sources.specs import EventTime, GeneratorSpec, WatermarkKind

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, 11, tzinfo=UTC)
SECOND_US = 1_000_000


def source(**options: Any) -> GeneratorSource:
    given = {
        "parts": 3, "rows_per_checkpoint": 11, "checkpoints": 9, "start_us": int(START.timestamp()) * SECOND_US,
        "step_us": SECOND_US, "seed": 7, "skew_us": {1: 20 * SECOND_US}, "silent": {2: 3},
    }  # fmt: skip
    spec = GeneratorSpec(
        name="made", watermark=WatermarkKind.EVENT_TIME, event_time=EventTime(column="at"), **(given | options)
    )
    return GeneratorSource(spec, store=MemoryStore(), clock=SystemClock())


def rows(spark: SparkSession, made: GeneratorSource, *numbers: int) -> list[Any]:
    slices: list[Slice] = made.slices(RangeSet.of(*numbers))
    return sorted(tuple(row) for row in made.rows(spark, slices).good().collect())


def test_ids_parts_and_times_follow_the_rule(spark: SparkSession) -> None:
    """Part 1 is 20 s behind; part 2 falls silent after its third checkpoint."""
    shares = Shares(rows=11, parts=3)
    expected = []
    for number in range(5):
        for part in range(3):
            if part == 2 and number >= 3:
                continue
            for at in range(shares.size(part)):
                position = number * shares.size(part) + at
                micros = int(START.timestamp()) * SECOND_US + (position - 20 * (part == 1)) * SECOND_US
                expected.append((number * 11 + shares.start(part) + at, part, from_micros(micros)))
    found = [(one[0], one[1], one[2].replace(tzinfo=UTC)) for one in rows(spark, source(), *range(5))]
    assert found == sorted(expected)


def test_the_same_rows_come_alone_and_together_and_from_another_object(spark: SparkSession) -> None:
    together = rows(spark, source(disorder_us=5 * SECOND_US), 0, 1, 4)
    alone = [one for number in (0, 1, 4) for one in rows(spark, source(disorder_us=5 * SECOND_US), number)]
    assert together == sorted(alone)


def test_disorder_makes_rows_late_by_no_more_than_it_says(spark: SparkSession) -> None:
    ordered, disordered = rows(spark, source(), 0, 1), rows(spark, source(disorder_us=5 * SECOND_US), 0, 1)
    behind = [(one[2] - other[2]).total_seconds() for one, other in zip(ordered, disordered, strict=True)]
    assert 0 <= min(behind) < max(behind) <= 5


def test_another_seed_makes_other_rows_of_the_same_ids(spark: SparkSession) -> None:
    one, other = rows(spark, source(), 0), rows(spark, source(seed=8), 0)
    assert [row[0] for row in one] == [row[0] for row in other]
    assert [row[3:] for row in one] != [row[3:] for row in other]


def test_a_checkpoint_of_silence_has_no_rows(spark: SparkSession) -> None:
    made = source(parts=1, skew_us={}, silent={0: 1})
    (silence,) = made.slices(RangeSet.of(2))
    assert (silence.rows, rows(spark, made, 2)) == (0, [])
