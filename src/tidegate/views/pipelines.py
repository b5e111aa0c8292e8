"""The status of a pipeline, from its document and what is around it. Pure."""

from __future__ import annotations

from datetime import datetime

from tidegate.clock import from_micros
from tidegate.ledger.leases import LeaseView
from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import (
    ControlDocument,
    Failure,
    Phase,
    PipelineDocument,
    SinkProgress,
    Standing,
    Wanted,
)
from tidegate.progress.durations import format_duration
from tidegate.progress.partition_state import TrackerState
from tidegate.progress.ranges import EMPTY, Range, RangeSet
from tidegate.progress.watermarks import Watermark
from tidegate.quick import dataclass
from tidegate.views.values import FailedRange, PartStatus, PipelineStatus, SinkStatus, State

STUCK_AFTER_US = 300_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """All that is known of a pipeline: what was declared, what the ledger holds, and who runs it."""

    spec: PipelineSpec
    document: PipelineDocument | None = None
    control: ControlDocument | None = None
    planned: RangeSet = EMPTY
    lease: LeaseView | None = None

    @property
    def is_alive(self) -> bool:
        """Whether a runner holds it."""
        return self.lease is not None and self.lease.alive

    @property
    def wanted(self) -> Wanted:
        """What a person wants of it."""
        return Wanted.RUN if self.control is None else self.control.wanted


def state_of(phase: Phase | None, *, alive: bool, wanted: Wanted) -> State:
    """What people see, from what the runner last said, whether it lives, and what a person wants."""
    if wanted is not Wanted.RUN:
        if alive and phase in (Phase.RUNNING, Phase.DRAINING):
            return State.DRAINING
        return State.PAUSED if wanted is Wanted.PAUSE else State.STOPPED
    if phase in (None, Phase.IDLE):
        return State.RUNNING if alive else State.IDLE
    if phase is Phase.FAILED:
        return State.FAILED
    if phase is Phase.DRAINING and alive:
        return State.DRAINING
    if phase in (Phase.PAUSED, Phase.STOPPED):
        return State.RUNNING if alive else State.IDLE
    return State.RUNNING if alive else State.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """Every number above the high mark up to the highest seen, in exactly one of three."""

    gaps: RangeSet = EMPTY
    ahead: RangeSet = EMPTY
    in_flight: RangeSet = EMPTY
    orphaned: RangeSet = EMPTY  #: the part of the gaps that a dead runner had planned


def above_the_mark(document: PipelineDocument, planned: RangeSet, *, alive: bool) -> Above:
    """What lies above the high mark: committed, planned by a live runner, or a gap."""
    end = document.marks.end
    if end is None:
        return Above()
    seen = end if document.highest_seen is None else document.highest_seen + 1
    within = Range(end, max(end, seen, planned.hi or 0, document.committed.hi or 0, document.skipped.hi or 0))
    ahead = (document.committed | document.skipped) & within
    failed = RangeSet(failure.range for failure in document.failures)
    waiting = (planned & within) - ahead
    in_flight = waiting - failed if alive else EMPTY
    gaps = ahead.gaps(within) - in_flight
    return Above(gaps=gaps, ahead=ahead, in_flight=in_flight, orphaned=waiting & (gaps - failed))


def pipeline_status(facts: PipelineFacts, now_us: int) -> PipelineStatus:
    """The status of one pipeline."""
    spec, document = facts.spec, facts.document
    state = state_of(document.phase if document else None, alive=facts.is_alive, wanted=facts.wanted)
    if document is None:
        sinks = tuple(SinkStatus(name=s.name, type=s.type, required=s.required) for s in spec.sinks)
        return PipelineStatus(
            name=spec.name,
            source=spec.source,
            mode=spec.mode.value,
            state=state,
            reason=_reason(facts, state),
            since=_since(facts, state),
            sinks=sinks,
        )
    above = above_the_mark(document, facts.planned, alive=facts.is_alive)
    sink_views = tuple(_sink(spec, document, name, above.in_flight) for name in _sink_names(spec, document))
    main = next((sink for sink in sink_views if sink.name == spec.main_sink.name), None)
    failures = tuple(_failed(failure) for failure in document.failures)
    return PipelineStatus(
        name=spec.name,
        source=spec.source,
        mode=spec.mode.value,
        state=state,
        reason=_reason(facts, state),
        checkpoint_hi_inclusive=document.marks.checkpoint_hi_inclusive,
        published_hi_inclusive=None if main is None else main.published_hi_inclusive,
        reader_lo=document.marks.reader_lo,
        pruner_hi=document.marks.pruner_hi,
        gaps=above.gaps,
        ahead=above.ahead,
        in_flight=above.in_flight,
        epoch=document.epoch,
        watermark=document.watermark,
        late_rows=document.late_rows,
        dead_letters=document.dead_letters,
        sinks=sink_views,
        partitions=() if document.tracker is None else parts_of(document.tracker),
        since=_since(facts, state),
        gap_since=_moment(document.gap_since_us) if above.gaps else None,
        orphaned=above.orphaned,
        failures=failures,
        skewed_rows=document.skewed_rows,
        below_first=document.below_first,
        changed_files=document.changed_files,
        runner=facts.lease.owner if facts.lease is not None and facts.lease.alive else None,
        problems=tuple(_problems(facts, document, state, above.gaps, now_us)),
    )


def parts_of(tracker: TrackerState) -> tuple[PartStatus, ...]:
    """How far each part is; the one that holds all others is `blocking`."""
    holder = _holder(tracker)
    return tuple(
        PartStatus(
            partition=name,
            watermark=None if part.watermark_us is None else Watermark.of_micros(part.watermark_us - 1),
            idle=part.idle,
            blocking=name == holder,
            since=_moment(part.since_us),
        )
        for name, part in tracker.parts.items()
    )


def _holder(tracker: TrackerState) -> str | None:
    """The active part with the lowest watermark; one that never spoke is lower than all."""
    active = [(name, part) for name, part in tracker.parts.items() if not part.idle]
    if not active:
        return None
    return min(active, key=lambda one: -1 if one[1].watermark_us is None else one[1].watermark_us)[0]


def _sink_names(spec: PipelineSpec, document: PipelineDocument) -> list[str]:
    declared = [sink.name for sink in spec.sinks]
    return declared + [name for name in document.sinks if name not in declared]


def _sink(spec: PipelineSpec, document: PipelineDocument, name: str, in_flight: RangeSet) -> SinkStatus:
    declared = next((sink for sink in spec.sinks if sink.name == name), None)
    progress = document.sinks.get(name)
    if progress is None:
        assert_declared = declared or spec.main_sink
        return SinkStatus(name=name, type=assert_declared.type, required=assert_declared.required)
    reached = max((document.marks.end or 0, document.committed.hi or 0, *_delivered_ends(document)))
    published = progress.published_end
    return SinkStatus(
        name=name,
        type=progress.type,
        required=progress.required,
        delivered=progress.delivered,
        missing=progress.missing(Range(min(progress.start, reached), reached)) - in_flight,
        published_hi_inclusive=None if published is None or published <= progress.start else published - 1,
        rows=progress.rows,
        standing=progress.standing.value,
        error=progress.error,
        lagging_since=_moment(progress.lagging_since_us),
    )


def _delivered_ends(document: PipelineDocument) -> list[int]:
    return [sink.delivered.hi or 0 for sink in document.sinks.values()]


def _failed(failure: Failure) -> FailedRange:
    return FailedRange(
        numbers=RangeSet.of(failure.range),
        sink=failure.sink,
        code=failure.code,
        message=failure.message,
        at=from_micros(failure.at_us),
    )


def _reason(facts: PipelineFacts, state: State) -> str | None:
    document, control = facts.document, facts.control
    if state in (State.PAUSED, State.STOPPED) and control is not None:
        return f"{state.value} by {control.by}"
    if state is State.DRAINING and control is not None and control.wanted is not Wanted.RUN:
        return f"{control.by} asked it to {control.wanted.value}; work in flight is being finished"
    if document is None:
        return None if state is State.RUNNING else "it has not run yet"
    if state is State.FAILED and document.phase is not Phase.FAILED:
        runner = "" if facts.lease is None else f" ({facts.lease.owner})"
        return f"runner lost: the process that ran it{runner} is gone"
    if state is State.FAILED:
        return document.reason or (told(_failed(document.failures[0])) if document.failures else None)
    return document.reason if state in (State.DRAINING, State.IDLE) else None


def told(failed: FailedRange) -> str:
    """One failed range as a sentence."""
    return f"{numbers_text(failed.numbers)} failed{f' in sink {failed.sink}' if failed.sink else ''}: {failed.message}"


def _since(facts: PipelineFacts, state: State) -> datetime | None:
    if state in (State.PAUSED, State.STOPPED) and facts.control is not None:
        return from_micros(facts.control.at_us)
    document = facts.document
    if document is None:
        return None
    if state is State.FAILED and document.failures:
        return from_micros(document.failures[0].at_us)
    return _moment(document.updated_us or None) if state in (State.FAILED, State.IDLE) else None


def _problems(facts: PipelineFacts, document: PipelineDocument, state: State, gaps: RangeSet, now_us: int) -> list[str]:
    """What makes the pipeline unhealthy, each as a sentence."""
    name = facts.spec.name
    found = []
    if state is State.FAILED:
        found.append(f"pipeline {name} has failed: {_reason(facts, state) or 'see its log'}")
    waited_us = 0 if document.gap_since_us is None else now_us - document.gap_since_us
    if gaps and waited_us > STUCK_AFTER_US:
        found.append(f"pipeline {name} waits for {numbers_text(gaps)} since {format_duration(_rounded(waited_us))}")
    for sink_name, sink in document.sinks.items():
        found += _sink_problems(facts.spec, sink_name, sink, now_us)
    if document.dead_letters:
        found.append(f"pipeline {name} has {count_text(document.dead_letters, 'dead letter')}: see {name}__dead")
    if document.changed_files:
        found.append(f"pipeline {name}: {count_text(document.changed_files, 'file')} changed after being read")
    return found


def _sink_problems(spec: PipelineSpec, name: str, sink: SinkProgress, now_us: int) -> list[str]:
    if sink.standing is Standing.BROKEN:
        return [f"pipeline {spec.name}: sink {name} is broken and must be rebuilt ({sink.error or 'too far behind'})"]
    declared = next((one for one in spec.sinks if one.name == name), None)
    patience_us = declared.max_lag_us if declared is not None and declared.max_lag_us else STUCK_AFTER_US
    if sink.required and sink.lagging_since_us is not None and now_us - sink.lagging_since_us > patience_us:
        return [f"pipeline {spec.name}: required sink {name} is behind ({sink.error or 'it catches up'})"]
    return []


def numbers_text(numbers: RangeSet, *, most: int = 3) -> str:
    """`checkpoint 1004`, `checkpoints 1004 to 1006, 1009`; what is left out is counted."""
    pieces = [_span_text(*span.inclusive) for span in numbers]
    shown = ", ".join(pieces[:most])
    more = f" and {len(pieces) - most} more ranges" if len(pieces) > most else ""
    return f"{'checkpoint' if numbers.size == 1 else 'checkpoints'} {shown}{more}"


def count_text(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _span_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _rounded(micros: int) -> int:
    return micros - micros % 1_000_000


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
