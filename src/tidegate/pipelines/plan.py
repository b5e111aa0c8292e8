"""Which checkpoints become which new batches. Pure: `run` executes what `plan` shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import Slice

#: The batches in flight together hold at most so many checkpoints, so that marks step at least that often.
MAX_BATCH_CHECKPOINTS: Final = 1000
#: Without limits of its own a pipeline gives one Spark job at most so much to read.
DEFAULT_MAX_BYTES: Final = 128 << 20
#: How many plans may wait for a gap. A bound on the documents in the ledger.
MAX_OPEN_PLANS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large one batch may grow. `row_bytes` is what a row has weighed so far."""

    max_checkpoints: int = MAX_BATCH_CHECKPOINTS
    max_events: int | None = None
    max_bytes: int | None = None
    row_bytes: float | None = None

    def rows_of(self, one: Slice) -> float:
        """The rows of a slice, known or estimated; 0 when nobody can tell."""
        if one.rows is not None:
            return one.rows
        return one.size_bytes / self.row_bytes if self.row_bytes else 0.0


def candidates(available: RangeSet, *, window: Range, planned: RangeSet, done: RangeSet) -> RangeSet:
    """The numbers that are there, inside the window, and neither planned nor done."""
    return (available & window) - planned - done


def fair_share(count: int, slots: int, most: int) -> int:
    """How many checkpoints each of the free slots gets, so that all of them have work."""
    return max(1, min(most, -(-count // max(1, slots))))


def batches(
    slices: Sequence[Slice], limits: BatchLimits, *, stops: Collection[int] = (), most: int | None = None
) -> list[tuple[Slice, ...]]:
    """Contiguous runs of the slices, each within the limits; none reaches over a stop.

    A stop is a number that a watermark was promised for: what lies below it and what does not are
    published apart. A single slice that is larger than the limits is a batch of its own.
    """
    at_stops = frozenset(stops)
    size = limits.max_checkpoints if most is None else min(most, limits.max_checkpoints)
    max_bytes = DEFAULT_MAX_BYTES if limits.max_bytes is None else limits.max_bytes
    made: list[tuple[Slice, ...]] = []
    current: list[Slice] = []
    rows = bytes_ = 0.0
    for one in slices:
        rows, bytes_ = rows + limits.rows_of(one), bytes_ + one.size_bytes
        too_many_rows = limits.max_events is not None and rows > limits.max_events
        breaks = bool(current) and (
            one.number != current[-1].number + 1
            or one.number in at_stops
            or len(current) >= size
            or too_many_rows
            or bytes_ > max_bytes
        )
        if breaks:
            made.append(tuple(current))
            current, rows, bytes_ = [], limits.rows_of(one), float(one.size_bytes)
        current.append(one)
    return [*made, tuple(current)] if current else made


def range_of(slices: Iterable[Slice]) -> Range:
    """The numbers of a contiguous run of slices."""
    numbers = [one.number for one in slices]
    return Range(numbers[0], numbers[-1] + 1)
