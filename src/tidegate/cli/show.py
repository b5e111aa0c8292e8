"""Status and explanations as tables that fit 100 columns, worst first."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tidegate.progress.ranges import RangeSet
from tidegate.progress.watermarks import Watermark
from tidegate.quick import dataclass
from tidegate.views.pipelines import count_text, numbers_text, told
from tidegate.views.values import (
    Explanation,
    GroupStatus,
    PipelineStatus,
    SourceStatus,
    State,
    Status,
    TableStatus,
    as_json,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tidegate.cli.output import Shell
    from tidegate.ledger.contract import VersionInfo
    from tidegate.ledger.differences import Difference
    from tidegate.ledger.maintenance import Checked
    from tidegate.project.running import PruneReport
    from tidegate.service import CheckpointRange

NOTHING: Final = "–"
_BAD, _ODD, _GOOD, _STILL = "bold red", "yellow", "green", "dim"

#: Marks are called by their names; a count of nothing says nothing; sentences are never cut.
_MARKS: Final = frozenset({"checkpoint_hi_inclusive", "published_hi_inclusive", "reader_lo", "pruner_hi"})
_COUNTS: Final = frozenset(
    {"late_rows", "rows_from_the_future", "dead_letters", "numbers_below_the_first", "changed_files", "ungated"}
)
_SENTENCES: Final = frozenset({"reason", "message", "error"})
_NOTED: Final = 30

_STATES: Final = {
    State.FAILED: (0, _BAD),
    State.DRAINING: (2, _ODD),
    State.STOPPED: (3, _ODD),
    State.PAUSED: (4, _ODD),
    State.RUNNING: (5, _GOOD),
    State.IDLE: (6, _STILL),
}
_VERDICTS: Final = {"closed": (1, _ODD), "capped": (2, _ODD), "open": (4, _GOOD)}
_GROUP_STATES: Final = {"stuck": (0, _BAD), "misaligned": (1, _ODD), "bootstrapping": (2, _ODD), "aligned": (3, _GOOD)}


def status(found: Status, *, verbose: bool = False) -> list[RenderableType]:
    """Everything of a project, for a terminal."""
    shown: list[RenderableType] = [_headline(found)]
    if found.pipelines:
        shown += pipelines(found.pipelines.values(), verbose=verbose)
    if found.tables:
        shown += tables(found.tables.values(), verbose=verbose)
    if found.groups:
        shown += groups(found.groups.values())
    if found.sources:
        shown += sources(found.sources.values(), verbose=verbose)
    if len(shown) == 1:
        shown.append(Text("Nothing is declared yet: name sources, pipelines and tables in tidegate.yml.", style=_STILL))
    return shown


def watch(shell: Shell, look: Callable[[], Status]) -> None:
    """Show the status again every second, until interrupted."""
    from rich.live import Live

    if shell.as_json or not shell.console.is_terminal:
        while True:
            found = look()
            shell.document(as_json(found)) if shell.as_json else shell.show(*status(found, verbose=shell.verbose))
            time.sleep(1)
    with Live(console=shell.console, auto_refresh=False, screen=True) as live:
        while True:
            live.update(Group(*status(look(), verbose=shell.verbose)), refresh=True)
            time.sleep(1)


def pipelines(found: Iterable[PipelineStatus], *, verbose: bool = False) -> list[RenderableType]:
    """The pipelines: their marks, and notes on what is not as it should be."""
    ordered = sorted(found, key=_pipeline_rank)
    table = _Listing("Pipelines", ("name", "state", "complete to", "readable", "gaps*", "ahead*", "watermark"))
    for one in ordered:
        table.add(
            one.name,
            Text(one.state.value, style=_STATES[one.state][1]),
            _number(one.checkpoint_hi_inclusive),
            _readable(one),
            Text(spans(one.gaps), style=_ODD if one.gaps else ""),
            spans(one.ahead),
            value(one.watermark),
        )
    notes = [note for one in ordered for note in _pipeline_notes(one, verbose=verbose)]
    return [table, *_notes(notes), *_sinks(ordered, verbose=verbose)]


def tables(found: Iterable[TableStatus], *, verbose: bool = False) -> list[RenderableType]:
    """The maintained tables: their verdicts, and for those that wait, for whom."""
    ordered = sorted(found, key=_table_rank)
    table = _Listing("Tables", ("name", "gating", "verdict", "complete to", "version", "refreshed", "last"))
    for one in ordered:
        failed = one.failure is not None
        table.add(
            one.name,
            one.gating,
            Text("failed" if failed else one.verdict, style=_BAD if failed else _VERDICTS.get(one.verdict, (4, ""))[1]),
            Text("ungated", style=_ODD) if one.ungated else _effective(one),
            _number(one.version),
            moment(one.refreshed_at),
            one.last_refresh or NOTHING,
        )
    return [table, *_notes([note for one in ordered for note in _table_notes(one, verbose=verbose)])]


def groups(found: Iterable[GroupStatus]) -> list[RenderableType]:
    """The groups of sources, and how far apart they are."""
    ordered = sorted(found, key=lambda one: (_GROUP_STATES.get(one.state, (0, ""))[0], one.name))
    if not ordered:
        return [Text("There are no groups.", style=_STILL)]
    table = _Listing("Groups", ("name", "state", "lag", "tolerance", "lowest", "highest"))
    for one in ordered:
        style = _GROUP_STATES.get(one.state, (0, ""))[1]
        table.add(
            one.name,
            Text(one.state, style=style),
            one.lag or NOTHING,
            one.tolerance,
            value(one.min_watermark),
            value(one.max_watermark),
        )
    return [table, *_notes([note for one in ordered for note in _group_notes(one)])]


def sources(found: Iterable[SourceStatus], *, verbose: bool = False) -> list[RenderableType]:
    """The sources: how far each is complete, and who said so."""
    ordered = sorted(found, key=lambda one: (not one.stuck, not one.problems, one.pending is None, one.name))
    table = _Listing("Sources", ("name", "type", "complete through", "pending", "said by*", "at"))
    for one in ordered:
        table.add(
            Text(one.name, style=_BAD if one.stuck else "bold"),
            one.type or one.kind.value,
            value(one.watermark),
            value(one.pending),
            one.advanced_by or (_and(one.read_by) if one.read_by else NOTHING),
            moment(one.advanced_at),
        )
    notes = [(one.name, problem) for one in ordered for problem in one.problems]
    if verbose:
        notes += [(one.name, _parts_text(one.part_values)) for one in ordered if len(one.part_values) > 1]
    return [table, *_notes(notes)]


def checkpoints(pipeline: str, found: Sequence[CheckpointRange]) -> list[RenderableType]:
    """The checkpoints of a pipeline, newest first."""
    if not found:
        return [Text(f"{pipeline} has no checkpoints yet.", style=_STILL)]
    table = _Listing(f"Checkpoints of {pipeline}", ("from – to", "count", "state", "note*"))
    for one in reversed(found):
        table.add(f"{one.first} – {one.last}", f"{one.count:,}", one.state, one.note or "")
    return [table]


def versions(pipeline: str, found: Sequence[VersionInfo]) -> list[RenderableType]:
    """The versions of a pipeline's document, newest first."""
    if not found:
        return [Text(f"{pipeline} has no versions yet.", style=_STILL)]
    table = _Listing(f"Versions of {pipeline}", ("version", "since", "bytes", "note"))
    for one in reversed(found):
        note = "pinned" if one.pinned else "removed" if one.deleted else ""
        table.add(str(one.version), as_json(one.created_at), f"{one.size_bytes:,}", note)
    return [table]


def differences(found: Sequence[Difference]) -> list[RenderableType]:
    """What changed, place by place."""
    if not found:
        return [Text("Nothing changed.", style=_STILL)]
    table = _Listing("Changed", ("place", "before+", "after+"))
    for one in found:
        table.add(one.place, json.dumps(one.before), json.dumps(one.after))
    return [table]


def checked(found: Checked, recovered: Sequence[tuple[str, int, int]]) -> list[RenderableType]:
    """What a check of the ledger found."""
    lines: list[RenderableType] = [Text(f"{found.documents:,} documents in {found.versions:,} versions were read.")]
    if found.findings:
        table = _Listing("Cannot be read", ("document", "version", "newest good", "why+"))
        for one in found.findings:
            version = f"{one.version} (newest)" if one.is_head else str(one.version)
            table.add(one.key, version, str(one.newest_good or "none"), one.why)
        lines.append(table)
    lines += [Text(f"{key} goes on from version {taken}, as version {made}.") for key, taken, made in recovered]
    return lines


def pruned(reports: Iterable[PruneReport], *, dry_run: bool) -> list[RenderableType]:
    """What the pruner did, or would do."""
    table = _Listing("Would be pruned" if dry_run else "Pruned", ("name", "reader_lo", "pruner_hi", "files", "size"))
    notes = []
    for one in reports:
        size = _approximate(one.deleted_bytes)
        table.add(one.pipeline, _number(one.reader_lo), _number(one.pruner_hi), f"{one.deleted_files:,}", size)
        said = [one.note, *one.held_by]
        if one.would_raise_reader_lo_to is not None:
            said.append(f"readers would keep to {one.would_raise_reader_lo_to} and above")
        if one.due is not None:
            said.append(f"checkpoints {one.due[0]} to {one.due[1]} would be deleted")
        notes += [(one.pipeline, note) for note in said if note]
    return [table, *_notes(notes)]


def explanation(found: Explanation) -> list[RenderableType]:
    """Why something stands where it stands, for a terminal."""
    since = f" since {moment(found.since)}" if found.since else ""
    style = _style_of(found.standing)
    head = Text.assemble((found.name, "bold"), f" · {found.kind} · ", (found.standing, style), since)
    facts = {name: _plain(fact) for name, fact in found.facts.items() if name not in _COUNTS or fact}
    lines = [
        ("why", found.reason or ""),
        ("in the way", _and(found.blocked_by) if found.blocked_by else ""),
        ("what moves it", found.remedy or ""),
    ]
    lines += [
        (_label(name), _flat(fact)) for name, fact in facts.items() if not _is_list_of_facts(fact) and _says(fact)
    ]
    tables = [_facts(_label(name), fact) for name, fact in facts.items() if _is_list_of_facts(fact)]
    return [head, _pairs([(name, text) for name, text in lines if text]), *tables]


# pieces


def value(watermark: Watermark | None) -> str:
    """A watermark as a cell."""
    return NOTHING if watermark is None else watermark.text


def moment(at: datetime | None) -> str:
    """A time as a cell: to the second."""
    return NOTHING if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def spans(numbers: RangeSet, most: int = 2) -> str:
    """Ranges as a cell: `1004`, `1004–1006 +3`."""
    pieces = [f"{first}" if first == last else f"{first}–{last}" for first, last in numbers.inclusive_pairs()]
    if not pieces:
        return NOTHING
    more = f" +{len(pieces) - most}" if len(pieces) > most else ""
    return ", ".join(pieces[:most]) + more


def _headline(found: Status) -> RenderableType:
    mood = ("healthy", _GOOD) if found.healthy else ("not healthy", _BAD)
    head = Text.assemble((found.project, "bold"), " · ", moment(found.at), " · ", mood)
    return Group(head, Text(), *_notes([("!", problem) for problem in found.problems]))


@dataclass(slots=True)
class _Listing:
    """A titled table. Where 100 columns are too few, columns marked `*` are cut, and those marked `+` wrap.

    The first column is cut too: whoever looks for a name knows it.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[list[str | Text]] = field(default_factory=list)

    def add(self, *cells: str | Text) -> None:
        self.rows.append(list(cells))

    def lines(self) -> list[RenderableType]:
        """The title and the table."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=_STILL)
        columns = [name if place or name[-1] in "*+" else f"{name}*" for place, name in enumerate(self.columns)]
        for name in columns:
            table.add_column(name.rstrip("*+"), no_wrap=name[-1] not in "*+", min_width=4)
        for cells in self.rows:
            table.add_row(*[_cell(cell, name) for cell, name in zip(cells, columns, strict=True)])
        return [Text(self.title, style="bold"), table]

    def __rich__(self) -> RenderableType:
        return Group(*self.lines(), Text())


def _cell(cell: str | Text, column: str) -> Text:
    text = cell if isinstance(cell, Text) else Text(cell)
    text.no_wrap = not column.endswith("+")
    text.overflow = "ellipsis" if column.endswith("*") else "fold" if column.endswith("+") else "ignore"
    return text


def _notes(notes: Iterable[tuple[str, str]]) -> list[RenderableType]:
    told = [(name, note) for name, note in notes if note]
    if not told:
        return []
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True, max_width=_NOTED)
    grid.add_column()
    for name, note in told:
        grid.add_row(Text(name, overflow="ellipsis"), Text(note))
    return [Padding(grid, (0, 0, 0, 1), expand=False), Text()]


def _pairs(lines: Sequence[tuple[str, str]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=_STILL, no_wrap=True)
    grid.add_column()
    for name, text in lines:
        grid.add_row(name, Text(text))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _facts(title: str, facts: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = [name for name in facts[0] if any(_says(fact.get(name)) for fact in facts)]
    table = _Listing(title, tuple(f"{_label(name)}{'+' if name in _SENTENCES else '*'}" for name in columns))
    for fact in facts:
        table.add(*[_flat(fact.get(name)) for name in columns])
    return Padding(Group(*table.lines()), (1, 0, 0, 2), expand=False)


def _plain(fact: Any) -> Any:
    """A fact as people read it: the words of the JSON, and times to the second."""
    if isinstance(fact, datetime):
        return moment(fact)
    if is_dataclass(fact) and not isinstance(fact, (type, Watermark)):
        return {one.name: _plain(getattr(fact, one.name)) for one in fields(fact) if "inside" not in one.metadata}
    match fact:
        case {"mode": mode, "why": why}:
            return f"{mode or 'none'}: {why}" if why else mode
        case Mapping():
            return {name: _plain(one) for name, one in fact.items()}
        case list() | tuple():
            return [_plain(one) for one in fact]
        case _:
            return as_json(fact)


def _is_list_of_facts(fact: object) -> bool:
    return isinstance(fact, list) and bool(fact) and all(isinstance(one, dict) for one in fact)


def _says(fact: object) -> bool:
    return fact is not None and fact not in ([], {}, "")


def _flat(fact: Any) -> str:
    match fact:
        case None:
            return NOTHING
        case bool():
            return "yes" if fact else "no"
        case dict():
            return ", ".join(f"{name}: {_flat(one)}" for name, one in fact.items()) or NOTHING
        case [int(first), int(last)]:
            return f"{first}" if first == last else f"{first}–{last}"
        case list():
            return ", ".join(_flat(one) for one in fact) or NOTHING
        case _:
            return str(fact)


def _label(name: str) -> str:
    return name if name in _MARKS else name.replace("_", " ")


def _approximate(size_bytes: int) -> str:
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def _number(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else NOTHING


def _style_of(standing: str) -> str:
    styles = {state.value: style for state, (_, style) in _STATES.items()}
    styles |= {name: style for name, (_, style) in (_VERDICTS | _GROUP_STATES).items()}
    return styles.get(standing, "")


def _pipeline_rank(one: PipelineStatus) -> tuple[object, ...]:
    rank = _STATES[one.state][0]
    if one.problems:
        rank = min(rank, 1)
    return (rank, not one.gaps, one.name)


def _table_rank(one: TableStatus) -> tuple[object, ...]:
    rank = 0 if one.failure or one.problems else _VERDICTS.get(one.verdict, (3, ""))[0]
    return (rank, not one.ungated, one.name)


def _readable(one: PipelineStatus) -> str:
    if one.reader_lo is None or one.published_hi_inclusive is None or one.published_hi_inclusive < one.reader_lo:
        return NOTHING
    return f"{one.reader_lo}–{one.published_hi_inclusive}"


def _effective(one: TableStatus) -> str:
    if one.effective_watermark is None and one.effective_watermarks:
        return ", ".join(each.text for each in one.effective_watermarks.values())
    return value(one.effective_watermark)


def _pipeline_notes(one: PipelineStatus, *, verbose: bool) -> list[tuple[str, str]]:
    notes = []
    if one.reason:
        notes.append(one.reason)
    if one.in_flight:
        notes.append(f"{numbers_text(one.in_flight)} in flight")
    notes += [told(failed) for failed in one.failures[:3] if told(failed) != one.reason]
    counts = ((one.late_rows, "late row"), (one.dead_letters, "dead letter"), (one.skewed_rows, "row from the future"))
    odd = [count_text(count, noun) for count, noun in counts if count]
    if odd:
        notes.append(_and(odd).replace("row from the futures", "rows from the future"))
    holder = next((part for part in one.partitions if part.blocking), None)
    if holder is not None and len(one.partitions) > 1 and (verbose or holder.watermark is None):
        since = f" since {moment(holder.since)}" if holder.since else ""
        notes.append(f"part {holder.partition} holds the watermark at {value(holder.watermark)}{since}")
    return [(one.name, note) for note in notes]


def _table_notes(one: TableStatus, *, verbose: bool) -> list[tuple[str, str]]:
    notes = [one.failure] if one.failure else []
    if one.reason and one.reason != one.failure:
        notes.append(f"{'waits' if one.verdict == 'closed' else 'is held back'}: {one.reason}")
    if verbose and one.why_gating:
        notes.append(one.why_gating)
    return [(one.name, note) for note in notes]


def _group_notes(one: GroupStatus) -> list[tuple[str, str]]:
    notes = []
    if one.behind and one.state == "bootstrapping":
        notes.append(f"{_and(one.behind)} {'has' if len(one.behind) == 1 else 'have'} not reported yet")
    elif one.behind:
        notes.append(f"{_and(one.behind)} {'is' if len(one.behind) == 1 else 'are'} behind")
    if one.effective_watermark is not None and one.effective_watermark != one.max_watermark:
        notes.append(f"its tables show what is complete through {one.effective_watermark.text}")
    return [(one.name, note) for note in notes]


def _sinks(found: Sequence[PipelineStatus], *, verbose: bool) -> list[RenderableType]:
    worth = [
        one for one in found if verbose or len(one.sinks) > 1 or any(s.missing - one.gaps or s.error for s in one.sinks)
    ]
    if not worth:
        return []
    table = _Listing("Sinks", ("pipeline", "sink*", "type", "required", "published", "missing*", "rows", "standing"))
    notes = []
    for one in worth:
        for sink in sorted(one.sinks, key=lambda sink: (not sink.error, not sink.missing, sink.name)):
            table.add(
                one.name,
                sink.name,
                sink.type,
                "yes" if sink.required else "no",
                _number(sink.published_hi_inclusive),
                Text(spans(sink.missing), style=_ODD if sink.missing else ""),
                f"{sink.rows:,}",
                Text(sink.standing, style=_BAD if sink.standing == "broken" else ""),
            )
            if sink.error and (sink.missing or sink.standing == "broken"):
                notes.append((f"{one.name}/{sink.name}", sink.error))
    return [table, *_notes(notes)]


def _parts_text(parts: Mapping[str, Watermark | None]) -> str:
    return "parts: " + ", ".join(f"{name} {value(one)}" for name, one in parts.items())
