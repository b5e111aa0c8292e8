"""Ranges and sets of them, each against plain Python sets of integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress.ranges import EMPTY, Range, RangeSet

PLACE = st.integers(min_value=-30, max_value=30)
RANGE = st.builds(lambda a, b: Range(min(a, b), max(a, b)), PLACE, PLACE)
RANGES = st.lists(RANGE, max_size=12)
NUMBERS = st.sets(PLACE, max_size=40)


def made(numbers: set[int]) -> RangeSet:
    """The set, from single numbers."""
    return RangeSet.of(*numbers)


def listed(ranges: list[Range]) -> set[int]:
    """The slow model: every number of every range."""
    return {number for one in ranges for number in range(one.lo, one.hi)}


@given(RANGES)
def test_a_set_holds_exactly_the_numbers_of_its_ranges(ranges: list[Range]) -> None:
    """However they overlap, touch, repeat or are empty."""
    ours, model = RangeSet(ranges), listed(ranges)
    assert set(ours.numbers()) == model
    assert [number for number in range(-35, 35) if number in ours] == sorted(model)
    assert ours.size == len(model)
    assert bool(ours) is bool(model)
    assert (ours.lo, ours.hi) == ((min(model), max(model) + 1) if model else (None, None))


@given(RANGES)
def test_a_set_is_written_in_one_way(ranges: list[Range]) -> None:
    """Ascending, nothing empty, nothing touching: so equal sets are equal values with equal hashes."""
    ours = RangeSet(ranges)
    pieces = list(ours)
    assert all(pieces)
    assert all(a.hi < b.lo for a, b in pairwise(pieces))
    again = made(listed(ranges))
    assert (ours, hash(ours), len(ours)) == (again, hash(again), len(pieces))
    assert RangeSet.from_pairs(ours.pairs()) == ours
    assert [last - first + 1 for first, last in ours.inclusive_pairs()] == [len(piece) for piece in pieces]


@given(NUMBERS, NUMBERS)
@pytest.mark.parametrize("together", [operator.or_, operator.and_, operator.sub])
def test_two_sets_together_are_what_sets_of_integers_are(
    together: Callable[[set[int] | RangeSet, set[int] | RangeSet], set[int] | RangeSet], a: set[int], b: set[int]
) -> None:
    """Union, intersection, difference."""
    assert together(made(a), made(b)) == made(set(together(a, b)))  # type: ignore[arg-type]


@given(NUMBERS, RANGE)
@pytest.mark.parametrize("together", [operator.or_, operator.and_, operator.sub])
def test_a_set_and_a_range_together(
    together: Callable[[set[int] | RangeSet, set[int] | Range], set[int] | RangeSet], a: set[int], b: Range
) -> None:
    """The splices for one range agree with the sweep for many."""
    assert together(made(a), b) == made(set(together(a, listed([b]))))  # type: ignore[arg-type]


@given(NUMBERS, RANGE)
def test_a_range_is_covered_when_each_of_its_numbers_is_in(a: set[int], within: Range) -> None:
    """The empty one always is."""
    assert made(a).covers(within) is (listed([within]) <= a)


@given(NUMBERS, PLACE)
def test_the_unbroken_run_ends_at_the_first_missing_number(a: set[int], start: int) -> None:
    """Which is the start itself, where that is missing."""
    end = start
    while end in a:
        end += 1
    assert made(a).prefix_end(start) == end


@given(NUMBERS, RANGE)
def test_gaps_are_what_is_missing_within(a: set[int], within: Range) -> None:
    """And nothing outside."""
    assert made(a).gaps(within) == made(listed([within]) - a)


@given(RANGE, RANGE)
def test_two_ranges_meet_where_their_numbers_do(a: Range, b: Range) -> None:
    """Intersection, cover, membership, length."""
    assert set(a.intersect(b)) == set(a) & set(b)
    assert a.covers(b) is (set(b) <= set(a))
    assert (len(a), bool(a), a.is_empty) == (len(set(a)), bool(set(a)), not set(a))
    assert all((number in a) is (a.lo <= number < a.hi) for number in range(-31, 32))


@given(RANGE, st.integers(min_value=1, max_value=9))
def test_the_pieces_of_a_range_make_it_up(whole: Range, size: int) -> None:
    """In order, each full but the last."""
    pieces = whole.split(size)
    assert [number for piece in pieces for number in piece] == list(whole)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(0 < len(piece) <= size for piece in pieces)


def test_what_cannot_be_is_refused() -> None:
    """A range that ends before it starts, a chunk of nothing, the first number of nothing."""
    with pytest.raises(ValueError, match="cannot end at 1"):
        Range(2, 1)
    with pytest.raises(ValueError, match="chunk of 0"):
        Range(0, 5).split(0)
    with pytest.raises(ValueError, match="no first number"):
        _ = Range(3, 3).inclusive


def test_inclusive_names_are_only_at_the_edge() -> None:
    """`[3, 5]` of people is `[3, 6)` inside."""
    assert Range.of_inclusive(3, 5) == Range(3, 6)
    assert Range(3, 6).inclusive == (3, 5)
    assert str(Range(3, 6)) == "[3, 6)"
    assert repr(RangeSet.of(1, Range(4, 6))) == "RangeSet([1, 2), [4, 6))"


def test_a_billion_neighbours_cost_two_numbers() -> None:
    """Size follows gaps, not members."""
    many = EMPTY | Range(0, 10**9)
    assert (len(many), many.size, 999_999_999 in many, 10**9 in many) == (1, 10**9, True, False)


def test_sets_with_other_numbers_are_others() -> None:
    """And a set is nothing but a set."""
    assert RangeSet.of(1) != RangeSet.of(2)
    assert RangeSet.of(1) != EMPTY
    assert RangeSet.of(1) != [1]


def test_the_second_range_covers_as_the_first_does() -> None:
    two = RangeSet.of(0, 10)
    assert [two.covers(Range.one(n)) for n in (0, 1, 10, 11)] == [True, False, True, False]


def test_a_cut_at_a_boundary_leaves_no_empty_range() -> None:
    """Two sets are the same when they are written the same."""
    two = RangeSet.of(Range(0, 2), Range(5, 8))
    assert (two - Range(5, 6)).pairs() == [[0, 2], [6, 8]]
    assert (two - Range(0, 2)).pairs() == [[5, 8]]
    assert (two & Range(0, 5)).pairs() == [[0, 2]]
    assert (two & Range(2, 6)).pairs() == [[5, 6]]
