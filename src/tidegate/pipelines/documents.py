"""What the ledger remembers of a pipeline: one small document, and plans and receipts of their own.

    pipelines/<name>/state                      PipelineDocument: one put moves all of its marks together
    pipelines/<name>/plans/<epoch>/<lo>-<hi>    PlanDocument: written before anything of the batch is read
    pipelines/<name>/receipts/<epoch>/<lo>-<hi>/<sink>   a sink's receipt, until it is published
    pipelines/<name>/control                    ControlDocument: what a person wants it to do
    pipelines/<name>/lease                      who runs it

Light: `tidegate status` loads this module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tidegate.ledger.contract import Store
from tidegate.progress.marks import Marks
from tidegate.progress.partition_state import TrackerState
from tidegate.progress.ranges import EMPTY, Range, RangeSet
from tidegate.progress.watermarks import Watermark

FORMAT = 1


def state_key(pipeline: str) -> str:
    return f"pipelines/{pipeline}/state"


def control_key(pipeline: str) -> str:
    return f"pipelines/{pipeline}/control"


def lease_key(pipeline: str) -> str:
    return f"pipelines/{pipeline}/lease"


def plans_prefix(pipeline: str) -> str:
    return f"pipelines/{pipeline}/plans/"


def plan_key(pipeline: str, epoch: int, batch: Range) -> str:
    return f"{plans_prefix(pipeline)}{epoch:06d}/{batch.lo:020d}-{batch.hi:020d}"


def range_of_plan_key(key: str) -> Range:
    """The batch that a plan's key names."""
    lo, _, hi = key.rpartition("/")[2].partition("-")
    return Range(int(lo), int(hi))


def receipts_prefix(pipeline: str) -> str:
    return f"pipelines/{pipeline}/receipts/"


def receipt_key(pipeline: str, epoch: int, batch: Range, sink: str) -> str:
    return f"{receipts_prefix(pipeline)}{epoch:06d}/{batch.lo:020d}-{batch.hi:020d}/{sink}"


class Phase(Enum):
    """What the runner last said of itself. What people see is judged from it and the lease: `state_of`."""

    RUNNING = "running"
    DRAINING = "draining"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    IDLE = "idle"


class Standing(Enum):
    """How a sink stands in its pipeline."""

    ACTIVE = "active"
    BROKEN = "broken"
    RETIRED = "retired"


class Wanted(Enum):
    """What a person wants a pipeline to do."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlDocument:
    """The last word of a person; it survives restarts."""

    wanted: Wanted
    at_us: int
    by: str

    def to_body(self) -> bytes:
        return _encode({"wanted": self.wanted.value, "at_us": self.at_us, "by": self.by})

    @classmethod
    def from_body(cls, body: bytes) -> ControlDocument:
        read = json.loads(body)
        return cls(wanted=Wanted(read["wanted"]), at_us=read["at_us"], by=read["by"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A batch that could not be delivered where it had to be, and why. It stays a gap until it is tried again."""

    range: Range
    sink: str | None
    code: str
    message: str
    at_us: int
    attempts: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "range": [self.range.lo, self.range.hi],
            "sink": self.sink,
            "code": self.code,
            "message": self.message,
            "at_us": self.at_us,
            "attempts": self.attempts,
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Failure:
        return cls(**{**read, "range": Range(*read["range"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProgress:
    """How far one sink is. `start` is the first number it takes; `delivered` is half-open and never forgotten."""

    type: str
    required: bool
    start: int
    delivered: RangeSet = EMPTY
    published_end: int | None = None
    rows: int = 0
    standing: Standing = Standing.ACTIVE
    lagging_since_us: int | None = None
    error: str | None = None
    version: int | None = None

    @property
    def prefix_end(self) -> int:
        """The end of what it has without a gap."""
        return self.delivered.prefix_end(self.start)

    def missing(self, wanted: Range) -> RangeSet:
        """What of the range it ought to have and has not."""
        return self.delivered.gaps(wanted.intersect(Range(self.start, max(self.start, wanted.hi))))

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "required": self.required,
            "start": self.start,
            "delivered": self.delivered.pairs(),
            "published_end": self.published_end,
            "rows": self.rows,
            "standing": self.standing.value,
            "lagging_since_us": self.lagging_since_us,
            "error": self.error,
            "version": self.version,
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> SinkProgress:
        known = {**read, "delivered": RangeSet.from_pairs(read["delivered"]), "standing": Standing(read["standing"])}
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maxima:
    """The latest event time of each part in a batch, kept until the unbroken prefix has passed the batch."""

    range: Range
    parts: Mapping[str, int]

    def to_json(self) -> list[Any]:
        return [self.range.lo, self.range.hi, dict(self.parts)]

    @classmethod
    def from_json(cls, read: list[Any]) -> Maxima:
        return cls(range=Range(read[0], read[1]), parts=read[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDocument:
    """All that must move together. Half-open inside; the inclusive names belong to the surfaces.

    `committed` is what the policy has let pass beyond `marks.end`; `planned_end` the next number to
    plan for the first time; `positions` where the parts of a cut source stand after all plans, and
    `committed_positions` after the unbroken prefix. `watermark` is the source watermark that was
    published last, by the pipeline's main sink.
    """

    pipeline: str
    source: str
    source_identity: str
    epoch: int = 1
    token: int = 0
    phase: Phase = Phase.RUNNING
    reason: str | None = None
    updated_us: int = 0
    marks: Marks = field(default_factory=Marks)
    committed: RangeSet = EMPTY
    sinks: Mapping[str, SinkProgress] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    skipped: RangeSet = EMPTY
    planned_end: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    committed_positions: Mapping[str, int] = field(default_factory=dict)
    highest_seen: int | None = None
    gap_since_us: int | None = None
    tracker: TrackerState | None = None
    maxima: tuple[Maxima, ...] = ()
    quiet_since_us: Mapping[str, int] = field(default_factory=dict)
    watermark: Watermark | None = None
    row_bytes: float | None = None
    late_rows: int = 0
    dead_letters: int = 0
    skewed_rows: int = 0
    below_first: int = 0
    changed_files: int = 0
    schema_fp: str | None = None
    definition: str | None = None
    retention_at_us: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_body(self) -> bytes:
        return _encode(
            {
                "format": FORMAT,
                **self.extra,
                **{name: getattr(self, name) for name in _PLAIN},
                "phase": self.phase.value,
                "marks": self.marks.to_json(),
                "committed": self.committed.pairs(),
                "sinks": {name: sink.to_json() for name, sink in self.sinks.items()},
                "failures": [failure.to_json() for failure in self.failures],
                "skipped": self.skipped.pairs(),
                "tracker": None if self.tracker is None else self.tracker.to_json(),
                "maxima": [one.to_json() for one in self.maxima],
                "watermark": None if self.watermark is None else self.watermark.to_json(),
            }
        )

    @classmethod
    def from_body(cls, body: bytes) -> PipelineDocument:
        read = json.loads(body)
        read.pop("format")
        tracker, watermark = read.pop("tracker"), read.pop("watermark")
        typed = {
            "phase": Phase(read.pop("phase")),
            "marks": Marks.from_json(read.pop("marks")),
            "committed": RangeSet.from_pairs(read.pop("committed")),
            "sinks": {name: SinkProgress.from_json(sink) for name, sink in read.pop("sinks").items()},
            "failures": tuple(Failure.from_json(failure) for failure in read.pop("failures")),
            "skipped": RangeSet.from_pairs(read.pop("skipped")),
            "tracker": None if tracker is None else TrackerState.from_json(tracker),
            "maxima": tuple(Maxima.from_json(one) for one in read.pop("maxima")),
            "watermark": None if watermark is None else Watermark.from_json(watermark),
        }
        plain = {name: read.pop(name) for name in _PLAIN if name in read}
        return cls(**typed, **plain, extra=read)


_PLAIN = (
    "pipeline",
    "source",
    "source_identity",
    "epoch",
    "token",
    "reason",
    "updated_us",
    "planned_end",
    "positions",
    "committed_positions",
    "highest_seen",
    "gap_since_us",
    "quiet_since_us",
    "row_bytes",
    "late_rows",
    "dead_letters",
    "skewed_rows",
    "below_first",
    "changed_files",
    "schema_fp",
    "definition",
    "retention_at_us",
)


def read_state(store: Store, pipeline: str) -> PipelineDocument | None:
    """The pipeline's document; None before its first run."""
    found = store.get(state_key(pipeline))
    return None if found is None else PipelineDocument.from_body(found.body)


def read_control(store: Store, pipeline: str) -> ControlDocument | None:
    """What a person wants of it; None when nobody ever said."""
    found = store.get(control_key(pipeline))
    return None if found is None else ControlDocument.from_body(found.body)


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
