"""The generator: how many checkpoints there are by now, how rows are shared out, and what makes it another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.generator import GeneratorSource, Shares
from tidegate.sources.specs import GeneratorSpec, WatermarkKind
from tidegate.testing.clock import ManualClock

SECOND_US = 1_000_000


def spec(**options: Any) -> GeneratorSpec:
    given_ = {"rows_per_checkpoint": 100, "checkpoints": 10} | options
    return GeneratorSpec(name="made", watermark=WatermarkKind.CHECKPOINT, **given_)


def source(store: Store | None = None, clock: ManualClock | None = None, **options: Any) -> GeneratorSource:
    return GeneratorSource(spec(**options), store=store or MemoryStore(), clock=clock or ManualClock())


@given(st.integers(1, 50), st.integers(0, 500))
def test_every_row_of_a_checkpoint_belongs_to_one_part(parts: int, more: int) -> None:
    """The shares follow each other without a hole, and differ by one row at most."""
    shares = Shares(rows=parts + more, parts=parts)
    sizes = [shares.size(part) for part in range(parts)]
    assert [shares.start(part) for part in range(parts)] == [sum(sizes[:part]) for part in range(parts)]
    assert sum(sizes) == parts + more
    assert max(sizes) - min(sizes) <= 1


def test_without_a_rate_everything_is_there_at_once() -> None:
    there = source().discover(Range(3, 100))
    assert (there.numbers, there.highest, there.lowest) == (RangeSet([Range(3, 10)]), 9, 0)


def test_with_a_rate_checkpoints_come_as_the_clock_goes_also_after_a_restart() -> None:
    """50 rows a second and 100 a checkpoint: one each two seconds, from the first time that somebody looked."""
    store, clock = MemoryStore(), ManualClock()
    assert source(store, clock, rate_per_s=50.0).discover(Range(0, 100)).highest is None
    clock.advance(5 * SECOND_US)
    later = source(store, clock, rate_per_s=50.0)
    assert later.discover(Range(0, 100)).numbers == RangeSet([Range(0, 2)])
    clock.advance(3600 * SECOND_US)
    assert later.discover(Range(0, 100)).highest == 9


def test_a_silent_part_has_no_more_positions() -> None:
    """It stays at its end, so that it can be known to be quiet."""
    made = source(parts=2, silent={1: 2})
    before, after = made.slices(RangeSet.of(1, 2))
    assert before.parts == {"0": Range(50, 100), "1": Range(50, 100)}
    assert after.parts == {"0": Range(100, 150), "1": Range(100, 100)}
    assert (before.rows, after.rows) == (100, 50)


def test_the_parts_are_named_in_an_order_that_never_changes() -> None:
    assert source(parts=12).parts() == tuple(str(part) for part in range(12))


@pytest.mark.parametrize(
    "change",
    [{"seed": 8}, {"parts": 2}, {"skew_us": {0: 5}}, {"disorder_us": 1}, {"silent": {0: 3}}, {"step_us": 2}],
)
def test_a_generator_that_makes_other_rows_is_another_source(change: dict[str, Any]) -> None:
    assert source(**change).identity() != source().identity()


@pytest.mark.parametrize("change", [{"checkpoints": 20}, {"rate_per_s": 5.0}])
def test_more_of_the_same_rows_is_the_same_source(change: dict[str, Any]) -> None:
    assert source(**change).identity() == source().identity()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"checkpoints": None}, "checkpoints"),
        ({"parts": 0}, "at least one part"),
        ({"parts": 101}, "rows_per_checkpoint"),
        ({"rate_per_s": 0.0}, "rate"),
        ({"step_us": 0}, "step"),
        ({"skew_us": {1: 5}}, "no part 1"),
        ({"silent": {-1: 5}}, "no part -1"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(errors.ConfigError, match=says):
        replace(spec(), **options)
