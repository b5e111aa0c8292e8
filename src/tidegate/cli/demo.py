"""`tidegate demo`: a project in a temporary folder, run step by step, with every sentence taken from what is shown.

Three runs. A numbered source loses a checkpoint and gets it back; two loaders come at different
rates, and the report over both waits for the slower one, says so, and opens.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from tidegate.cli import show
from tidegate.cli.output import Shell
from tidegate.service import Service
from tidegate.views.pipelines import count_text, numbers_text
from tidegate.views.values import Explanation, PipelineStatus, Status, TableStatus, as_json

START: Final = datetime(2026, 3, 1, 11, 0, tzinfo=UTC)
NOON: Final = START + timedelta(minutes=55)
LATER: Final = START + timedelta(minutes=65)

FILES: Final = {
    "tidegate.yml": """\
name: tides
spark:
  master: local[2]
  conf: {spark.sql.shuffle.partitions: 2}

sources:
  entries:                       # numbers its own checkpoints: one file a number
    type: numbered
    path: incoming/entries/{number}.json
    format: json
    schema: "id BIGINT, amount DOUBLE"
    first_checkpoint: 1000
  orders:                        # files land; their loader says how far they are complete
    type: landing
    path: incoming/orders
    format: json
    schema: "id BIGINT, at TIMESTAMP, total DOUBLE"
    watermark: timestamp
  order_lines:
    type: landing
    path: incoming/order_lines
    format: json
    schema: "order_id BIGINT, line BIGINT, at TIMESTAMP"
    watermark: timestamp

pipelines:
  entries: {source: entries, sinks: [{name: lake, type: delta}]}
  orders: {source: orders, sinks: [{name: lake, type: delta}]}
  order_lines: {source: order_lines, sinks: [{name: lake, type: delta}]}

groups:
  order_pipeline: {sources: [orders, order_lines], tolerance: 0s}
""",
    "tables/order_report.sql": """\
-- gating: gate
SELECT o.id, o.at, o.total, count(*) AS lines
FROM orders o JOIN order_lines l ON o.id = l.order_id
GROUP BY o.id, o.at, o.total
""",
}


@dataclass(slots=True)
class Step:
    """What was shown and told in one step, and whether all of it was so."""

    title: str
    shown: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Demo:
    """The stage: a project, its loaders, and the one who tells."""

    shell: Shell
    service: Service
    steps: list[Step] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.service.spec.root

    # the loaders

    def number(self, *numbers: int) -> None:
        """Files of the numbered source arrive."""
        for number in numbers:
            rows = [{"id": number * 10 + i, "amount": i * 1.5} for i in range(10)]
            self._file(f"incoming/entries/{number}.json", rows)
        self._typed(f"# {_and(f'incoming/entries/{number}.json' for number in numbers)} arrived")

    def loaded(self, source: str, since: datetime, until: datetime) -> None:
        """A loader brings what happened since its last load, then says how far it is."""
        minutes = range(1, int((until - since).total_seconds() // 60) + 1)
        self._file(
            f"incoming/{source}/{until:%H%M}.json", _rows(source, [since + timedelta(minutes=m) for m in minutes])
        )
        self._typed(f"tidegate advance {source} {_iso(until)}")
        self.service.advance(source, until, by=f"loader of {source}")

    def run(self) -> None:
        """Everything that is there now."""
        self._typed("tidegate run --once")
        if self._is_live:
            from tidegate.cli.running import progress_bar

            with progress_bar(self.shell) as on_event:
                code = self.service.run(once=True, on_event=on_event).exit_code
        else:
            code = self.service.run(once=True).exit_code
        self.check(code == 0, f"the run ended with exit code {code}")

    # the one who tells

    def step(self, title: str) -> None:
        self.steps.append(Step(title))
        if not self.shell.as_json:
            self.shell.show(Text(), Rule(Text(f"{len(self.steps)}. {title}", style="bold"), align="left"))

    def status(self) -> Status:
        """Where everything stands, shown."""
        found = self.service.status()
        self._shown("status", as_json(found), show.status(found))
        return found

    def explain(self, name: str) -> Explanation:
        """Why it stands there, shown."""
        told = self.service.explain(name)
        self._shown(f"explain {name}", told.to_json(), [*show.explanation(told), Text()])
        return told

    def _shown(self, command: str, document: Any, drawn: Iterable[Any]) -> None:
        self.steps[-1].shown[command] = document
        self._typed(f"tidegate {command}")
        if not self.shell.as_json:
            self.shell.show(*drawn)

    def tell(self, sentence: str) -> None:
        self.steps[-1].sentences.append(sentence)
        if not self.shell.as_json:
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_row(Text("→", style="cyan"), Text(sentence, style="cyan"))
            self.shell.show(grid)

    def check(self, holds: bool, otherwise: str) -> None:
        """Note what is not as this demo promises."""
        if not holds:
            self.steps[-1].wrong.append(otherwise)
            self.shell.aside.print(f"  not as told: {otherwise}", style="bold red", markup=False)

    def ids(self, name: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(name))

    def rows(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.service.read(name).rows.to_pylist()
        return found

    @property
    def _is_live(self) -> bool:
        return self.shell.aside.is_terminal and not self.shell.as_json and not self.shell.quiet

    def _typed(self, line: str) -> None:
        if not self.shell.as_json:
            self.shell.show(Text(line if line.startswith("#") else f"$ {line}", style="dim"))

    def _file(self, path: str, rows: Iterable[Mapping[str, object]]) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}")
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        draft.rename(target)


def narrate(shell: Shell) -> int:
    """Play the demo; 0 when everything was as it was told."""
    root = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    with Service.open(root) as service:
        demo = Demo(shell=shell, service=service)
        if not shell.as_json:
            shell.show(
                Text.assemble("A project in ", (str(root), "bold"), ": three sources, three pipelines, one report.")
            )
        for play in (_a_gap_opens, _the_gap_heals, _the_gate_opens):
            play(demo)
    as_told = not any(step.wrong for step in demo.steps)
    if shell.as_json:
        steps = [{"title": s.title, **s.shown, "sentences": s.sentences, "wrong": s.wrong} for s in demo.steps]
        shell.document({"project": str(root), "as_told": as_told, "steps": steps})
    else:
        shell.show(*_next(root, as_told))
    return 0 if as_told else 1


# the three steps


def _a_gap_opens(demo: Demo) -> None:
    demo.step("A checkpoint is missing, and both loaders are at the same point")
    demo.number(1000, 1001, 1003)
    demo.loaded("orders", START, NOON)
    demo.loaded("order_lines", START, NOON)
    demo.run()
    entries, report = _both(demo.status())
    _tell_gap(demo, entries)
    demo.check(
        entries.checkpoint_hi_inclusive == 1001, f"entries is complete to {entries.checkpoint_hi_inclusive}, not 1001"
    )
    demo.check(entries.gaps.inclusive_pairs() == [[1002, 1002]], f"the gaps are {entries.gaps.inclusive_pairs()}")
    demo.check(demo.ids("entries") == list(range(10000, 10020)), "readers see rows beyond the gap, or too few")
    _tell_report(demo, report)
    demo.check(report.verdict == "open", f"the report is {report.verdict}")


def _the_gap_heals(demo: Demo) -> None:
    demo.step("The missing file comes; one loader is faster than the other")
    before = demo.rows("order_report")
    demo.number(1002)
    demo.loaded("orders", NOON, LATER)
    demo.run()
    entries, report = _both(demo.status())
    _tell_gap(demo, entries)
    demo.check(
        entries.checkpoint_hi_inclusive == 1003, f"entries is complete to {entries.checkpoint_hi_inclusive}, not 1003"
    )
    demo.check(demo.ids("entries") == list(range(10000, 10040)), "rows of entries are missing, or there twice")
    told = demo.explain("order_report")
    demo.tell(f"order_report waits for {_and(told.blocked_by)}: {told.reason}.")
    _tell_version(demo, told, report, "It goes on showing")
    demo.check(report.verdict == "closed", f"the report is {report.verdict}, not closed")
    demo.check(report.blocked_by == ("order_lines",), f"the report is blocked by {list(report.blocked_by)}")
    demo.check(demo.rows("order_report") == before, "the report changed while its gate was closed")


def _the_gate_opens(demo: Demo) -> None:
    demo.step("The slower loader catches up")
    demo.loaded("order_lines", NOON, LATER)
    demo.run()
    _, report = _both(demo.status())
    _tell_report(demo, report)
    _tell_version(demo, demo.explain("order_report"), report, "It shows")
    rows = demo.rows("order_report")
    demo.check(report.verdict == "open", f"the report is {report.verdict}, not open")
    demo.check(len(rows) == 65 and {row["lines"] for row in rows} == {2}, "the report mixes")


# sentences: each is made of a value that is shown above it


def _both(status: Status) -> tuple[PipelineStatus, TableStatus]:
    return status.pipelines["entries"], status.tables["order_report"]


def _tell_gap(demo: Demo, entries: PipelineStatus) -> None:
    seen = f"readers see {entries.reader_lo} to {entries.published_hi_inclusive}"
    if entries.gaps:
        demo.tell(
            f"entries is complete to {entries.checkpoint_hi_inclusive}: {numbers_text(entries.gaps)} is not there."
        )
        demo.tell(f"{numbers_text(entries.ahead).capitalize()} is delivered already and waits unseen; {seen}.")
    else:
        demo.tell(f"The gap has healed: entries is complete to {entries.checkpoint_hi_inclusive}, and {seen}.")


def _tell_report(demo: Demo, report: TableStatus) -> None:
    effective = show.value(report.effective_watermark)
    demo.tell(
        f"order_report is {report.verdict}: version {report.version} is complete through {effective} in both sources."
    )


def _tell_version(demo: Demo, told: Explanation, report: TableStatus, how: str) -> None:
    refreshed = next(row for row in told.facts["history"] if row["version"] is not None)
    effective = show.value(report.effective_watermark)
    demo.tell(
        f"{how} version {refreshed['version']}: {count_text(refreshed['rows'], 'row')}, complete through {effective}."
    )


def _next(root: Path, as_told: bool) -> Iterator[Any]:
    yield Text()
    yield Rule(Text("What to look at next", style="bold"), align="left")
    commands = {
        f"cd {root}": "the project is still there",
        "tidegate status": "everything, worst first",
        "tidegate read order_report": "the rows of the report",
        "tidegate read entries --as-of 1001": "the rows as they were before the gap healed",
        "tidegate explain order_report": "what it is made of, and what would move it",
        "tidegate pause entries; tidegate run --once": "a paused pipeline is skipped, and said so",
        "cat tidegate.yml tables/order_report.sql": "all there is to write",
    }
    for command, why in commands.items():
        yield Text.assemble(f"  {command:<46}", (why, "dim"))
    if not as_told:
        yield Text("Not everything was as it was told; see above.", style="bold red")


def _rows(source: str, moments: Iterable[datetime]) -> Iterator[dict[str, object]]:
    for moment in moments:
        number = int((moment - START).total_seconds() // 60)
        if source == "orders":
            yield {"id": number, "at": _iso(moment), "total": number * 1.5}
        else:
            yield from ({"order_id": number, "line": line, "at": _iso(moment)} for line in range(2))


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _and(names: Iterable[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last
