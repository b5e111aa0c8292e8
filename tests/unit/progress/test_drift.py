"""Alignment of running sources: who is far ahead waits, who is behind never does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.progress.drift import Bound, bounds_of, drift, drift_or_wait
from tidegate.progress.groups import Group
from tidegate.progress.watermarks import Watermark

PAIR = Bound(group=Group(name="pair", sources=("a", "b")), max_drift=60)


def at(**values: int | None) -> dict[str, Watermark | None]:
    return {name: None if value is None else Watermark.of_integer(value) for name, value in values.items()}


def test_exactly_the_drift_is_within_it() -> None:
    assert not drift("a", [PAIR], at(a=60, b=0)).is_throttled
    throttled = drift("a", [PAIR], at(a=61, b=0))
    assert (throttled.is_throttled, throttled.ahead, throttled.waits_for) == (True, 61, ("b",))
    assert throttled.reason == "a is 61 ahead of b in group pair (at most 60)"
    assert not drift("a", [PAIR], at(a=61, b=1)).is_throttled


def test_a_member_that_never_reported_is_waited_for_and_runs_itself() -> None:
    """Else the first to report would run away from it."""
    first = drift("a", [PAIR], at(a=5, b=None))
    assert (first.is_throttled, first.waits_for, first.ahead) == (True, ("b",), None)
    assert first.reason == "a waits for b, which has not reported a watermark yet in group pair"
    assert not drift("b", [PAIR], at(a=5, b=None)).is_throttled
    assert drift("a", [PAIR], at(a=5)).is_throttled


def test_an_idle_member_is_not_waited_for() -> None:
    """It has nothing to say, and is known not to."""
    for b in (0, None):
        assert not drift("a", [PAIR], at(a=10**9, b=b), idle={"b"}).is_throttled


def test_every_group_of_the_source_must_hold() -> None:
    other = Bound(group=Group(name="other", sources=("a", "c")), max_drift=5)
    assert drift("a", [PAIR, other], at(a=10, b=0, c=5)).ahead == 10
    assert drift("a", [PAIR, other], at(a=10, b=0, c=4)).group == "other"
    same = Bound(group=Group(name="same", sources=("a", "c")), max_drift=99)
    assert drift("a", [PAIR, same], at(a=10, b=0, c=0)).group == "pair"
    assert drift("b", [other], at(a=0, b=99, c=0)).group is None


def test_a_drift_below_nothing_and_mixed_values_are_refused() -> None:
    with pytest.raises(ValueError, match="group pair cannot have a drift below 0"):
        Bound(group=PAIR.group, max_drift=-1)
    with pytest.raises(errors.MixedKinds):
        drift("a", [PAIR], {"a": Watermark.of_micros(1), "b": Watermark.of_integer(1)})


def test_whoever_cannot_be_compared_is_waited_for() -> None:
    """Nobody runs away because something is wrong."""
    mixed = drift_or_wait("a", [PAIR], {"a": Watermark.of_micros(1), "b": Watermark.of_integer(1)})
    assert (mixed.is_throttled, mixed.waits_for) == (True, ("b",))
    assert mixed.reason is not None
    assert "b: integer" in mixed.reason
    assert drift_or_wait("a", [PAIR], at(a=60, b=0)) == drift("a", [PAIR], at(a=60, b=0))
    assert [one.max_drift for one in bounds_of([PAIR.group, replace(PAIR.group, max_drift=0)])] == [0]


SOURCES = "abcd"


@given(
    st.lists(st.tuples(st.sets(st.sampled_from(SOURCES), min_size=1), st.integers(0, 10)), max_size=4),
    st.fixed_dictionaries({one: st.none() | st.integers(0, 30) for one in SOURCES}),
    st.sets(st.sampled_from(SOURCES)),
)
def test_it_is_the_rule_word_for_word_and_the_slowest_always_runs(
    groups: list[tuple[set[str], int]], values: dict[str, int | None], idle: set[str]
) -> None:
    """Throttled: in one of its groups another member that is not idle is too far behind, or said nothing yet."""
    bounds = [
        Bound(group=Group(name=f"g{n}", sources=tuple(sorted(sources))), max_drift=most)
        for n, (sources, most) in enumerate(groups)
    ]
    throttled = {one for one in SOURCES if drift(one, bounds, at(**values), idle=idle).is_throttled}
    for one in SOURCES:
        own = values[one]
        others = [(values[o], most) for sources, most in groups if one in sources for o in sources - {one} - idle]
        too_far = own is not None and any(value is None or own - value > most for value, most in others)
        assert (one in throttled) is too_far
    assert throttled != set(SOURCES)


def test_it_is_told_how_far_the_slowest_is_behind_and_waited_for_all_that_are_too_far() -> None:
    three = Bound(group=Group(name="three", sources=("a", "b", "c", "d")), max_drift=60)
    found = drift("a", [three], at(a=100, b=50, c=0, d=20))
    assert (found.ahead, found.waits_for) == (100, ("c", "d"))
    assert found.reason == "a is 100 ahead of c in group three (at most 60)"
