"""Why things stand where they stand, from the values that `status` shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate import errors
from tidegate.clock import from_micros, to_micros
from tidegate.progress.cut import NOT_PUBLISHED, STUCK
from tidegate.progress.drift import Drift, bounds_of, drift_or_wait
from tidegate.progress.groups import Group
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import Watermark
from tidegate.tables.documents import Row, TableDocument
from tidegate.tables.judge import NOT_REBUILDABLE
from tidegate.views.groups import alignment_of
from tidegate.views.pipelines import count_text, numbers_text
from tidegate.views.values import (
    Explanation,
    GroupStatus,
    PipelineStatus,
    SourceStatus,
    State,
    Status,
    TableStatus,
)

_MOST_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an explanation may look at: the status of everything, the groups as declared, the histories of tables."""

    status: Status
    groups: Mapping[str, Group]
    documents: Mapping[str, TableDocument]

    @property
    def now_us(self) -> int:
        return to_micros(self.status.at)


def explain_table(scene: Scene, table: TableStatus) -> Explanation:
    """Why a table may be refreshed, or may not, and what the next refresh would do."""
    document = scene.documents.get(table.name)
    failed = table.failure is not None
    reason = table.failure if failed else table.reason
    return Explanation(
        name=table.name,
        kind="table",
        standing=table.verdict,
        reason=reason or _open_reason(table),
        blocked_by=table.blocked_by,
        since=table.since,
        remedy=_failure_remedy(table) if failed else _table_remedy(scene, table),
        facts={
            "gating": table.gating,
            "why_gating": table.why_gating,
            "root_sources": table.root_sources,
            "groups": table.groups,
            "version": table.version,
            "effective_watermarks": dict(table.effective_watermarks),
            "ungated": table.ungated,
            "warning": _skips_cuts(scene, table),
            "schedule": table.schedule,
            "next_refresh": dict(table.next_refresh),
            "inputs": table.inputs,
            "history": [] if document is None else [_told(row) for row in reversed(document.history[-_MOST_ROWS:])],
        },
    )


def explain_pipeline(scene: Scene, pipeline: PipelineStatus) -> Explanation:
    """Why the mark of a pipeline is where it is, and what its watermark waits for."""
    holder = next((part for part in pipeline.partitions if part.blocking and len(pipeline.partitions) > 1), None)
    waits = _drift(scene, pipeline.source)
    is_throttled = waits.is_throttled and not (pipeline.reason or pipeline.failures)
    return Explanation(
        name=pipeline.name,
        kind="pipeline",
        standing=pipeline.state.value,
        reason=waits.reason if is_throttled else _pipeline_reason(pipeline),
        blocked_by=waits.waits_for if is_throttled else _in_the_way(pipeline),
        since=pipeline.since or (pipeline.gap_since if pipeline.gaps else None),
        remedy=_catching_up(scene, waits.waits_for) if is_throttled else _pipeline_remedy(pipeline),
        facts={
            "source": pipeline.source,
            "runner": pipeline.runner,
            "checkpoint_hi_inclusive": pipeline.checkpoint_hi_inclusive,
            "published_hi_inclusive": pipeline.published_hi_inclusive,
            "reader_lo": pipeline.reader_lo,
            "pruner_hi": pipeline.pruner_hi,
            "gaps": pipeline.gaps,
            "ahead": pipeline.ahead,
            "in_flight": pipeline.in_flight,
            "watermark": pipeline.watermark,
            "watermark_held_by": None if holder is None else f"part {holder.partition}",
            "watermark_held_since": None if holder is None else holder.since,
            "late_rows": pipeline.late_rows,
            "rows_from_the_future": pipeline.skewed_rows,
            "dead_letters": pipeline.dead_letters,
            "numbers_below_the_first": pipeline.below_first,
            "changed_files": pipeline.changed_files,
            "sinks": pipeline.sinks,
            "partitions": pipeline.partitions,
            "failures": pipeline.failures,
        },
    )


def explain_source(scene: Scene, source: SourceStatus) -> Explanation:
    """How far a source is complete, who said so, and who listens."""
    tables = [one.name for one in scene.status.tables.values() if source.name in one.root_sources]
    groups = [name for name, group in scene.groups.items() if source.name in group.sources]
    return Explanation(
        name=source.name,
        kind="source",
        standing=_source_state(source),
        reason=_source_reason(source),
        blocked_by=source.read_by if source.pending is not None else _silent_parts(source),
        since=source.heard_at if source.stuck else source.advanced_at,
        remedy=_source_remedy(scene, source),
        facts={
            "type": source.type,
            "watermark": source.watermark,
            "kind": source.kind,
            "pending": source.pending,
            "advanced_by": source.advanced_by,
            "heard_at": source.heard_at,
            "parts": dict(source.part_values),
            "read_by": source.read_by,
            "groups": groups,
            "tables": tables,
            "throttled": _drift(scene, source.name).reason,
        },
    )


def _catching_up(scene: Scene, names: Iterable[str]) -> str:
    known = [scene.status.sources[name] for name in names if name in scene.status.sources]
    moves = [f"{one.name}: {move}" for one in known if (move := _source_remedy(scene, one)) is not None]
    return "; ".join(moves) or f"{_and(tuple(names))} must catch up"


def _drift(scene: Scene, source: str) -> Drift:
    """Whether nothing more is planned of a source for now, because it is too far ahead of others."""
    watermarks = {name: one.watermark for name, one in scene.status.sources.items()}
    return drift_or_wait(source, bounds_of(scene.groups.values()), watermarks, idle=_idle(scene))


def _idle(scene: Scene) -> set[str]:
    read = {name: [scene.status.pipelines[by] for by in one.read_by] for name, one in scene.status.sources.items()}
    return {name for name, by in read.items() if by and all(_is_idle(one) for one in by)}


def _is_idle(pipeline: PipelineStatus) -> bool:
    return bool(pipeline.partitions) and all(part.idle for part in pipeline.partitions)


def explain_group(scene: Scene, group: GroupStatus) -> Explanation:
    """Whether the sources of a group agree, who is behind, and which tables heed it."""
    try:
        reason = alignment_of(scene.groups[group.name], scene.status.sources, scene.now_us).reason
    except errors.MixedKinds as mixed:
        reason = mixed.message
    stuck = [scene.status.sources[name] for name in group.sources if name in scene.status.sources]
    problems = [problem for source in stuck if source.stuck for problem in source.problems]
    remedies = [_source_moves(scene, name, group.wanted) for name in group.behind]
    return Explanation(
        name=group.name,
        kind="group",
        standing=group.state,
        reason=reason or (problems[0] if problems else "its sources agree"),
        blocked_by=group.behind,
        remedy="; ".join(remedies) or None,
        facts={
            "sources": {name: scene.status.sources[name].watermark for name in group.sources if name in _known(scene)},
            "tolerance": group.tolerance,
            "lag": group.lag,
            "min_watermark": group.min_watermark,
            "max_watermark": group.max_watermark,
            "effective_watermark": group.effective_watermark,
            "tables": [one.name for one in scene.status.tables.values() if group.name in one.groups],
        },
    )


def _known(scene: Scene) -> Mapping[str, SourceStatus]:
    return scene.status.sources


# tables


def _open_reason(table: TableStatus) -> str:
    if table.next_refresh.get("mode") is None:
        return str(table.next_refresh.get("why") or "it is up to date")
    return "its sources agree" if table.groups and table.gating != "none" else "it waits for nobody"


def _skips_cuts(scene: Scene, table: TableStatus) -> str | None:
    """Which inputs of a table that is held back have not every version it could be cut at."""
    if table.gating != "hold_back":
        return None
    inputs = [scene.status.tables[one.name] for one in table.inputs if one.name in scene.status.tables]
    free = [one.name for one in inputs if one.gating != "hold_back" and set(one.groups) & set(table.groups)]
    if not free:
        return None
    reads = "reads its newest inputs and" if len(free) == 1 else "read their newest inputs and"
    return f"{_and(free)} {reads} may have skipped a version that {table.name} could be cut at"


def _failure_remedy(table: TableStatus) -> str:
    if table.code == errors.InputGone.code:
        return f"tidegate advance {_first(table.blocked_by)} VALUE --version V, with a version that is there"
    return f"mend what the reason says, then: tidegate refresh {table.name}"


def _table_remedy(scene: Scene, table: TableStatus) -> str | None:
    match table.code:
        case code if code == NOT_PUBLISHED:
            return _first_rows(scene, table.blocked_by)
        case code if code == NOT_REBUILDABLE:
            return f"tidegate refresh {table.name} --force computes it over the rows that are left"
        case code if code == STUCK:
            return f"its loader must be heard of again: tidegate advance {_first(table.blocked_by)} VALUE"
        case code if code == errors.InputGone.code:
            return f"tidegate advance {_first(table.blocked_by)} VALUE --version V, with a version that is there"
        case _:
            pass
    if table.blocked_by:
        return "; ".join(_moves(scene, table, name) for name in table.blocked_by)
    mode = table.next_refresh.get("mode")
    return None if mode is None else f"the next tidegate run refreshes it, or now: tidegate refresh {table.name}"


def _first_rows(scene: Scene, inputs: Sequence[str]) -> str:
    """What makes inputs that have nothing have something."""
    sources = scene.status.sources
    loaded = [name for name in inputs if name in sources and sources[name].type == "external"]
    told = [f"its loader must load {name}, then: tidegate advance {name} VALUE" for name in loaded]
    if len(loaded) < len(inputs):
        told.append("tidegate run --once publishes it, when its rows are there")
    return "; ".join(told)


def _moves(scene: Scene, table: TableStatus, source: str) -> str:
    """What would bring a source that is in the table's way further."""
    groups = [scene.status.groups[name] for name in table.groups if source in scene.status.groups[name].sources]
    apart = [group for group in groups if not group.aligned and source in group.behind]
    if not apart:
        stale = _stale_inputs(scene, table, source)
        if stale:
            return f"{source} itself is far enough; what reads it is not: tidegate refresh {stale[0]}"
        return "its sources agree by now: the next tidegate run takes that in"
    return _source_moves(scene, source, apart[0].wanted)


def _stale_inputs(scene: Scene, table: TableStatus, source: str) -> list[str]:
    """The tables that the table reads, and that have not taken in all of the source."""
    tables = scene.status.tables
    inputs = [one.name for one in table.inputs if one.kind == "table" and one.name in tables]
    return [
        name
        for name in inputs
        if source in tables[name].root_sources and tables[name].next_refresh.get("mode") is not None
    ]


def _told(row: Row) -> dict[str, object]:
    """A row of the history as a fact."""
    return {
        "what": row.happening.value,
        "at": from_micros(row.until_us),
        "times": row.count,
        "how": row.how,
        "version": row.version,
        "rows": row.rows,
        "reason": row.reason,
    }


# sources


def _source_moves(scene: Scene, name: str, wanted: Watermark | None) -> str:
    source = scene.status.sources.get(name)
    value = "VALUE" if wanted is None else wanted.text
    if source is None:
        return f"declare source {name}"
    if source.pending is not None and (wanted is None or source.pending >= wanted):
        return f"{source.pending.text} of {name} takes effect once {_and(source.read_by)} has published: tidegate run"
    if source.is_advanced:
        part = "".join(f" --part {one}" for one in _silent_parts(source)[:1])
        return f"tidegate advance {name} {value}{part}, once it is complete to there"
    return f"rows of {name} up to {value} must come and be published by {_and(source.read_by) or 'a pipeline'}"


def _source_state(source: SourceStatus) -> str:
    if source.stuck:
        return "stuck"
    if source.pending is not None:
        return "pending"
    return "unreported" if source.watermark is None else "complete"


def _source_reason(source: SourceStatus) -> str:
    if source.stuck and source.problems:
        return source.problems[0]
    reached = "nothing of it is complete yet" if source.watermark is None else f"complete to {source.watermark.text}"
    if source.pending is not None:
        return f"{reached}; {source.pending.text} was said, and waits until all that was there then is published"
    silent = _silent_parts(source)
    if silent:
        return f"{_and(silent)} {'has' if len(silent) == 1 else 'have'} not reported yet"
    return reached


def _source_remedy(scene: Scene, source: SourceStatus) -> str | None:
    if source.pending is not None:
        readers = [scene.status.pipelines[name] for name in source.read_by]
        held = [one.name for one in readers if one.state is not State.RUNNING]
        return f"tidegate run {_first(held)}" if held else "it is being published"
    if source.is_advanced:
        return f"tidegate advance {source.name} VALUE"
    return f"it rises with the rows that {_and(source.read_by)} publishes" if source.read_by else None


def _silent_parts(source: SourceStatus) -> tuple[str, ...]:
    return tuple(part for part, value in source.part_values.items() if value is None)


# pipelines


def _pipeline_reason(pipeline: PipelineStatus) -> str:
    if pipeline.reason:
        return pipeline.reason
    if pipeline.failures and pipeline.gaps:
        return pipeline.failures[0].message
    missing = _missing(pipeline)
    if missing:
        return f"{numbers_text(missing)} {'has' if missing.size == 1 else 'have'} not arrived"
    if pipeline.gaps:
        return f"{numbers_text(pipeline.gaps)} {'is' if pipeline.gaps.size == 1 else 'are'} not planned yet"
    if pipeline.checkpoint_hi_inclusive is None:
        return "nothing of its source is there yet"
    behind = [sink for sink in pipeline.sinks if sink.missing]
    if behind:
        return f"complete to {pipeline.checkpoint_hi_inclusive}; sink {behind[0].name} catches up"
    if pipeline.dead_letters:
        dead = count_text(pipeline.dead_letters, "row")
        return (
            f"complete to {pipeline.checkpoint_hi_inclusive}; {dead} could not be read and lie in {pipeline.name}__dead"
        )
    return f"complete to {pipeline.checkpoint_hi_inclusive}, which is all that there is"


def _missing(pipeline: PipelineStatus) -> RangeSet:
    """The numbers that are not there. Plans are made in order: what lies above all of them may be there by now."""
    planned = [span.hi for numbers in (pipeline.ahead, pipeline.in_flight) for span in numbers]
    return pipeline.gaps & Range(0, max(planned, default=0))


def _in_the_way(pipeline: PipelineStatus) -> tuple[str, ...]:
    """The sinks that failed; else the source, where a number has not arrived."""
    failed = tuple(dict.fromkeys(one.sink for one in pipeline.failures if one.sink is not None))
    return failed or ((pipeline.source,) if _missing(pipeline) - pipeline.orphaned else ())


def _pipeline_remedy(pipeline: PipelineStatus) -> str | None:
    match pipeline.state:
        case State.PAUSED | State.STOPPED:
            return f"tidegate resume {pipeline.name}"
        case State.FAILED:
            return f"mend what the reason says, then: tidegate run {pipeline.name}"
        case _:
            pass
    if pipeline.orphaned:
        return f"tidegate run {pipeline.name} does again what its last runner left"
    missing = _missing(pipeline)
    if missing:
        return f"{numbers_text(missing)} must arrive; what lies above is delivered and waits"
    if pipeline.gaps and pipeline.state is not State.RUNNING:
        return f"tidegate run {pipeline.name}"
    behind = [sink for sink in pipeline.sinks if sink.missing]
    if behind:
        return f"sink {behind[0].name} must take rows again: {behind[0].error or 'it is tried again'}"
    return None


def _first(names: Sequence[str]) -> str:
    return names[0] if names else "SOURCE"


def _and(names: Iterable[str]) -> str:
    known = list(names)
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}" if known else ""
