"""Receipts become marks: which checkpoints the policy lets pass, and what the source's watermark is then. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate import errors
from tidegate.pipelines.documents import (
    Failure,
    Maxima,
    PipelineDocument,
    PlanDocument,
    SinkProgress,
    Standing,
    Step,
)
from tidegate.progress import event_time
from tidegate.progress.partition_state import TrackerState
from tidegate.progress.policies import CommitPolicy
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import Watermark
from tidegate.sinks.contract import Receipt
from tidegate.sources.specs import EventTime, WatermarkKind

_ROW_BYTES_MEMORY = 0.7
_MAX_STEPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What was counted in the source's rows of one piece, before the transform."""

    rows: int
    late: int = 0
    dead: int = 0
    skewed: int = 0
    maxima: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a pipeline was declared to do with receipts and event times."""

    policy: CommitPolicy
    kind: WatermarkKind
    event_time: EventTime | None = None
    max_lag_us: Mapping[str, int] = field(default_factory=dict)


def record(
    document: PipelineDocument, piece: Range, receipts: Sequence[Receipt], intake: Intake | None
) -> PipelineDocument:
    """The document with what one try delivered. Repeated receipts and intakes change nothing."""
    sinks = dict(document.sinks)
    for receipt in receipts:
        sink = sinks.get(receipt.sink)
        if sink is not None and not sink.delivered.covers(receipt.range):
            delivered, rows = sink.delivered | receipt.range, sink.rows + receipt.rows
            sinks[receipt.sink] = replace(sink, delivered=delivered, rows=rows, error=None)
    names = {receipt.sink for receipt in receipts}
    failures = tuple(
        one
        for one in document.failures
        if not (one.range.intersect(piece) and (one.sink in names or (one.sink is None and names)))
    )
    changed = replace(document, sinks=sinks, failures=failures)
    return changed if intake is None or is_taken(changed, piece) else _with_intake(changed, piece, intake)


def is_taken(document: PipelineDocument, piece: Range) -> bool:
    """Whether the rows of the piece were counted before."""
    return (document.taken | Range(0, document.marks.end or 0)).covers(piece)


def _with_intake(document: PipelineDocument, piece: Range, intake: Intake) -> PipelineDocument:
    maxima = document.maxima
    if intake.maxima:
        maxima = (*maxima, Maxima(range=piece, parts=dict(intake.maxima)))
    return replace(
        document,
        taken=document.taken | piece,
        maxima=maxima,
        late_rows=document.late_rows + intake.late,
        dead_letters=document.dead_letters + intake.dead,
        skewed_rows=document.skewed_rows + intake.skewed,
        row_bytes=_row_bytes(document.row_bytes, intake),
    )


def _row_bytes(known: float | None, intake: Intake) -> float | None:
    if not intake.rows or not intake.size_bytes:
        return known
    seen = intake.size_bytes / intake.rows
    return seen if known is None else known * _ROW_BYTES_MEMORY + seen * (1 - _ROW_BYTES_MEMORY)


def failed(document: PipelineDocument, failure: Failure) -> PipelineDocument:
    """The document with a failure noted; a later one of the same piece and sink replaces it.

    Only that a file is another one by now does not: it could not be read before, and is planned anew.
    """
    if failure.code == errors.SourceChanged.code and any(
        one.code == errors.SourceError.code and one.range.covers(failure.range) for one in document.failures
    ):
        return document
    others = tuple(
        one for one in document.failures if one.sink != failure.sink or not one.range.intersect(failure.range)
    )
    sinks = dict(document.sinks)
    if failure.sink is not None and failure.sink in sinks:
        sinks[failure.sink] = replace(sinks[failure.sink], error=failure.message)
    return replace(document, failures=(*others, failure), sinks=sinks)


def settle(document: PipelineDocument, rules: Rules, now_us: int) -> PipelineDocument:
    """The document after the policy has judged all receipts: marks, what is ahead, event time, lagging sinks."""
    marks = document.marks
    if marks.first is None or marks.end is None:
        return document
    passed = _passed(document, rules.policy, marks.first)
    end = passed.prefix_end(marks.end)
    below = Range(min(marks.first, end), end)
    ready = [one for one in document.maxima if one.range.hi <= end]
    settled = replace(
        document,
        marks=marks.advanced(end),
        committed=passed - below,
        taken=document.taken - below,
        maxima=tuple(one for one in document.maxima if one.range.hi > end),
        sinks={name: _lag(sink, end, rules.max_lag_us.get(name), now_us) for name, sink in document.sinks.items()},
        gap_since_us=_gap_since(document, end, bool(passed - below), now_us),
    )
    return _with_event_time(settled, ready, rules, now_us) if ready else settled


def _passed(document: PipelineDocument, policy: CommitPolicy, first: int) -> RangeSet:
    counted = {name: sink for name, sink in document.sinks.items() if sink.standing is Standing.ACTIVE}
    # Below its start a sink owes nothing.
    delivered = {name: sink.delivered | Range(min(first, sink.start), sink.start) for name, sink in counted.items()}
    required = {name: sink.required for name, sink in counted.items()}
    end = document.marks.end if document.marks.end is not None else first
    taken = document.taken | Range(first, end)
    return (policy.committed(delivered, required) & taken) | document.skipped | Range(first, end)


def _lag(sink: SinkProgress, end: int, max_lag_us: int | None, now_us: int) -> SinkProgress:
    if sink.standing is not Standing.ACTIVE:
        return sink
    if sink.prefix_end >= end:
        return replace(sink, lagging_since_us=None) if sink.lagging_since_us is not None else sink
    since_us = now_us if sink.lagging_since_us is None else sink.lagging_since_us
    broken = max_lag_us is not None and not sink.required and now_us - since_us > max_lag_us
    return replace(sink, lagging_since_us=since_us, standing=Standing.BROKEN if broken else sink.standing)


def _gap_since(document: PipelineDocument, end: int, is_ahead: bool, now_us: int) -> int | None:
    has_gap = is_ahead or bool(document.failures) or (document.highest_seen is not None and document.highest_seen > end)
    if not has_gap:
        return None
    same = document.gap_since_us is not None and end == document.marks.end
    return document.gap_since_us if same else now_us


def _with_event_time(
    document: PipelineDocument, ready: Sequence[Maxima], rules: Rules, now_us: int
) -> PipelineDocument:
    if rules.event_time is None:
        return document
    tracker = document.tracker or TrackerState(parts={}, combined_us=None)
    for one in sorted(ready, key=lambda maxima: maxima.range.lo):
        tracker = event_time.observe(
            tracker,
            one.parts,
            max_lateness_us=rules.event_time.max_lateness_us,
            now_us=now_us,
            all_idle=rules.event_time.all_idle,
        )
    return with_tracker(document, tracker, rules)


def with_tracker(document: PipelineDocument, tracker: TrackerState, rules: Rules) -> PipelineDocument:
    """The document with a newer tracker, and the step that its combined watermark makes at the mark."""
    combined_us = event_time.combined(tracker, "max" if rules.event_time is None else rules.event_time.all_idle)
    tracker = replace(tracker, combined_us=combined_us)
    changed = replace(document, tracker=tracker)
    if rules.kind is not WatermarkKind.EVENT_TIME or combined_us is None or document.marks.end is None:
        return changed
    # Late is below the tracker's value, so all is there up to the microsecond before it.
    return stepped(changed, Step(end=document.marks.end, watermark=Watermark.of_micros(combined_us - 1)))


def stepped(document: PipelineDocument, step: Step) -> PipelineDocument:
    """The document with one more step, unless it says nothing new."""
    known = watermark_at(document.steps, step.end)
    if known is not None and not step.watermark > known:
        return document
    kept = tuple(one for one in document.steps if not (one.end == step.end and one.seq is None))
    steps = tuple(sorted((*kept, step), key=lambda one: (one.end, one.watermark.value)))
    return replace(document, steps=_forgotten(steps, document)[-_MAX_STEPS:])


def _forgotten(steps: tuple[Step, ...], document: PipelineDocument) -> tuple[Step, ...]:
    """Without the steps that no sink will ever publish again.

    Of those below the lowest mark the newest is left, and each advance that some sink has not shown yet.
    """
    active = [sink for sink in document.sinks.values() if sink.standing is Standing.ACTIVE]
    lowest = min((sink.start if sink.published_end is None else sink.published_end for sink in active), default=0)
    below = [one for one in steps if one.end <= lowest]
    shown = [sink.watermark for sink in active]
    due = [one for one in below[:-1] if one.seq is not None and any(w is None or one.watermark > w for w in shown)]
    return (*due, *below[-1:], *(one for one in steps if one.end > lowest))


def watermark_at(steps: Sequence[Step], end: int) -> Watermark | None:
    """How far the source is complete for a reader of everything below `end`."""
    best: Watermark | None = None
    for step in steps:
        if step.end <= end and (best is None or step.watermark > best):
            best = step.watermark
    return best


def positions_after(positions: Mapping[str, int], plans: Sequence[PlanDocument], passed: Range) -> Mapping[str, int]:
    """Where the parts stand once the checkpoints of `passed` are complete too."""
    if passed.is_empty:
        return positions
    moved = dict(positions)
    for plan in plans:
        if not plan.range.intersect(passed):
            continue
        for one in plan.slices_of(passed):
            for part, span in one.parts.items():
                moved[part] = max(moved.get(part, span.hi), span.hi)
    return moved
