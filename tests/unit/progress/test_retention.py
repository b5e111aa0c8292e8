"""What retention gives up, against asking each piece one by one; and a pruner that dies at any chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress.marks import Marks
from tidegate.progress.ranges import Range
from tidegate.progress.retention import (
    Extent,
    Floor,
    Hold,
    Pruning,
    Retention,
    lowered,
    retention_floor,
    round_down,
)

NOW_US = 1_000


@st.composite
def published(draw: st.DrawFn) -> tuple[Marks, list[Extent]]:
    """Marks and the pieces that make up the readable range, ages ascending."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    ages = sorted(draw(st.lists(st.integers(0, 900), min_size=len(sizes), max_size=len(sizes))))
    extents, at = [], 100
    for size, age in zip(sizes, ages, strict=True):
        bytes_ = draw(st.integers(0, 50))
        extents.append(Extent(range=Range(at, at + size), at_us=age, size_bytes=bytes_))
        at += size
    below = draw(st.integers(0, len(extents) - 1))
    marks = Marks.starting(100).advanced(at).raised(extents[below].range.lo, now_us=0, delay_us=0)
    return marks, extents[below:]


RETENTION = st.builds(
    lambda checkpoints, age, size: Retention(checkpoints=checkpoints, age_us=age, bytes=size),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 1000),
    st.none() | st.integers(1, 300),
)


def wanted(piece: int, extents: list[Extent], retention: Retention) -> bool:
    """The slow model: does any of the bounds that are set want this piece?"""
    one, end = extents[piece], extents[-1].range.hi
    by_count = retention.checkpoints is not None and one.range.hi > end - retention.checkpoints
    younger = any(later.at_us >= NOW_US - (retention.age_us or 0) for later in extents[: piece + 1])
    by_age = retention.age_us is not None and younger
    from_here = sum(later.size_bytes for later in extents[piece:])
    by_size = retention.bytes is not None and from_here <= retention.bytes
    return by_count or by_age or by_size


@given(published(), RETENTION)
def test_a_piece_stays_while_any_bound_wants_it(state: tuple[Marks, list[Extent]], retention: Retention) -> None:
    """And those after it; the floor lies on the start of a piece, within the readable range."""
    marks, extents = state
    floor = retention_floor(marks, retention, extents=extents, now_us=NOW_US)
    kept = [at for at in range(len(extents)) if wanted(at, extents, retention)]
    first = kept[0] if kept else len(extents)
    expected = extents[first].range.lo if first < len(extents) else extents[-1].range.hi
    assert floor == (expected if retention.is_set else marks.readable.lo)


def test_the_seeds_own_example() -> None:
    """`hi - retention + 1`: 1004 complete, four kept, so readers start at 1001."""
    marks = Marks.starting(1000).advanced(1005)
    assert retention_floor(marks, Retention(checkpoints=4)) == 1001


@pytest.mark.parametrize("bound", ["checkpoints", "age_us", "bytes"])
def test_a_retention_that_keeps_nothing_is_refused(bound: str) -> None:
    """It would give up the newest checkpoint as it comes."""
    with pytest.raises(ValueError, match="keeps nothing"):
        Retention(**{bound: 0})


@given(st.integers(0, 50), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=6))
def test_every_hold_is_respected(number: int, held: list[tuple[str, int]]) -> None:
    """The floor is the least of all, and names whoever is below what was wanted, lowest first."""
    holds = [Hold(holder=who, number=at) for who, at in held]
    floor = lowered(number, holds)
    assert floor.number == min([number, *(hold.number for hold in holds)])
    assert set(floor.held_by) == {hold for hold in holds if hold.number < number}
    assert [hold.number for hold in floor.held_by] == sorted(hold.number for hold in floor.held_by)


def test_nobody_holds_what_is_wanted_anyway() -> None:
    """A hold at the floor itself does not bind."""
    assert lowered(7, [Hold(holder="a", number=7)]) == Floor(number=7)


def test_a_floor_inside_a_piece_goes_down_to_its_start() -> None:
    """A file is deleted as a whole."""
    extents = [Extent(range=Range(0, 5), at_us=0, size_bytes=1), Extent(range=Range(5, 9), at_us=0, size_bytes=1)]
    assert [round_down(number, extents) for number in (0, 4, 5, 8, 9)] == [0, 0, 5, 5, 9]


@given(st.data(), st.integers(0, 40), st.integers(1, 9))
def test_a_pruner_whose_chunks_fail_at_random_deletes_all_and_never_leads(
    data: st.DataObject, target: int, size: int
) -> None:
    """Its mark is below the first chunk that failed; what was deleted is not deleted again."""
    pruning, gone = Pruning(start=0), set[int]()
    for last in (False, False, True):
        for chunk in pruning.chunks(target, size):
            assert not gone & set(chunk)
            assert len(chunk) <= size
            if last or data.draw(st.booleans()):
                gone |= set(chunk)
                pruning = pruning.done(chunk)
            assert set(range(pruning.pruned_end)) <= gone
    assert gone == set(range(target))
    assert pruning.pruned_end == target
    assert pruning.chunks(target, size) == []


THREE = [Extent(range=Range(at, at + 1), at_us=at * 100, size_bytes=1) for at in (0, 1, 2)]


@pytest.mark.parametrize(
    ("retention", "floor"),
    [
        (Retention(age_us=100), 1),
        (Retention(age_us=99), 2),
        (Retention(age_us=200), 0),
        (Retention(bytes=2), 1),
        (Retention(bytes=3), 0),
    ],
)
def test_exactly_the_bound_is_kept(retention: Retention, floor: int) -> None:
    """What is as old as may be, and as many bytes as may be."""
    assert retention_floor(Marks.starting(0).advanced(3), retention, extents=THREE, now_us=200) == floor


def test_of_nothing_published_nothing_is_given_up() -> None:
    for retention in (Retention(age_us=1), Retention(bytes=1)):
        assert retention_floor(Marks.starting(0).advanced(3), retention, now_us=200) == 0
