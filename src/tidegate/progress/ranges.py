"""Half-open ranges of integers, and sets of them whose size follows their gaps, not their members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The integers from `lo` up to, and without, `hi`."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise ValueError(f"a range cannot end at {self.hi} before it starts at {self.lo}")

    @classmethod
    def one(cls, number: int) -> Range:
        """The range of a single number."""
        return cls(number, number + 1)

    @classmethod
    def of_inclusive(cls, first: int, last: int) -> Range:
        """The range that people write as `[first, last]`."""
        return cls(first, last + 1)

    def __len__(self) -> int:
        return self.hi - self.lo

    def __bool__(self) -> bool:
        return self.lo < self.hi

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.lo <= number < self.hi

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lo, self.hi))

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi})"

    @property
    def is_empty(self) -> bool:
        """Whether there is no number in it."""
        return self.lo == self.hi

    @property
    def inclusive(self) -> tuple[int, int]:
        """First and last number, for surfaces. An empty range has neither."""
        if self.is_empty:
            raise ValueError(f"the empty range {self} has no first number")
        return self.lo, self.hi - 1

    def intersect(self, other: Range) -> Range:
        """The numbers in both; empty, and at the later start, where they do not meet."""
        lo = max(self.lo, other.lo)
        return Range(lo, max(lo, min(self.hi, other.hi)))

    def covers(self, other: Range) -> bool:
        """Whether every number of the other is in this one."""
        return other.is_empty or (self.lo <= other.lo and other.hi <= self.hi)

    def split(self, size: int) -> list[Range]:
        """Consecutive ranges of at most `size` numbers that make up this one."""
        if size < 1:
            raise ValueError(f"a chunk of {size} numbers is none")
        return [Range(lo, min(lo + size, self.hi)) for lo in range(self.lo, self.hi, size)]


class RangeSet:
    """An immutable set of integers.

    Kept as its sorted boundaries `lo, hi, lo, hi, ...`: membership is the parity of a binary search,
    adding one range is a splice, and a billion neighbours cost two numbers.
    """

    __slots__ = ("_bounds",)

    _bounds: tuple[int, ...]

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._bounds = _joined(sorted((r.lo, r.hi) for r in ranges if r))

    @classmethod
    def of(cls, *members: Range | int) -> RangeSet:
        """The set of these ranges and single numbers, in any order, overlapping or not."""
        return cls(m if isinstance(m, Range) else Range.one(m) for m in members)

    @classmethod
    def from_pairs(cls, pairs: Iterable[Iterable[int]]) -> RangeSet:
        """The set that `pairs()` described."""
        return cls(Range(lo, hi) for lo, hi in pairs)

    @classmethod
    def _made(cls, bounds: tuple[int, ...]) -> RangeSet:
        made = cls.__new__(cls)
        made._bounds = bounds
        return made

    def pairs(self) -> list[list[int]]:
        """`[[lo, hi], ...]`, half-open, for documents."""
        return [[lo, hi] for lo, hi in self._spans()]

    def inclusive_pairs(self) -> list[list[int]]:
        """`[[first, last], ...]`, for surfaces."""
        return [[lo, hi - 1] for lo, hi in self._spans()]

    def __iter__(self) -> Iterator[Range]:
        return (Range(lo, hi) for lo, hi in self._spans())

    def __len__(self) -> int:
        """How many ranges it takes; `size` counts the members."""
        return len(self._bounds) // 2

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._bounds == other._bounds

    def __hash__(self) -> int:
        return hash(self._bounds)

    def __repr__(self) -> str:
        return f"RangeSet({', '.join(str(r) for r in self)})"

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bisect_right(self._bounds, number) % 2 == 1

    @property
    def size(self) -> int:
        """How many numbers are in it."""
        return sum(self._bounds[1::2]) - sum(self._bounds[0::2])

    @property
    def lo(self) -> int | None:
        """The lowest number."""
        return self._bounds[0] if self._bounds else None

    @property
    def hi(self) -> int | None:
        """One more than the highest number."""
        return self._bounds[-1] if self._bounds else None

    def covers(self, other: Range) -> bool:
        """Whether every number of the range is in the set."""
        if other.is_empty:
            return True
        at = bisect_right(self._bounds, other.lo)
        return at % 2 == 1 and other.hi <= self._bounds[at]

    def prefix_end(self, start: int) -> int:
        """The end of the unbroken run that begins at `start`: `start` itself where that is missing."""
        at = bisect_right(self._bounds, start)
        return self._bounds[at] if at % 2 == 1 else start

    def gaps(self, within: Range) -> RangeSet:
        """What of `within` is missing."""
        return RangeSet((within,)) - self

    def numbers(self) -> Iterator[int]:
        """Each member, ascending."""
        return (n for lo, hi in self._spans() for n in range(lo, hi))

    def __or__(self, other: RangeSet | Range) -> RangeSet:
        if isinstance(other, Range):
            return self if other.is_empty else RangeSet._made(self._with(other.lo, other.hi))
        if len(other._bounds) > len(self._bounds):
            return other | self
        if len(other._bounds) <= 4:
            return RangeSet._made(self._with_few(other))
        return RangeSet._made(_joined(sorted((*self._spans(), *other._spans()))))

    def __sub__(self, other: RangeSet | Range) -> RangeSet:
        if isinstance(other, Range):
            return self if other.is_empty else RangeSet._made(self._without(other.lo, other.hi))
        return RangeSet._made(_swept(self._bounds, other._bounds, wanted=_IN_FIRST_ONLY))

    def __and__(self, other: RangeSet | Range) -> RangeSet:
        if isinstance(other, Range):
            return RangeSet._made(self._inside(other.lo, other.hi) if other else ())
        return RangeSet._made(_swept(self._bounds, other._bounds, wanted=_IN_BOTH))

    def _spans(self) -> Iterator[tuple[int, int]]:
        return zip(self._bounds[0::2], self._bounds[1::2], strict=True)

    def _with(self, lo: int, hi: int) -> tuple[int, ...]:
        # Odd: the boundary found lies inside a range, which then supplies the start or the end.
        at, to = bisect_left(self._bounds, lo), bisect_right(self._bounds, hi)
        return (*self._bounds[:at], *((lo,) * (at % 2 == 0)), *((hi,) * (to % 2 == 0)), *self._bounds[to:])

    def _with_few(self, few: RangeSet) -> tuple[int, ...]:
        made = self
        for lo, hi in few._spans():
            made = RangeSet._made(made._with(lo, hi))
        return made._bounds

    def _without(self, lo: int, hi: int) -> tuple[int, ...]:
        at, to = bisect_left(self._bounds, lo), bisect_right(self._bounds, hi)
        return (*self._bounds[:at], *((lo,) * (at % 2)), *((hi,) * (to % 2)), *self._bounds[to:])

    def _inside(self, lo: int, hi: int) -> tuple[int, ...]:
        at, to = bisect_right(self._bounds, lo), bisect_left(self._bounds, hi)
        return (*((lo,) * (at % 2)), *self._bounds[at:to], *((hi,) * (to % 2)))


_IN_FIRST_ONLY = 1
_IN_BOTH = 3


def _joined(spans: list[tuple[int, int]]) -> tuple[int, ...]:
    """The boundaries of sorted spans, where touching and overlapping ones are one."""
    bounds: list[int] = []
    for lo, hi in spans:
        if not bounds or lo > bounds[-1]:
            bounds += (lo, hi)
        elif hi > bounds[-1]:
            bounds[-1] = hi
    return tuple(bounds)


def _swept(first: tuple[int, ...], second: tuple[int, ...], *, wanted: int) -> tuple[int, ...]:
    """The boundaries of the places that are in exactly the wanted ones of two sets.

    A sweep over both lists of boundaries; bit 1 of `inside` stands for the first set, bit 2 for the second.
    """
    bounds: list[int] = []
    inside = at = to = 0
    while at < len(first) or to < len(second):
        place = min(first[at] if at < len(first) else second[to], second[to] if to < len(second) else first[at])
        was = inside == wanted
        if at < len(first) and first[at] == place:
            inside ^= 1
            at += 1
        if to < len(second) and second[to] == place:
            inside ^= 2
            to += 1
        if was != (inside == wanted):
            bounds.append(place)
    return tuple(bounds)


EMPTY = RangeSet()
