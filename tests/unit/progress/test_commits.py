"""The commit tracker against a set of numbers and a loop."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tidegate.progress.commits import CommitTracker, Completion
from tidegate.progress.ranges import EMPTY, Range, RangeSet

# Numbers around the edges of the blocks in which the tracker keeps them.
START = st.sampled_from([-1500, -1, 0, 1, 1000, 1023, 1024, 5000])
OFFSET = st.one_of(
    st.integers(min_value=-2, max_value=8),
    st.integers(min_value=-2, max_value=8),
    st.integers(min_value=-20, max_value=40),
    st.integers(min_value=1010, max_value=1040),
    st.integers(min_value=2030, max_value=2060),
    st.integers(min_value=0, max_value=5000),
)


@dataclass(frozen=True)
class One:
    """A single number completes."""

    offset: int


@dataclass(frozen=True)
class Many:
    """A range completes."""

    offset: int
    size: int


STEP = st.one_of(st.builds(One, OFFSET), st.builds(Many, OFFSET, st.one_of(st.integers(0, 4), st.integers(0, 2500))))
STEPS = st.lists(STEP, max_size=12)


class Model:
    """The obvious tracker: all numbers in a set, the end found by counting up."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.done: set[int] = set()
        self.duplicates = 0

    @property
    def end(self) -> int:
        end = self.start
        while end in self.done:
            end += 1
        return end

    def complete(self, numbers: range) -> None:
        for number in numbers:
            if number < self.start or number in self.done:
                self.duplicates += 1
            else:
                self.done.add(number)


def agrees(kind: type[CommitTracker], start: int, steps: list[One | Many]) -> bool:
    """Whether the tracker and the model say the same after each step."""
    ours, model = kind(start), Model(start)
    for step in steps:
        if isinstance(step, One):
            ours.complete_one(start + step.offset)
            model.complete(range(start + step.offset, start + step.offset + 1))
        else:
            span = Range(start + step.offset, start + step.offset + step.size)
            end, before = model.end, model.duplicates
            told = ours.complete(span)
            model.complete(range(span.lo, span.hi))
            if told != Completion(model.end, Range(end, model.end), model.duplicates - before):
                return False
        if (ours.end, ours.duplicates) != (model.end, model.duplicates):
            return False
    beyond = {number for number in model.done if number >= model.end}
    return ours.ahead == RangeSet.of(*beyond) and ours.committed == RangeSet.of(*model.done)


@given(START, STEPS)
def test_the_tracker_is_a_set_with_an_unbroken_start(start: int, steps: list[One | Many]) -> None:
    """End, advances, duplicates, what is ahead: after every step."""
    assert agrees(CommitTracker, start, steps)


class Forgetful(CommitTracker):
    """A broken one: it takes a number that completes at the end, and does not look at what lies ahead of it."""

    def _advance(self) -> int:
        self._end += 1
        return self._end


class Leading(CommitTracker):
    """A broken one: the mark jumps over a gap of one."""

    def complete_one(self, number: int) -> int:
        return super().complete_one(self.end if number == self.end + 1 else number)


TRIES = settings(database=None, derandomize=True, max_examples=500, phases=[Phase.generate])


@pytest.mark.parametrize("broken", [Forgetful, Leading])
def test_the_comparison_finds_a_broken_tracker(broken: type[CommitTracker]) -> None:
    """A harness that cannot fail is no test."""
    assert find(STEPS, lambda steps: not agrees(broken, 0, steps), settings=TRIES)


@given(START, st.permutations(range(12)))
def test_the_order_of_completions_is_irrelevant(start: int, order: list[int]) -> None:
    """Whatever the order, all of them are complete at the end, and the mark never fell or led on the way."""
    tracker = CommitTracker(start)
    done: set[int] = set()
    for at in order:
        before = tracker.end
        end = tracker.complete_one(start + at)
        done.add(start + at)
        assert before <= end
        assert all(number in done for number in range(start, end))
    assert (tracker.end, tracker.gaps, tracker.ahead) == (start + 12, RangeSet(), RangeSet())


@given(START, st.lists(OFFSET, max_size=30))
def test_many_at_once_are_each_after_the_other(start: int, offsets: list[int]) -> None:
    """`complete_many` tells the sum of what the single calls did."""
    together, singly = CommitTracker(start), CommitTracker(start)
    told = together.complete_many([start + offset for offset in offsets])
    for offset in offsets:
        singly.complete_one(start + offset)
    assert told == Completion(singly.end, Range(start, singly.end), singly.duplicates)
    assert together.committed == singly.committed


@given(START, STEPS)
def test_a_tracker_restored_from_what_is_committed_goes_on_as_the_first(start: int, steps: list[One | Many]) -> None:
    """A restart forgets only the count of duplicates."""
    first = CommitTracker(start)
    for step in steps:
        size = 1 if isinstance(step, One) else step.size
        first.complete(Range(start + step.offset, start + step.offset + size))
    again = CommitTracker(start, first.committed)
    assert (again.end, again.ahead, again.gaps, again.duplicates) == (first.end, first.ahead, first.gaps, 0)
    assert all((number in again) is (number in first) for number in range(start - 3, start + 60))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_a_checkpoint_is_complete_once_all_its_rows_are(parts: list[tuple[int, int]]) -> None:
    """In any order, overlapping, repeated."""
    tracker, seen = CommitTracker(7), set[int]()
    for a, b in parts:
        rows = Range(min(a, b), max(a, b) + 1)
        tracker.complete_part(7, rows, 10)
        seen |= set(rows)
        assert tracker.end == (8 if len(seen) == 10 else 7)
        assert tracker.partial == (RangeSet() if len(seen) == 10 else RangeSet.of(7))


def test_a_checkpoint_without_rows_is_complete_at_once() -> None:
    """An empty file is an empty checkpoint."""
    tracker = CommitTracker(7)
    assert tracker.complete_part(7, Range(0, 0), 0).end == 8


def test_rows_that_do_not_fit_are_refused() -> None:
    """Another total, or rows beyond it: the number would complete with rows missing."""
    tracker = CommitTracker(7)
    tracker.complete_part(7, Range(0, 3), 10)
    with pytest.raises(ValueError, match="do not fit checkpoint 7"):
        tracker.complete_part(7, Range(3, 4), 4)
    with pytest.raises(ValueError, match="do not fit checkpoint 7"):
        tracker.complete_part(7, Range(3, 11), 10)


def test_what_is_complete_beyond_a_gap_takes_room_by_its_gaps() -> None:
    """Tens of thousands of neighbours are one range and two edges, in whatever steps they came."""
    tracker = CommitTracker(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, 80_000):
        tracker.complete_one(number)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 10_000
    assert (tracker.end, tracker.ahead) == (0, RangeSet.of(Range(1, 80_000)))


def test_room_ends_a_bound_past_the_gap() -> None:
    """Planning ahead of a gap is bounded."""
    tracker = CommitTracker(1000)
    tracker.complete(Range(1000, 1004))
    tracker.complete_one(1005)
    assert (tracker.room(10), tracker.gaps) == (Range(1004, 1014), RangeSet.of(1004))


@pytest.mark.parametrize("lo", [0, 1, 1023, 1024])
@pytest.mark.parametrize("size", [1023, 1024, 1025, 2047, 2048, 2049])
def test_a_range_ends_exactly_where_it_ends(lo: int, size: int) -> None:
    """At every edge of the blocks: complete is the range, and all of it is a duplicate the second time."""
    tracker, done = CommitTracker(-1), Range(lo, lo + size)
    assert tracker.complete(done) == Completion(-1, Range(-1, -1), 0)
    assert tracker.ahead == RangeSet.of(done)
    assert tracker.complete(done).duplicates == tracker.duplicates == size


def test_a_number_that_closes_the_gap_before_a_full_block_passes_the_block() -> None:
    """Also when nothing but full blocks is kept; a number of such a block is a duplicate."""
    tracker = CommitTracker(1023)
    tracker.complete(Range(1024, 2048))
    tracker.complete_one(1500)
    assert tracker.duplicates == 1
    assert tracker.complete_one(1023) == 2048


def test_only_numbers_from_the_start_on_are_in_it() -> None:
    """Below it nothing is known, though it counts as done; a word is no number."""
    tracker = CommitTracker(7)
    tracker.complete_one(7)
    assert [number in tracker for number in (6, 7, 8, "7")] == [False, True, False, False]


def test_duplicates_are_counted_once_each() -> None:
    """A batch tells its own; a part that repeats is one, the first of a checkpoint none."""
    tracker = CommitTracker(7)
    assert [tracker.complete_many([7, 7]).duplicates, tracker.complete_many([7, 8, 8]).duplicates] == [1, 2]
    assert tracker.complete_part(9, Range(0, 3), 10) == Completion(9, Range(9, 9), 0)
    assert tracker.complete_part(9, Range(0, 3), 10) == Completion(9, Range(9, 9), 1)
    assert tracker.duplicates == 4


def test_the_parts_of_the_next_checkpoint_are_kept_when_the_end_reaches_it() -> None:
    """Only those below the end are forgotten."""
    tracker = CommitTracker(7)
    tracker.complete_part(7, Range(0, 1), 2)
    tracker.complete_part(8, Range(0, 1), 2)
    assert (tracker.complete_one(7), tracker.partial) == (8, RangeSet.of(8))


def test_a_number_that_is_complete_is_not_partial() -> None:
    """Though it was completed as a whole before all its parts came, and beyond a gap."""
    tracker = CommitTracker(7)
    tracker.complete_part(9, Range(0, 1), 2)
    tracker.complete_one(9)
    assert tracker.partial == EMPTY
