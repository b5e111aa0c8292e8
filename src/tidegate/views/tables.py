"""The status of a maintained table, from the same facts and verdict as its refresh. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.clock import from_micros
from tidegate.progress.cut import Verdict
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.tables.documents import Happening, Row, TableDocument
from tidegate.tables.judge import HOW, Facts, is_current, judge, shows
from tidegate.views.values import InputStatus, TableStatus


def table_status(facts: Facts) -> TableStatus:
    """What one table shows, and whether it may be refreshed now."""
    verdict = judge(facts)
    metadata, name = facts.metadata, facts.spec.name
    effective = {} if metadata is None else dict(metadata.effective)
    failure = None if facts.document is None else facts.document.failure
    ungated = metadata is not None and metadata.ungated
    return TableStatus(
        name=name,
        gating=facts.node.mode.value,
        verdict=verdict.standing.value,
        reason=verdict.reason,
        blocked_by=verdict.blocked_by,
        since=None if (row := _waiting(facts.document, verdict)) is None else from_micros(row.at_us),
        effective_watermark=least(effective.values()),
        effective_watermarks=effective,
        ungated=ungated,
        version=None if facts.own is None or metadata is None else facts.own.version,
        refreshed_at=None if facts.refreshed_us is None else from_micros(facts.refreshed_us),
        last_refresh=None if metadata is None else metadata.extra.get(HOW),
        why_gating=facts.node.why,
        root_sources=tuple(sorted(facts.node.roots)),
        groups=facts.node.groups,
        inputs=_inputs(facts, verdict),
        schedule=facts.spec.schedule.text,
        next_refresh=_next_refresh(facts, verdict),
        code=verdict.code,
        failure=None if failure is None else failure.reason,
        problems=_problems(name, failure, ungated=ungated),
        complete_to=_complete_to(facts),
    )


def least(values: Iterable[Watermark]) -> Watermark | None:
    """The lowest of values of one kind; None of none, and of values that cannot be compared."""
    found = list(values)
    return min(found) if found and len({value.kind for value in found}) == 1 else None


def _complete_to(facts: Facts) -> Watermark | None:
    vector = Vector() if facts.metadata is None else facts.metadata.vector
    known = [vector[root] for root in facts.node.roots if root in vector]
    return least(known) if len(known) == len(facts.node.roots) else None


def _waiting(document: TableDocument | None, verdict: Verdict) -> Row | None:
    """The row of the history that tells since when the table has waited for the same."""
    last = None if document is None else document.last
    if last is None or not verdict.is_closed or last.happening is not Happening.WAITED:
        return None
    return last if (last.blocked_by, last.code) == (verdict.blocked_by, verdict.code) else None


def _inputs(facts: Facts, verdict: Verdict) -> tuple[InputStatus, ...]:
    frontier = facts.frontier
    return tuple(
        InputStatus(
            name=one.name,
            kind=one.kind.value,
            frontier=frontier.get(one.table),
            version=verdict.cut[one.table].version if one.table in verdict.cut else None,
        )
        for one in facts.node.inputs
    )


def _next_refresh(facts: Facts, verdict: Verdict) -> dict[str, str | None]:
    """What a refresh would do now, and why nothing cheaper."""
    if verdict.is_closed:
        return {"mode": None, "why": "its gate is closed"}
    if is_current(facts, verdict):
        return {"mode": None, "why": "it shows exactly this cut already"}
    if facts.metadata is None:
        return {"mode": "full", "why": "it has never been refreshed"}
    if facts.is_redefined:
        return {"mode": "full", "why": "its query has changed"}
    if shows(facts, verdict):
        return {"mode": "unchanged", "why": "its rows stay as they are, and more is known of them"}
    return {"mode": "full", "why": "this version computes a table in full whenever the rows of an input change"}


def _problems(name: str, failure: Row | None, *, ungated: bool) -> tuple[str, ...]:
    found = []
    if failure is not None:
        found.append(f"table {name} has failed: {failure.reason}")
    if ungated:
        found.append(f"table {name} is ungated: a source of its group had not reported when it was refreshed")
    return tuple(found)
