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

    name: str
    type: str
    required: bool
    delivered: RangeSet = EMPTY
    missing: RangeSet = EMPTY
    published_hi_inclusive: int | None = None
    rows: int = 0
    standing: str = field(default="active", metadata=INSIDE)
    error: str | None = field(default=None, metadata=INSIDE)
    lagging_since: datetime | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """How far the event times of one part have come."""

    partition: str
    watermark: Watermark | None
    idle: bool
    blocking: bool
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

    name: str
    source: str
    mode: str
    state: State
    reason: str | None = None
    checkpoint_hi_inclusive: int | None = None
    published_hi_inclusive: int | None = None
    reader_lo: int | None = None
    pruner_hi: int | None = None
    gaps: RangeSet = EMPTY
    ahead: RangeSet = EMPTY
    in_flight: RangeSet = EMPTY
    epoch: int = 1
    watermark: Watermark | None = None
    late_rows: int = 0
    dead_letters: int = 0
    sinks: tuple[SinkStatus, ...] = ()
    partitions: tuple[PartStatus, ...] = ()
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

    name: str
    watermark: Watermark | None
    kind: ValueKind
    advanced_at: datetime | None = None
    advanced_by: str | None = None
    pending: Watermark | None = None
    stuck: bool = False
    type: str = field(default="", metadata=INSIDE)
    read_by: tuple[str, ...] = field(default=(), metadata=INSIDE)
    is_advanced: bool = field(default=False, metadata=INSIDE)
    part_values: Mapping[str, Watermark | None] = field(default_factory=dict, metadata=INSIDE)
    heard_at: datetime | None = field(default=None, metadata=INSIDE)
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """Whether the sources of a group agree. `effective_watermark` is the cut its tables show."""

    name: str
    sources: tuple[str, ...]
    tolerance: str
    state: str
    min_watermark: Watermark | None = None
    max_watermark: Watermark | None = None
    lag: str | None = None
    aligned: bool = False
    effective_watermark: Watermark | None = None
    behind: tuple[str, ...] = field(default=(), metadata=INSIDE)
    wanted: Watermark | None = field(default=None, metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStatus:
    """An input of a table: the version that its contents come from, and the one a refresh would read now."""

    name: str
    kind: str
    frontier: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """What a table shows, whether it may be refreshed now, and if not, who is in the way."""

    name: str
    gating: str
    verdict: str
    reason: str | None = None
    blocked_by: tuple[str, ...] = ()
    since: datetime | None = None
    effective_watermark: Watermark | None = None
    effective_watermarks: Mapping[str, Watermark] = field(default_factory=dict)
    ungated: bool = False
    version: int | None = None
    refreshed_at: datetime | None = None
    last_refresh: str | None = None
    why_gating: str | None = field(default=None, metadata=INSIDE)
    root_sources: tuple[str, ...] = field(default=(), metadata=INSIDE)
    groups: tuple[str, ...] = field(default=(), metadata=INSIDE)
    inputs: tuple[InputStatus, ...] = field(default=(), metadata=INSIDE)
    schedule: str = field(default="on_advance", metadata=INSIDE)
    next_refresh: Mapping[str, str | None] = field(default_factory=dict, metadata=INSIDE)
    code: str | None = field(default=None, metadata=INSIDE)
    failure: str | None = field(default=None, metadata=INSIDE)
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything of a project at one moment."""

    project: str
    at: datetime
    healthy: bool
    pipelines: Mapping[str, PipelineStatus]
    sources: Mapping[str, SourceStatus]
    groups: Mapping[str, GroupStatus]
    tables: Mapping[str, TableStatus]
    problems: tuple[str, ...] = field(default=(), metadata=INSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something stands where it stands, who is in the way, and what would move it."""

    name: str
    kind: str
    standing: str
    reason: str | None = None
    blocked_by: tuple[str, ...] = ()
    since: datetime | None = None
    remedy: str | None = None
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
