"""The values behind `status`: the fields of the JSON of `tidegate status --json`, by name and in order.

Numbers are inclusive and ranges `[first, last]` once they are shown; a field marked `INSIDE` stays
out of the JSON of `status` and is there for explanations and for what a terminal shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from tidegate.clock import to_micros
from tidegate.progress.ranges import EMPTY, RangeSet
from tidegate.progress.watermarks import ValueKind, Watermark, format_micros
from tidegate.quick import dataclass

INSIDE: Final = {"inside": True}


class State(Enum):
    """What a pipeline does, as people see it."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """How far one sink is."""

    name: str  #: of the sink
    type: str  #: `delta` or `parquet`
    required: bool  #: whether the policy `required` asks for it
    delivered: RangeSet = EMPTY  #: what it holds durably, of what is not given up
    missing: RangeSet = EMPTY  #: what it should hold and does not: it catches up
    published_hi_inclusive: int | None = None  #: its readers see everything up to this checkpoint
    rows: int = 0  #: delivered to it, over its whole life
    standing: str = field(default="active", metadata=INSIDE)
    error: str | None = field(default=None, metadata=INSIDE)
    lagging_since: datetime | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """How far the event times of one part have come."""

    partition: str  #: the part of the source
    watermark: Watermark | None  #: how far its event times have come
    idle: bool  #: known to have nothing more to say for now
    blocking: bool  #: it is the one that holds the watermark of all
    since: datetime | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRange:
    """A gap that was tried and failed."""

    numbers: RangeSet
    sink: str | None
    code: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """Where a pipeline stands. Each number above the high mark is in one of gaps, ahead and in_flight."""

    name: str  #: of the pipeline
    source: str  #: that it reads
    mode: str  #: `concurrent` or `sequential`
    state: State  #: `running`, `paused`, `draining`, `stopped`, `failed` or `idle`
    reason: str | None = None  #: of a state that is not as it should be
    checkpoint_hi_inclusive: int | None = None  #: all up to here is committed, without a gap
    published_hi_inclusive: int | None = None  #: readers of its main sink see all up to here
    reader_lo: int | None = None  #: the first checkpoint that readers may rely on
    pruner_hi: int | None = None  #: the highest checkpoint that was deleted
    gaps: RangeSet = EMPTY  #: above the mark: missing, failed or orphaned
    ahead: RangeSet = EMPTY  #: above the mark: committed, waits for a gap below
    in_flight: RangeSet = EMPTY  #: above the mark: planned by a living runner; empty at rest
    epoch: int = 1  #: rises with every rollback
    watermark: Watermark | None = None  #: its source is complete through this in what readers see
    late_rows: int = 0  #: rows below the watermark of their plan
    dead_letters: int = 0  #: rows that could not be read; they are in `<pipeline>__dead`
    sinks: tuple[SinkStatus, ...] = ()  #: each sink, see below
    partitions: tuple[PartStatus, ...] = ()  #: each part of a source with event times, see below
    since: datetime | None = field(default=None, metadata=INSIDE)
    gap_since: datetime | None = field(default=None, metadata=INSIDE)
    orphaned: RangeSet = field(default=EMPTY, metadata=INSIDE)
    failures: tuple[FailedRange, ...] = field(default=(), metadata=INSIDE)
    skewed_rows: int = field(default=0, metadata=INSIDE)
    below_first: int = field(default=0, metadata=INSIDE)
    changed_files: int = field(default=0, metadata=INSIDE)
    runner: str | None = field(default=None, metadata=INSIDE)
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How far a source is complete, and who said so."""

    name: str  #: of the source
    watermark: Watermark | None  #: it is complete through this, inclusive
    kind: ValueKind  #: `timestamp` or `integer`
    advanced_at: datetime | None = None  #: when its loader was last heard of raising it
    advanced_by: str | None = None  #: who raised it last
    pending: Watermark | None = None  #: a value that was said and waits until all that was there is published
    stuck: bool = False  #: not heard of for longer than a group's `stuck_after`
    type: str = field(default="", metadata=INSIDE)
    read_by: tuple[str, ...] = field(default=(), metadata=INSIDE)
    is_advanced: bool = field(default=False, metadata=INSIDE)
    part_values: Mapping[str, Watermark | None] = field(default_factory=dict, metadata=INSIDE)
    heard_at: datetime | None = field(default=None, metadata=INSIDE)
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """Whether the sources of a group agree. `effective_watermark` is the cut its tables show."""

    name: str  #: of the group
    sources: tuple[str, ...]  #: its members
    tolerance: str  #: how far apart they may be
    state: str  #: `aligned`, `misaligned`, `bootstrapping` or `stuck`
    min_watermark: Watermark | None = None  #: of the member that is furthest behind
    max_watermark: Watermark | None = None  #: of the member that is furthest ahead
    lag: str | None = None  #: between the two
    aligned: bool = False  #: whether that is within the tolerance
    effective_watermark: Watermark | None = None  #: of the cut that its tables show
    behind: tuple[str, ...] = field(default=(), metadata=INSIDE)
    wanted: Watermark | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStatus:
    """An input of a table: the version that its contents come from, and the one a refresh would read now."""

    name: str  #: of the input
    kind: str  #: `pipeline`, `table` or `external`
    frontier: int | None = None  #: the version that the contents come from
    version: int | None = None  #: the version that a refresh would read now


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """What a table shows, whether it may be refreshed now, and if not, who is in the way."""

    name: str  #: of the table
    gating: str  #: `none`, `gate` or `hold_back`
    verdict: str  #: `open` (newest versions), `capped` (an older cut) or `closed`
    reason: str | None = None  #: why it is not open
    blocked_by: tuple[str, ...] = ()  #: who is in the way
    since: datetime | None = None  #: when it began to wait for that
    #: its contents are complete through this; null where groups disagree in type
    effective_watermark: Watermark | None = None
    effective_watermarks: Mapping[str, Watermark] = field(default_factory=dict)  #: the same for each group
    ungated: bool = False  #: made before every member of a group had reported
    version: int | None = None  #: of its Delta log
    refreshed_at: datetime | None = None  #: when that version was made
    last_refresh: str | None = None  #: what really ran: `full` or `unchanged`
    why_gating: str | None = field(default=None, metadata=INSIDE)
    root_sources: tuple[str, ...] = field(default=(), metadata=INSIDE)
    groups: tuple[str, ...] = field(default=(), metadata=INSIDE)
    inputs: tuple[InputStatus, ...] = field(default=(), metadata=INSIDE)
    schedule: str = field(default="on_advance", metadata=INSIDE)
    next_refresh: Mapping[str, str | None] = field(default_factory=dict, metadata=INSIDE)
    code: str | None = field(default=None, metadata=INSIDE)
    failure: str | None = field(default=None, metadata=INSIDE)
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)
    #: what all of its root sources are complete through in it, as `read --complete-to` asks
    complete_to: Watermark | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything of a project at one moment."""

    project: str  #: its name
    at: datetime  #: the moment that all of this is about
    healthy: bool  #: false as soon as one thing needs a person
    pipelines: Mapping[str, PipelineStatus]  #: by name, see below
    sources: Mapping[str, SourceStatus]  #: by name, see below
    groups: Mapping[str, GroupStatus]  #: by name, see below
    tables: Mapping[str, TableStatus]  #: by name, see below
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something stands where it stands, who is in the way, and what would move it."""

    name: str  #: of what was asked about
    kind: str  #: `table`, `pipeline`, `source` or `group`
    standing: str  #: a table's `verdict`, anything else's `state`
    reason: str | None = None  #: why it stands there
    blocked_by: tuple[str, ...] = ()  #: who is in the way
    since: datetime | None = None  #: when that began
    remedy: str | None = None  #: what would move it
    #: what the reason was found from, by kind; in the same object
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The document of `explain --json`; a table has a verdict, all others a state."""
        return {
            "name": self.name,
            "kind": self.kind,
            "verdict" if self.kind == "table" else "state": self.standing,
            "reason": self.reason,
            "blocked_by": list(self.blocked_by),
            "since": as_json(self.since),
            "remedy": self.remedy,
            **{name: as_json(fact) for name, fact in self.facts.items()},
        }


def as_json(value: Any) -> Any:
    """The value as surfaces write it: times as UTC text, ranges inclusive, named things as a list."""
    if is_dataclass(value) and not isinstance(value, (type, Watermark)):
        shown = (one for one in fields(value) if "inside" not in one.metadata)
        return {one.name: as_json(getattr(value, one.name)) for one in shown}
    match value:
        case Watermark():
            return value.value if value.kind is ValueKind.INTEGER else value.text
        case Enum():
            return value.value
        case datetime():
            return format_micros(to_micros(value))
        case RangeSet():
            return value.inclusive_pairs()
        case Mapping():
            named = value and all(is_dataclass(one) and hasattr(one, "name") for one in value.values())
            return [as_json(one) for one in value.values()] if named else {k: as_json(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(one) for one in value]
        case _:
            return value
