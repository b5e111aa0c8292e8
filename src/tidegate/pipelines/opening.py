"""How a run takes its pipeline over: the lease, the document, and what its sinks say is there already."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tidegate import errors
from tidegate.ledger import leases
from tidegate.ledger.contract import Store
from tidegate.pipelines.commit import Rules
from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import (
    Failure,
    Phase,
    PipelineDocument,
    PlanDocument,
    SinkProgress,
    Standing,
    lease_key,
)
from tidegate.pipelines.intent import tracker_of
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sinks.contract import SinkState
from tidegate.sinks.specs import From, SinkSpec
from tidegate.sources.contract import NumberingSource, Source
from tidegate.sources.specs import SourceSpec


def take_lease(
    store: Store, pipeline: str, *, stop: threading.Event, tell: Callable[[str, Mapping[str, object]], None]
) -> leases.Lease:
    """The pipeline's lease. Waits for a holder that cannot be seen from here, and says so."""

    def waiting(view: leases.LeaseView) -> None:
        tell("waiting_for_lease", {"name": pipeline, "owner": view.owner})

    return leases.acquire(store, lease_key(pipeline), name=pipeline, stop=stop, waiting=waiting)


def rules_of(spec: PipelineSpec, source: SourceSpec) -> Rules:
    """What the pipeline and its source declare about commits and event times."""
    max_lag_us = {sink.name: sink.max_lag_us for sink in spec.sinks if sink.max_lag_us is not None}
    return Rules(policy=spec.policy, kind=source.watermark, event_time=source.event_time, max_lag_us=max_lag_us)


def opened_document(
    known: PipelineDocument | None, spec: PipelineSpec, source: Source, *, token: int, now_us: int
) -> PipelineDocument:
    """The document at the start of a run: a new one, or the last with the present owner and sinks.

    :raises ConfigError: the source is another one than before, or a sink cannot join as declared.
    """
    identity = source.identity()
    if known is None:
        known = PipelineDocument(pipeline=spec.name, source=spec.source, source_identity=identity)
    elif (known.source, known.source_identity) != (spec.source, identity):
        before, now = f"{known.source}, {known.source_identity}", f"{spec.source}, {identity}"
        raise errors.ConfigError(
            where=spec.where,
            what=f"pipelines.{spec.name} has read another source ({before}); now it is {now}",
            hint="give the pipeline another name, or the source its old name and settings back",
        )
    tracker = tracker_of(source, known.tracker) if source.spec.event_time is not None else known.tracker
    return replace(
        known,
        token=token,
        phase=Phase.RUNNING,
        reason=None,
        updated_us=now_us,
        sinks=_sinks(known, spec),
        failures=(),
        tracker=tracker,
        definition=spec.definition,
    )


def _sinks(known: PipelineDocument, spec: PipelineSpec) -> dict[str, SinkProgress]:
    declared = {sink.name: sink for sink in spec.sinks}
    kept = {
        name: progress if name in declared else replace(progress, standing=Standing.RETIRED)
        for name, progress in known.sinks.items()
    }
    for name, sink in declared.items():
        before = kept.get(name)
        if before is None or before.standing is Standing.RETIRED:
            kept[name] = SinkProgress(type=sink.type, required=sink.required, start=_start(known, spec, sink))
        else:
            kept[name] = replace(before, type=sink.type, required=sink.required)
    return {name: kept[name] for name in [*declared, *(name for name in kept if name not in declared)]}


def _start(known: PipelineDocument, spec: PipelineSpec, sink: SinkSpec) -> int:
    """The first number that a new sink takes."""
    marks = known.marks
    if marks.first is None or marks.end is None or marks.end == marks.first:
        return sink.from_ if isinstance(sink.from_, int) else marks.first or 0
    # What is planned was planned for the sinks of then; its batches are taken whole.
    newest = max(marks.end, known.planned_end or 0)
    if sink.from_ is From.NOW or (isinstance(sink.from_, int) and sink.from_ >= newest):
        return newest if sink.from_ is From.NOW else int(str(sink.from_))
    raise errors.ConfigError(
        where=sink.where,
        what=f"sink {sink.name} joins pipelines.{spec.name}, which has delivered up to {newest - 1}; "
        f"it cannot start at {sink.from_.value if isinstance(sink.from_, From) else sink.from_}",
        hint=f"say `from: now`, or `from: {newest}`; filling a new sink with history comes with a later version",
    )


def check_kept(name: str, sink: SinkProgress, state: SinkState) -> None:
    """Refuse a sink that shows less than was published in it: it was emptied, or is another place than it was.

    :raises SinkRejected: to go on would show a gap as if it were complete.
    """
    end = sink.published_end
    if end is None or sink.standing is not Standing.ACTIVE or (state.end is not None and state.end >= end):
        return
    shown = "nothing" if state.end is None else f"checkpoints up to {state.end - 1}"
    raise errors.SinkRejected(
        sink=name,
        what=f"it shows {shown}, though checkpoint {end - 1} was published in it: its place was emptied or is another",
        hint="bring its old contents or place back, or give the sink another name and `from: now`",
    )


def mended(
    document: PipelineDocument, plans: Sequence[PlanDocument], source: Source, *, busy: RangeSet, token: int
) -> list[PlanDocument]:
    """The plans as they become where a good file was put in the place of one that could not be read.

    A stored plan wins over what is there now, since a sink may have the rows of then. No sink has any
    of a number whose file did not read: what is there now is planned. A file that was changed without
    a failure before stays refused.
    """
    unread = [one.range for one in document.failures if one.code == errors.SourceError.code]
    if not unread or not isinstance(source, NumberingSource):
        return []
    failed = RangeSet(unread)
    read = document.taken | Range(0, document.marks.end or 0) | busy
    for sink in document.sinks.values():
        read = read | sink.delivered
    found = []
    for plan in plans:
        wanted = (failed & plan.range) - read
        if not wanted:
            continue
        try:
            now = {one.number: one for one in source.slices(wanted)}
        except errors.SourceUnreachable:
            continue  # gone for now: the next try tells
        slices = tuple(now.get(one.number, one) for one in plan.slices)
        if slices != plan.slices:
            found.append(replace(plan, slices=slices, token=token))
    return found


def adopted(document: PipelineDocument, name: str, state: SinkState) -> PipelineDocument:
    """The document after a sink told what is published in it: the higher mark wins."""
    sink = document.sinks[name]
    if state.end is None or state.end <= (sink.published_end if sink.published_end is not None else sink.start):
        return replace(document, sinks={**document.sinks, name: replace(sink, error=None)})
    watermark = state.vector.get(document.source)
    there = Range(min(sink.start, state.end), state.end)
    known = replace(
        sink,
        delivered=sink.delivered | there,
        published_end=state.end,
        version=state.version,
        watermark=sink.watermark if watermark is None else watermark,
        error=None,
    )
    return replace(document, sinks={**document.sinks, name: known}, taken=document.taken | there)


def blocking_failures(document: PipelineDocument) -> list[Failure]:
    """The failures that keep a checkpoint from being committed, lowest first; those of sinks that may lag do not."""
    end = document.marks.end or 0
    blocking = [
        one
        for one in document.failures
        if one.range.hi > end and not document.committed.covers(Range(max(one.range.lo, end), one.range.hi))
    ]
    return sorted(blocking, key=lambda one: one.range.lo)
