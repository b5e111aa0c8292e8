"""Retention: how far readers' lower mark rises, and what the pruner deletes below it. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import PipelineDocument, Standing
from tidegate.progress.ranges import Range
from tidegate.progress.retention import Extent, Hold, lowered, retention_floor
from tidegate.sinks.contract import Sink
from tidegate.sinks.specs import DeltaSinkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Where a retention step would put `reader_lo`, and who keeps it lower than the retention wants."""

    reader_lo: int
    held_by: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What the pruner did or, in a dry run, would do."""

    document: PipelineDocument
    due: Range
    files: int = 0
    size_bytes: int = 0
    held: tuple[Range, ...] = ()


def is_step_due(document: PipelineDocument, spec: PipelineSpec, now_us: int, *, is_start: bool = False) -> bool:
    """Whether a run starts, or the interval since the last step has passed; its time is kept across runs."""
    if not spec.retention.keep.is_set or document.marks.checkpoint_hi_inclusive is None:
        return False
    last_us = document.retention_at_us
    return is_start or last_us is None or now_us - last_us >= spec.retention.interval_us


def floor(document: PipelineDocument, spec: PipelineSpec, main: Sink, now_us: int) -> Floor:
    """Where `reader_lo` goes now: what the retention wants, down to the edge of a file, respecting holds."""
    extents = [Extent(range=one.range, at_us=one.published_us, size_bytes=one.size_bytes) for one in main.extents()]
    wanted = retention_floor(document.marks, spec.retention.keep, extents=extents, now_us=now_us)
    published = document.sinks[spec.main_sink.name].published_end
    bound = lowered(wanted if published is None else min(wanted, published), holds(document))
    number = bound.number
    for extent in extents:
        if number in extent.range:
            number = extent.range.lo
    return Floor(reader_lo=max(number, document.marks.reader_lo or 0), held_by=bound.held_by)


def holds(document: PipelineDocument) -> list[Hold]:
    """The sinks that have not got everything yet: what they lack is not given up."""
    return [
        Hold(holder=f"sink {name}", number=sink.prefix_end)
        for name, sink in document.sinks.items()
        if sink.standing is Standing.ACTIVE
    ]


def raise_reader_lo(
    document: PipelineDocument, spec: PipelineSpec, sinks: Mapping[str, Sink], now_us: int
) -> PipelineDocument:
    """Take one reader step: new readers of every sink keep to the new mark from now on."""
    main = sinks.get(spec.main_sink.name)
    if main is None or document.marks.reader_lo is None:
        return document
    found = floor(document, spec, main, now_us)
    stepped = replace(document, retention_at_us=now_us)
    if found.reader_lo <= document.marks.reader_lo:
        return stepped
    for name, sink in sinks.items():
        if document.sinks[name].published_end is not None:
            state = sink.prune(found.reader_lo)
            progress = replace(stepped.sinks[name], version=state.version)
            stepped = replace(stepped, sinks={**stepped.sinks, name: progress})
    marks = stepped.marks.raised(found.reader_lo, now_us=now_us, delay_us=spec.retention.delay_us)
    return replace(stepped, marks=marks)


def delete_due(document: PipelineDocument, sinks: Mapping[str, Sink], pins: Mapping[str, int], now_us: int) -> Pruned:
    """Delete for good what is due and nobody needs. Resumes after a crash: deleting twice is harmless."""
    due = document.marks.due(now_us)
    if due.is_empty:
        return Pruned(document=document, due=due)
    end, files, size_bytes = due.hi, 0, 0
    held: list[Range] = []
    for sink in sinks.values():
        done = sink.delete(due.hi, above=due.lo, pinned_version=_pinned(sink, pins))
        files, size_bytes = files + done.files, size_bytes + done.size_bytes
        held += done.held
        if done.held:
            end = min(end, *(one.lo for one in done.held))
    pruned = replace(document, marks=document.marks.pruned(end)) if end > due.lo else document
    return Pruned(document=pruned, due=due, files=files, size_bytes=size_bytes, held=tuple(held))


def _pinned(sink: Sink, pins: Mapping[str, int]) -> int | None:
    return pins.get(sink.spec.table) if isinstance(sink.spec, DeltaSinkSpec) else None


def open_published(document: PipelineDocument, sinks: Sequence[Sink]) -> dict[str, Sink]:
    """The sinks that are open and whose contents the pipeline vouches for, by name."""
    return {
        sink.spec.name: sink
        for sink in sinks
        if sink.spec.name in document.sinks and document.sinks[sink.spec.name].standing is Standing.ACTIVE
    }
