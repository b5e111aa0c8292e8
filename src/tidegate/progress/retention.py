"""How far readers' lower mark may rise, what holds the pruner back, and which chunks it deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.progress.marks import Marks
from tidegate.progress.ranges import EMPTY, Range, RangeSet
from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much is kept. Data stays while any of the bounds that are set wants it; none set keeps all."""

    checkpoints: int | None = None
    age_us: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("checkpoints", "age_us", "bytes"):
            bound = getattr(self, name)
            if bound is not None and bound < 1:
                raise ValueError(f"a retention of {bound} {name} keeps nothing")

    @property
    def is_set(self) -> bool:
        """Whether anything is ever given up."""
        return self.checkpoints is not None or self.age_us is not None or self.bytes is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """One piece that is kept or deleted as a whole: the files of a batch."""

    range: Range
    at_us: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Somebody who still needs everything from a number on, and who it is."""

    holder: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A lower bound, and who keeps it from being higher."""

    number: int
    held_by: tuple[Hold, ...] = ()


def retention_floor(marks: Marks, retention: Retention, *, extents: Sequence[Extent] = (), now_us: int = 0) -> int:
    """The `reader_lo` that the retention wants: never below the present one, never above the end.

    `extents` ascend and are the published pieces; age and bytes are judged by them, and a floor inside
    one of them is rounded down to its start, because it is deleted as a whole.
    """
    readable = marks.readable
    if not retention.is_set or not readable:
        return readable.lo
    wishes = (_by_count(retention, marks), _by_age(retention, extents, now_us), _by_bytes(retention, extents))
    wanted = min(wish for wish in wishes if wish is not None)
    return min(readable.hi, max(readable.lo, round_down(wanted, extents)))


def round_down(number: int, extents: Sequence[Extent]) -> int:
    """The start of the extent that `number` falls into, or the number itself."""
    return next((extent.range.lo for extent in extents if number in extent.range), number)


def lowered(number: int, holds: Sequence[Hold]) -> Floor:
    """The bound that respects every hold, with the ones that lower it, lowest first."""
    binding = tuple(sorted((h for h in holds if h.number < number), key=lambda h: (h.number, h.holder)))
    return Floor(number=min((number, *(h.number for h in binding))), held_by=binding)


def _by_count(retention: Retention, marks: Marks) -> int | None:
    return None if retention.checkpoints is None else marks.readable.hi - retention.checkpoints


def _by_age(retention: Retention, extents: Sequence[Extent], now_us: int) -> int | None:
    if retention.age_us is None:
        return None
    oldest_us = now_us - retention.age_us
    kept = (extent.range.lo for extent in extents if extent.at_us >= oldest_us)
    return min(kept, default=_end(extents))


def _by_bytes(retention: Retention, extents: Sequence[Extent]) -> int | None:
    if retention.bytes is None:
        return None
    left, floor = retention.bytes, _end(extents)
    for extent in reversed(extents):
        left -= extent.size_bytes
        if left < 0:
            break
        floor = extent.range.lo
    return floor


def _end(extents: Sequence[Extent]) -> int:
    return extents[-1].range.hi if extents else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What one pruner has left to delete: chunks that fail are tried again alone.

    A failed chunk keeps `pruned_end` below it, for a mark must not lead, but neither stops the chunks
    above it nor makes them be deleted again. After a restart they are: deleting is idempotent.
    """

    start: int
    deleted: RangeSet = EMPTY

    @property
    def pruned_end(self) -> int:
        """The first number that may still be there."""
        return self.deleted.prefix_end(self.start)

    def chunks(self, target: int, size: int) -> list[Range]:
        """What is left below `target`, ascending, in chunks of at most `size` numbers."""
        if target <= self.start:
            return []
        return [chunk for gap in self.deleted.gaps(Range(self.start, target)) for chunk in gap.split(size)]

    def done(self, chunk: Range) -> Pruning:
        """The chunk has been deleted."""
        return replace(self, deleted=self.deleted | chunk)
