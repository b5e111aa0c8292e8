"""The three marks of a pipeline, and how they rise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace

from tidegate.progress.ranges import Range
from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What is complete, what readers may use, and what is gone.

    All fields are half-open: `end` and `pruned_end` are the first numbers that are not complete,
    not pruned. The inclusive names of the seeds are properties. Before the first plan nothing is known
    and all fields are None; from then on `first <= pruned_end <= reader_lo <= end` holds.

    A rise of `reader_lo` gives the pruner a target that is due one delay later. A rise while a target
    is pending does not move that target (else a steadily rising mark would starve the pruner); what it
    adds becomes the next target, due one delay after the newest rise.
    """

    first: int | None = None
    end: int | None = None
    reader_lo: int | None = None
    pruned_end: int | None = None
    prune_to: int | None = None
    prune_due_us: int | None = None
    next_due_us: int | None = None

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise ValueError(f"these marks cannot be: {fault} ({asdict(self)})")

    @classmethod
    def starting(cls, first: int) -> Marks:
        """The marks of a pipeline that has planned `first` and completed nothing."""
        return cls(first=first, end=first, reader_lo=first)

    @classmethod
    def from_json(cls, document: Mapping[str, int | None]) -> Marks:
        """The marks that `to_json` wrote."""
        return cls(**{f.name: document.get(f.name) for f in fields(cls)})

    def to_json(self) -> dict[str, int | None]:
        """The fields that are set."""
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    @property
    def checkpoint_hi_inclusive(self) -> int | None:
        """The highest checkpoint up to which everything is complete."""
        return None if self.end is None or self.end == self.first else self.end - 1

    @property
    def pruner_hi(self) -> int | None:
        """The highest checkpoint that has been deleted; None until one was."""
        return None if self.pruned_end is None else self.pruned_end - 1

    @property
    def readable(self) -> Range:
        """What readers see."""
        return Range(0, 0) if self.reader_lo is None or self.end is None else Range(self.reader_lo, self.end)

    @property
    def prunable(self) -> Range:
        """What readers have given up and nobody has deleted yet; not all of it may be due."""
        return Range(0, 0) if self.reader_lo is None else Range(self._unpruned, self.reader_lo)

    def due(self, now_us: int) -> Range:
        """What the pruner may delete now."""
        if self.prune_to is None or self.prune_due_us is None or now_us < self.prune_due_us:
            return Range(self._unpruned, self._unpruned)
        return Range(self._unpruned, self.prune_to)

    def advanced(self, end: int) -> Marks:
        """Everything below `end` is complete. A lower end changes nothing: marks never fall."""
        self._need_start()
        return replace(self, end=end) if self.end is not None and end > self.end else self

    def raised(self, reader_lo: int, *, now_us: int, delay_us: int) -> Marks:
        """Readers keep to `reader_lo` and above. A lower one changes nothing."""
        self._need_start()
        if self.reader_lo is None or reader_lo <= self.reader_lo:
            return self
        due_us = now_us + delay_us
        if self.prune_to is None:
            return replace(self, reader_lo=reader_lo, prune_to=reader_lo, prune_due_us=due_us, next_due_us=due_us)
        return replace(self, reader_lo=reader_lo, next_due_us=due_us)

    def pruned(self, end: int) -> Marks:
        """Everything below `end` has been deleted. A lower end changes nothing."""
        self._need_start()
        if end <= self._unpruned:
            return self
        if self.prune_to is None or end < self.prune_to:
            return replace(self, pruned_end=end)
        if self.reader_lo is None or end >= self.reader_lo:
            return replace(self, pruned_end=end, prune_to=None, prune_due_us=None, next_due_us=None)
        return replace(self, pruned_end=end, prune_to=self.reader_lo, prune_due_us=self.next_due_us)

    def backfilled(self, lane: Range) -> Marks:
        """A lane beside the live one has completed `lane`, which meets or overlaps the complete range.

        What is complete grows downward or upward; the reader and pruner marks stay where they are.
        """
        self._need_start()
        if self.first is None or self.end is None or lane.hi < self.first or lane.lo > self.end:
            raise ValueError(f"the lane {lane} does not meet the complete range [{self.first}, {self.end})")
        return replace(self, first=min(self.first, lane.lo), end=max(self.end, lane.hi)) if lane else self

    @property
    def _unpruned(self) -> int:
        return self.pruned_end if self.pruned_end is not None else self.first or 0

    def _need_start(self) -> None:
        if self.first is None:
            raise ValueError("a pipeline without a first checkpoint has no marks to move")

    def _fault(self) -> str | None:
        if self.first is None or self.end is None or self.reader_lo is None:
            return None if not self.to_json() else "first, end and reader_lo are known together"
        if not self.first <= self.reader_lo <= self.end:
            return "not first <= reader_lo <= end"
        if self.pruned_end is not None and not self.first < self.pruned_end <= self.reader_lo:
            return "not first < pruned_end <= reader_lo"
        if (self.prune_to is None) != (self.prune_due_us is None):
            return "a target of the pruner is due at some time"
        if self.prune_to is not None and not self._unpruned < self.prune_to <= self.reader_lo:
            return "not pruned_end < prune_to <= reader_lo"
        return None


_NAMES = tuple(one.name for one in fields(Marks))
