"""The three marks: what may rise, when the pruner's target is due, and what can never be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.progress.marks import Marks
from tidegate.progress.ranges import Range

DELAY_US = 100


def test_the_seeds_own_example() -> None:
    """Complete to 1003 from 1000 on; readers from 1002; 1000 and 1001 deleted: `pruner_hi` is 1001, inclusive."""
    marks = Marks.starting(1000).advanced(1004)
    assert (marks.checkpoint_hi_inclusive, marks.reader_lo, marks.pruner_hi) == (1003, 1000, None)
    marks = marks.raised(1002, now_us=0, delay_us=DELAY_US)
    assert (marks.readable, marks.prunable) == (Range(1002, 1004), Range(1000, 1002))
    assert not marks.due(DELAY_US - 1)
    assert marks.due(DELAY_US) == Range(1000, 1002)
    assert marks.pruned(1002).pruner_hi == 1001


def test_before_the_first_plan_nothing_is_known() -> None:
    """And nothing can move."""
    assert (Marks().readable, Marks().prunable, Marks().to_json()) == (Range(0, 0), Range(0, 0), {})
    moves: list[Callable[[], Marks]] = [
        lambda: Marks().advanced(3),
        lambda: Marks().pruned(3),
        lambda: Marks().raised(3, now_us=0, delay_us=0),
        lambda: Marks().backfilled(Range(0, 3)),
    ]
    for move in moves:
        with pytest.raises(ValueError, match="without a first checkpoint"):
            move()


@pytest.mark.parametrize(
    "impossible",
    [
        {"first": 1},
        {"first": 5, "end": 4, "reader_lo": 5},
        {"first": 5, "end": 9, "reader_lo": 4},
        {"first": 5, "end": 9, "reader_lo": 10},
        {"first": 5, "end": 9, "reader_lo": 6, "pruned_end": 7},
        {"first": 5, "end": 9, "reader_lo": 6, "pruned_end": 5},
        {"first": 5, "end": 9, "reader_lo": 7, "prune_to": 7},
        {"first": 5, "end": 9, "reader_lo": 7, "prune_to": 8, "prune_due_us": 1},
    ],
)
def test_marks_that_cannot_be_are_refused(impossible: dict[str, int]) -> None:
    """At birth, so that no document holds them."""
    with pytest.raises(ValueError, match="cannot be"):
        Marks(**impossible)


def test_steady_rises_do_not_starve_the_pruner() -> None:
    """A rise while a target waits leaves that target due when it was."""
    marks = Marks.starting(0).advanced(1000)
    for now_us in range(0, 300, 10):
        marks = marks.raised(now_us // 10, now_us=now_us, delay_us=DELAY_US)
    assert marks.due(110) == Range(0, 1)
    marks = marks.pruned(1)
    assert not marks.due(290 + DELAY_US - 1)
    assert marks.due(290 + DELAY_US) == Range(1, 29)


@dataclass
class Rise:
    """One rise of the lower mark, for the model."""

    number: int
    at_us: int


class MarksMachine(RuleBasedStateMachine):
    """Any sequence of moves: marks never fall, and nothing is deleted that readers had within the delay."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = Marks.starting(100)
        self.now_us = 0
        self.rises: list[Rise] = []

    def took(self, marks: Marks) -> None:
        """The next marks, which are nowhere below the last."""
        before, self.marks = self.marks, marks
        assert marks.end is not None
        assert before.end is not None
        assert marks.reader_lo is not None
        assert before.reader_lo is not None
        assert marks.end >= before.end
        assert marks.reader_lo >= before.reader_lo
        assert (marks.pruned_end or 0) >= (before.pruned_end or 0)

    @rule(end=st.integers(90, 140))
    def advance(self, end: int) -> None:
        """Completion, also stale."""
        before = self.marks.end or 0
        self.took(self.marks.advanced(end))
        assert self.marks.end == max(before, end)

    @rule(number=st.integers(90, 140))
    def give_up(self, number: int) -> None:
        """Retention, within the complete range."""
        number = min(number, self.marks.end or 0)
        if number > (self.marks.reader_lo or 0):
            self.rises.append(Rise(number, self.now_us))
        self.took(self.marks.raised(number, now_us=self.now_us, delay_us=DELAY_US))

    @rule(passed_us=st.integers(0, 150))
    def wait(self, passed_us: int) -> None:
        """Time."""
        self.now_us += passed_us

    @rule(size=st.integers(1, 20))
    def prune(self, size: int) -> None:
        """Delete a chunk of what is due: each number of it was given up at least the delay ago."""
        due = self.marks.due(self.now_us)
        for number in due:
            given_up = min(rise.at_us for rise in self.rises if rise.number > number)
            assert self.now_us - given_up >= DELAY_US
        if due:
            self.took(self.marks.pruned(due.split(size)[0].hi))

    @rule()
    def settle(self) -> None:
        """Everything given up is due within two delays, and then nothing is left."""
        self.now_us += DELAY_US
        self.took(self.marks.pruned(self.marks.due(self.now_us).hi))
        self.now_us += DELAY_US
        self.took(self.marks.pruned(self.marks.due(self.now_us).hi))
        assert not self.marks.prunable
        assert self.marks.prune_to is None

    @invariant()
    def holds(self) -> None:
        """The order of the marks, the names of the seeds, and the document."""
        marks = self.marks
        assert Marks.from_json(marks.to_json()) == marks
        assert marks.prunable.hi == marks.readable.lo
        assert marks.prunable.covers(marks.due(self.now_us))
        hi = marks.checkpoint_hi_inclusive
        assert hi is None or list(marks.readable)[-1:] in ([hi], [])


TestMarksMachine = MarksMachine.TestCase
TestMarksMachine.settings = settings(stateful_step_count=25)


@given(st.integers(0, 40), st.integers(0, 20))
def test_a_backfilled_lane_joins_where_it_meets(lo: int, size: int) -> None:
    """The complete range grows either way; the reader mark stays; a lane that does not meet it is refused."""
    marks, lane = Marks.starting(20).advanced(30), Range(lo, lo + size)
    if lane.hi < 20 or lane.lo > 30:
        with pytest.raises(ValueError, match="does not meet"):
            marks.backfilled(lane)
        return
    joined = marks.backfilled(lane)
    assert (joined.first, joined.end, joined.reader_lo) == (min(20, lo) if size else 20, max(30, lo + size), 20)


def test_pruning_a_part_leaves_the_rest_due_when_it_was() -> None:
    """Though readers have risen meanwhile: what they gave up since is due later."""
    marks = Marks.starting(0).advanced(30).raised(10, now_us=0, delay_us=5).raised(20, now_us=3, delay_us=5)
    assert (marks.pruned(4).due(5), marks.pruned(10).due(7), marks.pruned(10).due(8)) == (
        Range(4, 10),
        Range(10, 10),
        Range(10, 20),
    )


def test_a_target_of_the_pruner_that_is_reached_is_none() -> None:
    """Nothing lies between them."""
    with pytest.raises(ValueError, match="pruned_end < prune_to"):
        Marks(first=0, end=9, reader_lo=5, pruned_end=5, prune_to=5, prune_due_us=1)
