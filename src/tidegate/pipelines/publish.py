"""What may become visible now, in each sink, in order. Pure: `run` carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.pipelines.commit import watermark_at
from tidegate.pipelines.documents import PipelineDocument, Standing
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.sinks.contract import Publication, Receipt, SinkState
from tidegate.sources.specs import WatermarkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One step of one sink: everything below `end` becomes visible, and the source is complete through `watermark`."""

    end: int
    receipts: tuple[Receipt, ...]
    watermark: Watermark | None


def targets(
    document: PipelineDocument, sink_name: str, receipts: Sequence[Receipt], kind: WatermarkKind
) -> list[Target]:
    """The steps that are due in a sink: one for each advanced watermark on the way, then up to its own mark.

    A sink shows whole deliveries: where the mark falls inside one, it stays below it. `receipts` are
    those of the sink that are not published, ascending.
    """
    sink = document.sinks[sink_name]
    if document.marks.end is None or sink.standing is not Standing.ACTIVE:
        return []
    published = sink.start if sink.published_end is None else sink.published_end
    limit = min(document.marks.end, sink.prefix_end)
    said = [step for step in document.steps if step.seq is not None and published <= step.end <= limit]
    stops = [(step.end, step.watermark) for step in said if kind.is_advanced]
    found: list[Target] = []
    end, watermark = published, sink.watermark
    for stop, least in [*stops, (limit, _watermark(document, kind, limit, sink.start))]:
        chosen = tuple(one for one in receipts if end <= one.range.lo and one.range.hi <= stop)
        reached = max((one.range.hi for one in chosen), default=end)
        now = _watermark(document, kind, reached, sink.start) if least is None or reached < stop else least
        now = watermark if now is None or (watermark is not None and not now > watermark) else now
        has_shown = bool(found) or sink.published_end is not None
        if reached > end or (now != watermark and has_shown):
            found.append(Target(end=reached, receipts=chosen, watermark=now))
            end, watermark = reached, now
    return found


def _watermark(document: PipelineDocument, kind: WatermarkKind, end: int, start: int) -> Watermark | None:
    if kind is WatermarkKind.CHECKPOINT:
        return Watermark.of_integer(end - 1) if end > start else None
    return watermark_at(document.steps, end)


def publication(document: PipelineDocument, target: Target) -> Publication:
    """The target as a sink is told it."""
    return Publication(
        end=target.end,
        reader_lo=document.marks.reader_lo,
        positions=document.committed_positions,
        vector=Vector() if target.watermark is None else Vector({document.source: target.watermark}),
        source_identity=document.source_identity,
        lateness_us=None if document.tracker is None else document.tracker.combined_us,
    )


def published(document: PipelineDocument, sink_name: str, target: Target, state: SinkState) -> PipelineDocument:
    """The document after a sink has shown the target."""
    sink = replace(
        document.sinks[sink_name],
        published_end=target.end,
        version=state.version,
        watermark=target.watermark,
        error=None,
    )
    return replace(document, sinks={**document.sinks, sink_name: sink})
