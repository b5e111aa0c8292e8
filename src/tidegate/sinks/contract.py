"""The contract of a sink: what a pipeline may ask of it.

Who writes a sink subclasses `Sink` and runs `tidegate.testing.sink_contract` on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from tidegate.lake.log import DataFile
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Vector
from tidegate.quick import dataclass
from tidegate.sinks.specs import SinkSpec, Visibility

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who writes: the pipeline, its epoch, and the token of its lease, which only grows."""

    pipeline: str
    epoch: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One try to deliver one batch. No two deliveries have the same owner, range and attempt."""

    owner: Ownership
    range: Range
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a sink answers to a delivery: the rows are durable, in exactly these files."""

    sink: str
    delivery: Delivery
    rows: int
    files: tuple[DataFile, ...] = ()
    detail: Mapping[str, Json] = field(default_factory=dict)

    @property
    def range(self) -> Range:
        return self.delivery.range


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What becomes visible in one step: everything below `end`, and what may be said of it then.

    `end` is exclusive. The vector is the watermark of each source at that mark. The rest is
    written with it, so that whoever reads the sink knows where its contents come from.
    """

    end: int
    reader_lo: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    vector: Vector = field(default_factory=Vector)
    schema_fp: str | None = None
    source_identity: str | None = None
    lateness_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What one batch takes up in a sink. `published_us` is when it became visible."""

    range: Range
    rows: int
    size_bytes: int
    published_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """What a sink says is visible in it, which is the truth about it.

    `end` is exclusive, and None when nothing was ever published; `version` is the sink's own
    number of that state, where it has one.
    """

    epoch: int
    token: int
    end: int | None = None
    version: int | None = None
    published_us: int | None = None
    reader_lo: int | None = None
    vector: Vector = field(default_factory=Vector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What a pruner's step did. Everything below `end` is gone; `held` still have files that somebody needs."""

    end: int | None
    files: int = 0
    size_bytes: int = 0
    held: tuple[Range, ...] = ()


class Sink(ABC):
    """A place where rows go.

    *When*: one object per pipeline and run. `open` first; then `deliver` from several worker
    threads at once, everything else from the one committer thread.
    *May assume*: the pipeline holds its lease; batches do not overlap; what is delivered under a
    range is the same rows each time, whoever delivers it.
    *Must hold after*: a receipt means durable, through a power cut. What is published stays until
    it is pruned.
    *Raises*: `SinkUnavailable` when trying again may help, `SinkRejected` when it will not,
    `StaleWriter` when another runner took over.
    *Guarantees*: `open`, `publish`, `prune` and `delete` can be repeated after a crash at any
    point; a delivery that is never published is never seen, and is swept up later.
    """

    spec: SinkSpec

    @property
    def visibility(self) -> Visibility:
        """Which kind of sink this is."""
        return self.spec.visibility

    @abstractmethod
    def open(self, owner: Ownership) -> SinkState:
        """Take the sink over and tell what is published in it.

        From now on an owner with a lower token cannot publish; one with a higher token makes
        everything here raise `StaleWriter`. Nothing published is changed.
        """

    @abstractmethod
    def state(self) -> SinkState:
        """What is published, as last seen by this object; no I/O."""

    @abstractmethod
    def deliver(self, df: DataFrame, delivery: Delivery) -> Receipt:
        """Write the rows where they last, and say what was written. Nothing becomes visible by it
        in a publishing sink."""

    @abstractmethod
    def publish(self, receipts: Sequence[Receipt], publication: Publication) -> SinkState:
        """Make everything below `publication.end` visible, in one step.

        `receipts` are those of all batches that are not published yet and lie below the end;
        those that are published already are skipped, so a repeated call changes nothing. Without
        any, only the claim moves: a version with the same rows and the new vector.
        """

    @abstractmethod
    def extents(self) -> list[Extent]:
        """What is visible, batch by batch, ascending."""

    @abstractmethod
    def prune(self, reader_lo: int) -> SinkState:
        """Give up everything below: new readers no longer see it, running ones still may.

        Steps on the edges of batches, rounded down: the state tells the `reader_lo` that came out.
        """

    @abstractmethod
    def delete(self, below: int, *, above: int | None = None, pinned_version: int | None = None) -> Deleted:
        """Delete for good what was given up below. What was deleted before (below `above`) is not looked for.

        Files that a reader of `pinned_version` or later needs stay, and hold the answer's `end`.
        """

    @abstractmethod
    def sweep(self, keep: Collection[Delivery], *, older_than_us: int) -> int:
        """Remove what dead attempts left: files of deliveries that nobody published and that are not in `keep`.

        Only those of older tokens, written before. The number of files removed is the answer.
        """

    def close(self) -> None:
        """Let go of what it holds."""
        return None
