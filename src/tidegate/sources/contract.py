"""The contract of a source: what a pipeline may ask of it.

A source is one of two kinds. It numbers its own checkpoints (`NumberingSource`: numbered files,
the generator), or it only knows how far its parts reach and Tidegate cuts the checkpoints
(`CutSource`: landing folders, Kafka). Everything else is the same for both.

Who writes a source subclasses one of the two and runs `tidegate.testing.source_contract` on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tidegate.progress.ranges import Range, RangeSet
from tidegate.quick import dataclass
from tidegate.sources.specs import SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
PartEnds: TypeAlias = Mapping[str, int]

ONLY_PART = "0"


class Numbering(Enum):
    """Who gives checkpoints their numbers."""

    OWN = "own"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One checkpoint of a source: for each part a half-open range of positions.

    `detail` is what the source needs to read exactly these rows again, and to notice when they
    changed; it is stored with the plan and handed back as it was.
    """

    number: int
    parts: Mapping[str, Range]
    size_bytes: int = 0
    rows: int | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What a source with its own numbers has now.

    `numbers` lie within the window that was asked for; `highest` is the highest number seen, in
    the window or not; `below_first` counts units below the first number, which are ignored.
    """

    numbers: RangeSet
    highest: int | None = None
    lowest: int | None = None
    below_first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How far the parts of a source reach now: the position after the last one, per part.

    `changed` are the positions whose units are no longer as they were first seen. A position that
    was delivered and changed after is not read again; it is counted.
    """

    ends: PartEnds
    changed: RangeSet = field(default_factory=RangeSet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large one cut checkpoint may grow, and how many are wanted.

    `row_bytes` is what a row of this source has weighed so far; without it `max_events` cannot be
    applied, since nothing is read before it is planned. A unit is never split, so one that is
    larger than the limits makes a checkpoint of its own.
    """

    max_events: int | None = None
    max_bytes: int | None = None
    row_bytes: float | None = None
    max_slices: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows of some slices, and what can be said of each of them.

    `df` holds the declared columns and hidden ones behind the expressions below; take
    `good()` before the transform. `part` is an index into `Source.parts()`, null when there is
    only one. `event_time` is microseconds since 1970 in UTC (BIGINT, null where the row has none);
    `numbered` makes the checkpoint (BIGINT) when it is asked for; `dead` is true for a row that did not decode, and
    null when this source has no such rows. `known_rows` is how many rows there are, dead ones
    among them, where that is known without reading them.
    """

    df: DataFrame
    columns: tuple[str, ...]
    event_time: Column | None = None
    part: Column | None = None
    numbered: Callable[[], Column] | None = None
    dead: Column | None = None
    known_rows: int | None = None

    @property
    def number(self) -> Column | None:
        """The checkpoint of each row; None where the source does not say."""
        return None if self.numbered is None else self.numbered()

    def good(self) -> DataFrame:
        """The rows that decoded, with the declared columns only."""
        alive = self.df if self.dead is None else self.df.where(~self.dead)
        return alive.select(*[f"`{name.replace('`', '``')}`" for name in self.columns])


class Source(ABC):
    """Rows from outside, in slices that can be read again.

    *When*: one object per pipeline and run, used by its planner thread (`discover`, `slices`,
    `ends`, `cut`) and by several worker threads at once (`rows`, `dead`, `verify`).
    *May assume*: slices it is handed are its own, possibly from an earlier run with other settings.
    *Must hold after*: reading a slice again gives the same rows, or `verify` raises.
    *Raises*: `SourceUnreachable` when trying again may help, `SourceChanged` and other
    `SourceError`s when it will not.
    *Guarantees*: it writes nothing outside its own documents in the ledger.
    """

    numbering: ClassVar[Numbering]
    spec: SourceSpec

    @abstractmethod
    def identity(self) -> str:
        """What this source is, in a text that changes when its numbers or positions mean something else."""

    def parts(self) -> tuple[str, ...]:
        """The names of its parts, in an order that never changes."""
        return (ONLY_PART,)

    @abstractmethod
    def rows(self, spark: SparkSession, slices: Sequence[Slice]) -> SourceRows:
        """The rows of the slices, lazily; nothing is read yet.

        Raises a permanent `SourceError` when a file lacks a declared column.
        """

    def dead(self, spark: SparkSession, slices: Sequence[Slice]) -> DataFrame | None:
        """The rows that did not decode: raw, reason, path, line, checkpoint. None when there can be none.

        A second reading; asked for only when there are any.
        """
        return None

    @abstractmethod
    def verify(self, slices: Sequence[Slice]) -> None:
        """Return when everything is still as it was planned; else raise `SourceChanged`.

        Called after the rows were read and before the receipt counts.
        """

    def close(self) -> None:
        """Let go of what it holds."""
        return None


class NumberingSource(Source):
    """A source that numbers its own checkpoints."""

    numbering = Numbering.OWN

    @abstractmethod
    def first(self) -> int | None:
        """The first number that was declared; None when the lowest one present is to be frozen."""

    @abstractmethod
    def last(self) -> int | None:
        """The last number there will ever be, inclusive; None when there is no end."""

    def starts_at(self, first: int) -> None:
        """Told once the first number is frozen, so that `below_first` counts below it."""
        return None

    @abstractmethod
    def discover(self, window: Range) -> Available:
        """The numbers that are there now, of those in the window."""

    @abstractmethod
    def slices(self, numbers: RangeSet) -> list[Slice]:
        """A slice for each of the numbers, ascending. They were discovered by this object."""


class CutSource(Source):
    """A source whose checkpoints are cut by Tidegate."""

    numbering = Numbering.CUT

    @abstractmethod
    def ends(self) -> Ends:
        """How far each part reaches now. What is seen is remembered: ends never move back."""

    @abstractmethod
    def cut(
        self, start: PartEnds, ends: PartEnds, limits: Limits, first_number: int, stops: Sequence[PartEnds] = ()
    ) -> list[Slice]:
        """Slices from `start` up to `ends`, numbered from `first_number`; empty when nothing is new.

        No slice reaches over one of the `stops`: a slice lies wholly below it or wholly above.
        A pure function of its arguments and of what `ends` has remembered.
        """
