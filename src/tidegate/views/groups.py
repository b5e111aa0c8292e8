"""The status of a group: what its sources say now, and the cut that its tables show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate import errors
from tidegate.progress.cut import Mode
from tidegate.progress.groups import Alignment, Group, alignment, distance_text
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.views.tables import least
from tidegate.views.values import GroupStatus, SourceStatus, TableStatus


def group_status(
    group: Group, sources: Mapping[str, SourceStatus], tables: Iterable[TableStatus], now_us: int
) -> GroupStatus:
    """Whether the sources of a group agree now."""
    kind = _kind(group, sources)
    tolerance = distance_text(group.tolerance, kind)
    effective = _last_cut(group, tables)
    try:
        judged = alignment_of(group, sources, now_us)
    except errors.MixedKinds:
        return GroupStatus(
            name=group.name,
            sources=group.sources,
            tolerance=tolerance,
            state="misaligned",
            effective_watermark=effective,
        )
    return GroupStatus(
        name=group.name,
        sources=group.sources,
        tolerance=tolerance,
        state=_state(group, judged, sources),
        min_watermark=judged.low,
        max_watermark=judged.high,
        lag=None if judged.lag is None else distance_text(judged.lag, kind),
        aligned=judged.aligned,
        effective_watermark=effective,
        behind=judged.blocked_by,
        wanted=judged.floor if judged.below and not judged.behind else judged.high,
    )


def alignment_of(group: Group, sources: Mapping[str, SourceStatus], now_us: int) -> Alignment:
    """The alignment of the live watermarks; what a table may read is judged by the versions of its inputs.

    :raises MixedKinds: timestamps and integers cannot be compared.
    """
    known = {name: sources[name].watermark if name in sources else None for name in group.sources}
    return alignment(group, known, now_us)


def _state(group: Group, judged: Alignment, sources: Mapping[str, SourceStatus]) -> str:
    if any(name in sources and sources[name].stuck for name in group.sources):
        return "stuck"
    if judged.missing:
        return "bootstrapping"
    return "aligned" if judged.aligned else "misaligned"


def _last_cut(group: Group, tables: Iterable[TableStatus]) -> Watermark | None:
    """The highest time at which a table that heeds the group was allowed to refresh."""
    shown = [
        table.effective_watermarks[group.name]
        for table in tables
        if table.gating != Mode.NONE.value and not table.ungated and group.name in table.effective_watermarks
    ]
    return None if least(shown) is None else max(shown)


def _kind(group: Group, sources: Mapping[str, SourceStatus]) -> ValueKind:
    return next((sources[name].kind for name in group.sources if name in sources), ValueKind.TIMESTAMP)
