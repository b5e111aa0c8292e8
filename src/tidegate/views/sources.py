"""The status of a source, from what was said of it and the pipelines that read it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tidegate.clock import from_micros
from tidegate.progress.durations import format_duration
from tidegate.progress.groups import Group
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.quick import dataclass
from tidegate.sources import advances
from tidegate.sources.advances import SourceDocument
from tidegate.sources.specs import ExternalSpec, SourceSpec, WatermarkKind
from tidegate.views.values import PipelineStatus, SourceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """All that is known of a source. `heard_us` is when its loader, or a pipeline over it, was last heard."""

    spec: SourceSpec
    document: SourceDocument | None = None
    pipelines: tuple[PipelineStatus, ...] = ()
    heard_us: int | None = None

    @property
    def kind(self) -> ValueKind:
        """What its watermark counts in."""
        integers = (WatermarkKind.INTEGER, WatermarkKind.CHECKPOINT)
        return ValueKind.INTEGER if self.spec.watermark in integers else ValueKind.TIMESTAMP


def source_status(facts: SourceFacts, groups: Iterable[Group], now_us: int) -> SourceStatus:
    """The status of one source: the least that the pipelines over it have published."""
    spec, document = facts.spec, facts.document
    parts = spec.parts if isinstance(spec, ExternalSpec) else ()
    said = advances.watermark(document, parts)
    reached = _published(facts.pipelines) if facts.pipelines else said
    newest = document.log[-1] if document is not None and document.log else None
    stuck = [group for group in groups if spec.name in group.sources and group.is_stuck(facts.heard_us, now_us)]
    heard_at = _moment(facts.heard_us)
    return SourceStatus(
        name=spec.name,
        watermark=reached,
        kind=facts.kind,
        advanced_at=None if newest is None else from_micros(newest.at_us),
        advanced_by=None if newest is None else newest.by,
        pending=said if said is not None and facts.pipelines and said != reached else None,
        stuck=bool(stuck),
        type=_type_of(spec),
        read_by=tuple(one.name for one in facts.pipelines),
        is_advanced=spec.watermark.is_advanced,
        part_values={part: _said_of(document, part) for part in parts},
        heard_at=heard_at,
        problems=tuple(_stuck_text(spec.name, group, facts.heard_us, now_us) for group in stuck),
    )


def _published(pipelines: Sequence[PipelineStatus]) -> Watermark | None:
    """What all of them have shown; None while one has shown nothing."""
    values = [one.watermark for one in pipelines if one.watermark is not None]
    return min(values) if values and len(values) == len(pipelines) else None


def _said_of(document: SourceDocument | None, part: str) -> Watermark | None:
    newest = None if document is None else document.newest(part)
    return None if newest is None else newest.value


def _stuck_text(name: str, group: Group, heard_us: int | None, now_us: int) -> str:
    silent_us = now_us - (heard_us or 0)
    silent = format_duration(silent_us - silent_us % 1_000_000)
    return (
        f"source {name} is stuck: nothing was heard of it for {silent}, and group {group.name} "
        f"expects it every {format_duration(group.stuck_after_us or 0)}"
    )


def _type_of(spec: SourceSpec) -> str:
    return type(spec).__name__.removesuffix("Spec").lower()


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
