"""What is due: each missing number of each sink in exactly one piece, and never one that runs or must wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.pipelines.plan import BatchLimits, batches, fair_share
from tidegate.pipelines.work import Tries, Workload, due, pieces
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import Slice

BATCH = Range(10, 30)
numbers = st.sets(st.integers(5, 35))


@given(numbers, numbers, st.sets(st.integers(5, 35), max_size=4), st.integers(5, 35))
def test_pieces_cover_what_is_missing_exactly_once(
    had_a: set[int], had_b: set[int], cuts: set[int], start_b: int
) -> None:
    """For each sink the pieces that name it are the numbers it lacks, each once; none reaches over a cut."""
    had = {"a": had_a, "b": had_b}
    load = Workload(
        batches=[BATCH],
        delivered={name: RangeSet.of(*done) for name, done in had.items()},
        starts={"a": 0, "b": start_b},
        tries=Tries(cuts=frozenset(cuts)),
    )
    found = pieces(load, BATCH)
    for name, start in (("a", 0), ("b", start_b)):
        named = [n for piece in found if name in piece.sinks for n in piece.range]
        assert named == [n for n in BATCH if n not in had[name] and n >= start]
    assert not [cut for cut in cuts for piece in found if piece.range.lo < cut < piece.range.hi]


def test_what_runs_is_not_handed_out_again() -> None:
    load = Workload(batches=[BATCH], delivered={"a": RangeSet()}, running=RangeSet.of(Range(12, 13)))
    assert due(load, now_us=0) == []


def test_a_failed_piece_waits_for_its_time_and_fresh_work_goes_first() -> None:
    second = Range(30, 40)
    tries = Tries().noted("a", BATCH, retry_at_us=100)
    load = Workload(batches=[BATCH, second], delivered={"a": RangeSet()}, tries=tries)
    assert [piece.range for piece in due(load, now_us=99)] == [second]
    assert [piece.range for piece in due(load, now_us=100)] == [second, BATCH]


def test_a_sink_that_gave_up_does_not_hold_the_others() -> None:
    tries = Tries().noted("a", BATCH, retry_at_us=None)
    load = Workload(batches=[BATCH], delivered={"a": RangeSet(), "b": RangeSet()}, tries=tries)
    assert [piece.sinks for piece in due(load, now_us=0)] == [("b",)]


def test_a_batch_that_fails_for_good_is_tried_in_halves() -> None:
    tries = Tries().split("a", BATCH)
    load = Workload(batches=[BATCH], delivered={"a": RangeSet()}, tries=tries)
    assert [piece.range for piece in due(load, now_us=0)] == [Range(10, 20), Range(20, 30)]


def test_a_success_gives_the_sink_its_budget_back() -> None:
    tries = Tries().noted("a", BATCH, retry_at_us=None).succeeded("a", Range(30, 31))
    assert tries.attempts("a", BATCH) == 0
    assert tries.next_at_us == 0


@given(
    st.sets(st.integers(0, 40), max_size=30),
    st.integers(1, 10),
    st.one_of(st.none(), st.integers(1, 50)),
    st.sets(st.integers(0, 40), max_size=4),
)
def test_batches_are_contiguous_within_limits_and_end_at_stops(
    present: set[int], most: int, max_events: int | None, stops: set[int]
) -> None:
    """Every slice is in exactly one batch, in order; no batch has a hole, is too large, or reaches over a stop."""
    slices = [Slice(number=n, parts={"0": Range.one(n)}, rows=n % 7) for n in sorted(present)]
    made = batches(slices, BatchLimits(max_checkpoints=8, max_events=max_events), stops=stops, most=most)
    assert [one for batch in made for one in batch] == slices
    for batch in made:
        first, last = batch[0].number, batch[-1].number
        assert [one.number for one in batch] == list(range(first, last + 1))
        assert len(batch) <= min(most, 8)
        assert not [stop for stop in stops if first < stop <= last]
        assert max_events is None or len(batch) == 1 or sum(one.rows or 0 for one in batch) <= max_events


@given(st.integers(1, 5000), st.integers(1, 8), st.integers(1, 1000))
def test_all_slots_get_work_and_no_batch_is_larger_than_allowed(count: int, slots: int, most: int) -> None:
    share = fair_share(count, slots, most)
    assert 1 <= share <= most
    assert share == most or share * slots >= count
