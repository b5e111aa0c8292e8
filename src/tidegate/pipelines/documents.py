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
from dataclasses import field
from enum import Enum
from typing import Any

from tidegate.lake.log import DataFile
from tidegate.ledger.contract import Store
from tidegate.ledger.formats import decoded
from tidegate.progress.marks import Marks
from tidegate.progress.partition_state import TrackerState
from tidegate.progress.ranges import EMPTY, Range, RangeSet
from tidegate.progress.watermarks import Watermark
from tidegate.quick import dataclass
from tidegate.sinks.contract import Delivery, Ownership, Receipt
from tidegate.sources.contract import Slice

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
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "range": [self.range.lo, self.range.hi],
            "sink": self.sink,
            "code": self.code,
            "message": self.message,
            "at_us": self.at_us,
            "attempts": self.attempts,
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Failure:
        known, extra = _apart(read, _FAILURE)
        return cls(**{**known, "range": Range(*read["range"])}, extra=extra)


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
    watermark: Watermark | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prefix_end(self) -> int:
        """The end of what it has without a gap."""
        return self.delivered.prefix_end(self.start)

    def missing(self, wanted: Range) -> RangeSet:
        """What of the range it ought to have and has not."""
        return self.delivered.gaps(wanted.intersect(Range(self.start, max(self.start, wanted.hi))))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.extra,
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
            "watermark": None if self.watermark is None else self.watermark.to_json(),
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> SinkProgress:
        watermark = read.get("watermark")
        typed = {
            "delivered": RangeSet.from_pairs(read["delivered"]),
            "standing": Standing(read["standing"]),
            "watermark": None if watermark is None else Watermark.from_json(watermark),
        }
        known, extra = _apart(read, _SINK)
        return cls(**{**known, **typed}, extra=extra)


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
class Step:
    """From the mark `end` on the source is complete through `watermark`.

    `seq` is the number of the advance that said so; None where the rows' event times did.
    """

    end: int
    watermark: Watermark
    seq: int | None = None

    def to_json(self) -> list[Any]:
        return [self.end, self.watermark.to_json(), self.seq]

    @classmethod
    def from_json(cls, read: list[Any]) -> Step:
        return cls(end=read[0], watermark=Watermark.from_json(read[1]), seq=read[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """What a batch will read, and by which thresholds: the same for every try of it, by whomever.

    A row is late below `late_before_us`, and moves no watermark above `future_after_us`.
    """

    range: Range
    epoch: int
    token: int
    slices: tuple[Slice, ...]
    source_identity: str
    planned_us: int
    late_before_us: int | None = None
    future_after_us: int | None = None
    definition: str | None = None
    schema_fp: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def slices_of(self, wanted: Range) -> tuple[Slice, ...]:
        """The slices of a piece of the batch."""
        return tuple(one for one in self.slices if one.number in wanted)

    def to_body(self) -> bytes:
        return _encode(
            {
                **self.extra,
                "format": FORMAT,
                "range": [self.range.lo, self.range.hi],
                "epoch": self.epoch,
                "token": self.token,
                "source_identity": self.source_identity,
                "planned_us": self.planned_us,
                "late_before_us": self.late_before_us,
                "future_after_us": self.future_after_us,
                "definition": self.definition,
                "schema_fp": self.schema_fp,
                "slices": [_slice_to_json(one) for one in self.slices],
            }
        )

    @classmethod
    def from_body(cls, body: bytes) -> PlanDocument:
        read = decoded(body, what="a plan", newest=FORMAT)
        known, extra = _apart(read, _PLAN)
        typed = {"range": Range(*read["range"]), "slices": tuple(_slice_from_json(one) for one in read["slices"])}
        return cls(**{**known, **typed}, extra=extra)


_FAILURE = frozenset(("range", "sink", "code", "message", "at_us", "attempts"))
_SINK = frozenset(
    (
        "type",
        "required",
        "start",
        "delivered",
        "published_end",
        "rows",
        "standing",
        "lagging_since_us",
        "error",
        "version",
        "watermark",
    )
)
_PLAN = frozenset(
    (
        "range",
        "epoch",
        "token",
        "slices",
        "source_identity",
        "planned_us",
        "late_before_us",
        "future_after_us",
        "definition",
        "schema_fp",
    )
)


def _apart(read: Mapping[str, Any], known: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known here, and what a newer Tidegate added: that is kept, and written again."""
    ours = {name: value for name, value in read.items() if name in known}
    return ours, {name: value for name, value in read.items() if name not in known}


def _slice_to_json(one: Slice) -> list[Any]:
    parts = {part: [span.lo, span.hi] for part, span in one.parts.items()}
    return [one.number, parts, one.size_bytes, one.rows, dict(one.detail)]


def _slice_from_json(read: list[Any]) -> Slice:
    number, parts, size_bytes, rows, detail = read
    spans = {part: Range(*span) for part, span in parts.items()}
    return Slice(number=number, parts=spans, size_bytes=size_bytes, rows=rows, detail=detail)


def receipt_to_body(receipt: Receipt) -> bytes:
    """A receipt as its document."""
    delivery = receipt.delivery
    return _encode(
        {
            "format": FORMAT,
            "sink": receipt.sink,
            "pipeline": delivery.owner.pipeline,
            "epoch": delivery.owner.epoch,
            "token": delivery.owner.token,
            "range": [delivery.range.lo, delivery.range.hi],
            "attempt": delivery.attempt,
            "rows": receipt.rows,
            "files": [file.to_json() for file in receipt.files],
            "detail": dict(receipt.detail),
        }
    )


def receipt_from_body(body: bytes) -> Receipt:
    """The receipt of a document."""
    read = decoded(body, what="a receipt", newest=FORMAT)
    owner = Ownership(pipeline=read["pipeline"], epoch=read["epoch"], token=read["token"])
    return Receipt(
        sink=read["sink"],
        delivery=Delivery(owner=owner, range=Range(*read["range"]), attempt=read["attempt"]),
        rows=read["rows"],
        files=tuple(DataFile.from_json(file) for file in read["files"]),
        detail=read["detail"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDocument:
    """All that must move together. Half-open inside; the inclusive names belong to the surfaces.

    `committed` is what the policy has let pass beyond `marks.end`; `taken` the numbers whose rows
    were counted (late, dead, event times) beyond it; `planned_end` the next number to plan for the
    first time; `positions` where the parts of a cut source stand after all plans, and
    `committed_positions` after the unbroken prefix. `steps` tell how far the source is complete at
    which mark; `watermark` is the one that was published last, by the pipeline's main sink.
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
    taken: RangeSet = EMPTY
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
    steps: tuple[Step, ...] = ()
    resolved_seq: int = 0
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
                **self.extra,
                "format": FORMAT,
                **{name: getattr(self, name) for name in _PLAIN},
                "phase": self.phase.value,
                "marks": self.marks.to_json(),
                "committed": self.committed.pairs(),
                "taken": self.taken.pairs(),
                "steps": [step.to_json() for step in self.steps],
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
        read = decoded(body, what="the document of a pipeline", newest=FORMAT)
        tracker, watermark = read.pop("tracker"), read.pop("watermark")
        typed: dict[str, Any] = {
            "phase": Phase(read.pop("phase")),
            "marks": Marks.from_json(read.pop("marks")),
            "committed": RangeSet.from_pairs(read.pop("committed")),
            "taken": RangeSet.from_pairs(read.pop("taken", [])),
            "steps": tuple(Step.from_json(step) for step in read.pop("steps", [])),
            "sinks": {name: SinkProgress.from_json(sink) for name, sink in read.pop("sinks").items()},
            "failures": tuple(Failure.from_json(failure) for failure in read.pop("failures")),
            "skipped": RangeSet.from_pairs(read.pop("skipped")),
            "tracker": None if tracker is None else TrackerState.from_json(tracker),
            "maxima": tuple(Maxima.from_json(one) for one in read.pop("maxima")),
            "watermark": None if watermark is None else Watermark.from_json(watermark),
        }
        plain: dict[str, Any] = {name: read.pop(name) for name in _PLAIN if name in read}
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
    "resolved_seq",
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
