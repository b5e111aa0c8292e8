"""`tidegate run`: progress for people, events for logs, and signals that end it well."""

from __future__ import annotations

import logging
import logging.handlers
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from tidegate.events import EVENTS
from tidegate.views.values import as_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tidegate.cli.output import Shell
    from tidegate.service import Service

_LOG_BYTES: Final = 10 << 20
_LOG_COPIES: Final = 3

OnEvent = Callable[[str, Mapping[str, object]], None]


def run_with_progress(shell: Shell, service: Service, names: list[str], *, once: bool) -> int:
    """Run, show what happens, and give the exit code."""
    from tidegate.cli import show

    stop = threading.Event()
    with service:
        with stopping_on_signals(stop, shell), _listening(shell, service.spec.state / "logs") as on_event:
            outcome = service.run(names, once=once, stop=stop, on_event=on_event)
        if shell.as_json:
            shell.document(as_json(outcome))
        elif once and not shell.quiet:
            shell.show(*show.status(service.status(), verbose=shell.verbose))
    return outcome.exit_code


@contextmanager
def stopping_on_signals(stop: threading.Event, shell: Shell) -> Iterator[None]:
    """The first SIGINT or SIGTERM lets the run drain; the second ends the process at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        shell.note("finishing what is in flight; once more ends it at once, and nothing is lost either way")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _listening(shell: Shell, folder: Path) -> Iterator[OnEvent]:
    """Where the events of a run go: the log file always, and a progress bar or log lines on standard error."""
    is_live = shell.aside.is_terminal and not shell.as_json and not shell.quiet
    log = logger(folder, shell, to_stderr=not is_live)

    def to_log(event: str, facts: Mapping[str, object]) -> None:
        level = EVENTS[event].level if event in EVENTS else logging.INFO
        log.log(level, event, **as_json(dict(facts)))

    if not is_live:
        yield to_log
        return
    with progress_bar(shell) as bar:

        def to_both(event: str, facts: Mapping[str, object]) -> None:
            to_log(event, facts)
            bar(event, facts)

        yield to_both


def logger(folder: Path, shell: Shell, *, to_stderr: bool) -> Any:
    """A structlog logger to `.tidegate/logs/run.jsonl`, and to standard error where nothing else is shown."""
    import structlog
    from structlog.stdlib import ProcessorFormatter

    stamped: list[Any] = [structlog.stdlib.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]
    base = logging.getLogger("tidegate.run")
    base.setLevel(logging.DEBUG)
    base.propagate = False
    for old in list(base.handlers):
        base.removeHandler(old)
        old.close()

    def listen(handler: logging.Handler, level: int, render: Any) -> None:
        handler.setLevel(level)
        handler.setFormatter(ProcessorFormatter(processors=[ProcessorFormatter.remove_processors_meta, render]))
        base.addHandler(handler)

    as_json = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    file = logging.handlers.RotatingFileHandler(
        folder / "run.jsonl", maxBytes=_LOG_BYTES, backupCount=_LOG_COPIES, delay=True, encoding="utf-8"
    )
    listen(file, logging.DEBUG, as_json)
    if to_stderr:
        level = logging.DEBUG if shell.verbose else logging.WARNING if shell.quiet else logging.INFO
        order = ["timestamp", "level", "event"]
        lines = as_json if shell.as_json else structlog.processors.LogfmtRenderer(key_order=order, drop_missing=True)
        listen(logging.StreamHandler(sys.stderr), level, lines)
    return structlog.wrap_logger(
        base,
        processors=[*stamped, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


@contextmanager
def progress_bar(shell: Shell) -> Iterator[OnEvent]:
    """A bar for each pipeline on the terminal, and a line for each thing worth one."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=shell.aside, transient=True) as progress:
        yield Bars(progress)


@dataclass(slots=True)
class _Bar:
    """A pipeline's bar: from the first number of this run to the highest that is planned."""

    task: TaskID
    low: int | None = None
    end: int = 0


class Bars:
    """Turns events into bars; called from any thread of the run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[str, _Bar] = {}
        self._lock = threading.Lock()

    def __call__(self, event: str, facts: Mapping[str, object]) -> None:
        with self._lock:
            told = _SENTENCES.get(event)
            if told is not None:
                text = told.format_map(_Facts(facts))
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            name = facts.get("pipeline")
            if isinstance(name, str):
                self._move(name, event, facts)

    def _move(self, name: str, event: str, facts: Mapping[str, Any]) -> None:
        if name not in self._bars:
            self._bars[name] = _Bar(task=self._progress.add_task(name, total=None, note=""))
        bar = self._bars[name]
        match event:
            case "batch_planned":
                bar.low = facts["first"] if bar.low is None else min(bar.low, facts["first"])
                bar.end = max(bar.end, facts["last"] + 1)
                self._progress.update(bar.task, total=bar.end - bar.low)
            case "checkpoint_committed" if bar.low is not None:
                end = facts["end"]
                self._progress.update(bar.task, completed=max(0, end - bar.low), note=f"complete to {end - 1}")
            case "pipeline_finished":
                self._progress.stop_task(bar.task)


class _Facts(dict[str, object]):
    """Facts that a sentence may name though an event left them out."""

    def __missing__(self, name: str) -> str:
        return "?"


_SENTENCES: Final = {
    "pipeline_failed": "{code} {pipeline}: {message}\n{hint}",
    "batch_failed": "{code} {pipeline}: checkpoints {first} to {last} failed in {sink}: {message}",
    "table_refreshed": "{table} refreshed ({mode}): version {version}",
    "table_waits": "{table} waits: {reason}",
    "table_failed": "{table} failed: {message}",
    "pipeline_skipped": "{pipeline} is {state} and is skipped; tidegate resume {pipeline} lets it go on",
    "waiting_for_lease": "waiting for {name}: it is held by {owner}",
}
