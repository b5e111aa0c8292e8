"""Event time as pure functions: the rules, one by one. `test_partitions` compares them with the tracker's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.progress.event_time import (
    AllIdle,
    blocking,
    combined,
    judge_idle,
    observe,
    with_parts,
    without_parts,
    woken,
)
from tidegate.progress.partition_state import PartState, TrackerState

TIMEOUT_US = 30

PART = st.builds(
    PartState,
    watermark_us=st.none() | st.integers(-20, 20),
    idle=st.booleans(),
    since_us=st.none() | st.integers(0, 50),
)
STATE = st.builds(
    TrackerState,
    parts=st.dictionaries(st.sampled_from("abcd"), PART),
    combined_us=st.none() | st.integers(-20, 20),
)
ALL_IDLE: st.SearchStrategy[AllIdle] = st.sampled_from(["max", "hold"])


def heard(state: TrackerState, now_us: int = 0, **maxima: int) -> TrackerState:
    """The state after these events, without lateness."""
    return observe(state, maxima, max_lateness_us=0, now_us=now_us)


def of(**marks: int | None) -> TrackerState:
    """A settled state of active parts."""
    state = TrackerState(parts={name: PartState(watermark_us=mark) for name, mark in marks.items()})
    return replace(state, combined_us=combined(state))


def silent(state: TrackerState, *names: str, now_us: int = 100) -> TrackerState:
    """The state in which these have been quiet for long enough."""
    return judge_idle(state, dict.fromkeys(names, now_us - TIMEOUT_US), timeout_us=TIMEOUT_US, now_us=now_us)


def test_the_least_part_holds_all() -> None:
    """The seed's example: 5000, 3000, 4000, 4500; without the second, 4000."""
    state = of(a=5000, b=3000, c=4000, d=4500)
    assert (state.combined_us, blocking(state)) == (3000, "b")
    state = silent(state, "b")
    assert (state.combined_us, blocking(state)) == (4000, "c")


def test_a_part_that_never_spoke_holds_all_until_it_is_idle() -> None:
    """And is idle by the same rule as any other."""
    state = of(a=5000, b=None)
    assert (state.combined_us, blocking(state)) == (None, "b")
    assert silent(state, "b").combined_us == 5000


def test_when_all_are_idle_the_greatest_counts_or_nothing_moves() -> None:
    """`max` of the seed, or `hold`."""
    state = of(a=5000, b=3000)
    quiet = dict.fromkeys("ab", 0)
    to_max = judge_idle(state, quiet, timeout_us=1, now_us=9, all_idle="max")
    held = judge_idle(state, quiet, timeout_us=1, now_us=9, all_idle="hold")
    assert (to_max.combined_us, held.combined_us, blocking(held)) == (5000, 3000, None)


def test_when_all_are_idle_and_none_ever_spoke_nothing_is_known() -> None:
    """There is nothing to be complete through."""
    assert silent(of(a=None, b=None), "a", "b").combined_us is None


def test_a_woken_part_that_is_behind_freezes_the_value_until_it_has_caught_up() -> None:
    """The value never falls, and nobody else can raise it meanwhile."""
    state = silent(of(a=5000, b=3000), "b")
    assert state.combined_us == 5000
    for maxima, value in [({"b": 4000}, 5000), ({"a": 7000}, 5000), ({"b": 6500}, 6500)]:
        state = observe(state, maxima, max_lateness_us=0, now_us=0)
        assert state.combined_us == value


def test_an_older_event_wakes_and_lowers_nothing() -> None:
    """Late rows are news of a part too."""
    state = heard(silent(of(a=5000, b=3000), "b"), now_us=7, b=2500)
    assert state.parts["b"] == PartState(watermark_us=3000, since_us=7)
    assert state.combined_us == 5000


def test_lateness_is_what_may_still_come() -> None:
    """An event at 5000 with a lateness of 1000 promises 4000."""
    assert observe(of(a=None), {"a": 5000}, max_lateness_us=1000, now_us=0).combined_us == 4000


def test_a_part_that_is_not_known_is_refused_by_name() -> None:
    """Not taken in quietly: a part that nobody reads would hold the watermark for good."""
    with pytest.raises(errors.UnknownPartition, match="partition z of source clicks"):
        observe(of(a=1), {"z": 1}, max_lateness_us=0, now_us=0, source="clicks")


def test_a_new_part_holds_what_comes_next_and_takes_back_nothing() -> None:
    """As after a rebalance."""
    state = with_parts(of(a=5000), ["a", "b"], now_us=3)
    assert (state.combined_us, blocking(state), state.parts["b"].since_us) == (5000, "b", 3)
    assert heard(state, a=9000).combined_us == 5000
    assert heard(state, a=9000, b=8000).combined_us == 8000


def test_a_part_that_goes_away_holds_nobody_and_takes_back_nothing() -> None:
    """Not even with a new one in its place, nor as the last."""
    assert without_parts(of(a=5000, b=2000), ["b"]).combined_us == 5000
    assert without_parts(with_parts(of(a=5000, b=4000), ["c"]), ["b"]).combined_us == 4000
    assert without_parts(of(a=5000), ["a"]) == TrackerState(combined_us=5000)


def test_silence_counts_from_when_the_part_fell_silent() -> None:
    """At the timeout, not before; however late somebody looks, it is idle since then."""
    state = of(a=9, b=3)
    quiet = {"b": 40}
    assert judge_idle(state, quiet, timeout_us=30, now_us=69) == state
    for now_us in (70, 700):
        assert judge_idle(state, quiet, timeout_us=30, now_us=now_us).parts["b"] == PartState(
            watermark_us=3, idle=True, since_us=40
        )


def test_a_part_of_which_no_silence_is_known_is_not_idle() -> None:
    """It may be paused, throttled or behind a gap: only its caller knows."""
    assert judge_idle(of(a=9, b=3), {}, timeout_us=1, now_us=10**9) == of(a=9, b=3)


def test_without_a_timeout_nothing_becomes_idle() -> None:
    """Nobody guesses that a part has nothing more to say."""
    assert judge_idle(of(a=9, b=3), {"b": 0}, timeout_us=None, now_us=10**15) == of(a=9, b=3)


def test_a_part_with_something_unpublished_is_awake() -> None:
    """And holds the others from then on."""
    state = woken(silent(of(a=5000, b=3000), "b"), ["b"], now_us=8)
    assert (state.parts["b"].idle, state.parts["b"].since_us, blocking(state)) == (False, 8, "b")
    assert heard(state, a=6000).combined_us == 5000


@given(STATE, st.lists(st.sampled_from("abcd"), unique=True))
def test_the_order_in_which_parts_go_idle_is_irrelevant(state: TrackerState, names: list[str]) -> None:
    """One by one in any order, or all at once: the same state."""
    at_once = silent(with_parts(state, names), *names)
    for order in list(permutations(names))[:6]:
        one_by_one = with_parts(state, names)
        for name in order:
            one_by_one = silent(one_by_one, name)
        assert one_by_one.parts == at_once.parts
        assert one_by_one.combined_us == at_once.combined_us


@given(STATE, st.dictionaries(st.sampled_from("abcd"), st.integers(-30, 30)), st.integers(0, 5), ALL_IDLE)
def test_events_of_several_parts_are_the_same_in_any_order(
    state: TrackerState, maxima: Mapping[str, int], lateness: int, all_idle: AllIdle
) -> None:
    """Where all parts are awake; a checkpoint's parts have no order."""
    state = with_parts(TrackerState(parts={n: replace(p, idle=False) for n, p in state.parts.items()}), maxima)
    state = replace(state, combined_us=combined(state))
    at_once = observe(state, maxima, max_lateness_us=lateness, now_us=1, all_idle=all_idle)
    singly = state
    for name in reversed(list(maxima)):
        singly = observe(singly, {name: maxima[name]}, max_lateness_us=lateness, now_us=1, all_idle=all_idle)
    assert singly == at_once


@given(STATE, ALL_IDLE)
def test_the_value_is_that_of_the_rule(state: TrackerState, all_idle: AllIdle) -> None:
    """The seed's pseudo-code, with "never" as the lowest number there is."""
    never = -1000
    now = [never if p.watermark_us is None else p.watermark_us for p in state.parts.values() if not p.idle]
    ever = [p.watermark_us for p in state.parts.values() if p.watermark_us is not None]
    greatest = max(ever, default=never) if all_idle == "max" else never
    value = min(now, default=greatest)
    value = max(value, never if state.combined_us is None else state.combined_us)
    assert combined(state, all_idle) == (None if value == never else value)


@given(STATE)
def test_a_state_survives_its_document(state: TrackerState) -> None:
    """Whole."""
    assert TrackerState.from_json(state.to_json()) == state


@given(STATE)
def test_the_part_that_blocks_is_one_without_which_others_could_go_on(state: TrackerState) -> None:
    """An active one, and none is lower."""
    name = blocking(state)
    active = {n: p for n, p in state.parts.items() if not p.idle}
    assert (name in active) if active else (name is None)
    if name is not None:
        lowest = active[name].watermark_us
        marks = [part.watermark_us for part in active.values()]
        assert (lowest is None) if None in marks else lowest == min(mark for mark in marks if mark is not None)


def test_the_same_value_again_moves_nothing_not_even_since_when() -> None:
    """It holds its value since it first had it."""
    first = heard(of(a=None), 10, a=5)
    assert heard(first, 20, a=5) == first


def test_a_part_at_zero_is_lower_than_one_above_it() -> None:
    """Zero is a value like any other: the first microsecond of 1970."""
    assert blocking(of(a=1, b=0)) == "b"
