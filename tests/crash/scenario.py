"""A numbered project whose driver is killed, and everything that must be true of it afterwards.

Only what a user has is used: files, the command line and its JSON; and `python -m
tidegate.testing.crash` in the place of `tidegate`, which dies where it is told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

from tests.blackbox.harness import SPARK, Project, wait_for
from tidegate.sinks import parquet
from tidegate.testing import crash, oracle
from tidegate.testing.crash import Point

ROWS = 3
FIRST = 100
KILLED = -9

YAML = """\
sources:
  entries:
    type: numbered
    path: incoming/{{number}}.json
    format: json
    schema: "id BIGINT, checkpoint BIGINT"
    first_checkpoint: {first}
pipelines:
  ledger:
    source: entries
    batch: {{max_bytes: 250, max_inflight: 2}}
    publish_every: 50ms
    {retention}
    sinks:
      - {{name: lake, type: delta, table: ledger}}
      - {{name: files, type: parquet, path: out/files}}
"""
RETENTION = "retention: {checkpoints: 8, interval: 500ms, delay: 1s}"


def ids_of(numbers: Iterable[int]) -> list[int]:
    """The ids of these checkpoints."""
    return sorted(number * 100 + at for number in numbers for at in range(ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended. `passed` are the points that it passed, in order."""

    code: int
    text: str
    passed: tuple[str, ...]

    @property
    def counts(self) -> Counter[str]:
        """How often each side of each effect was passed: `ledger.put:before` → 7."""
        return Counter(line.rpartition(":")[0] for line in self.passed if not line.startswith(crash.STRUCK))

    def was_struck(self, point: Point) -> bool:
        """Whether the point struck in this run."""
        return f"{crash.STRUCK} {point}" in self.passed


@dataclass(slots=True)
class Scenario:
    """The project, what was dropped into it, and how its runs are started.

    `source` is the folder of another build of Tidegate, put before the installed one.
    """

    root: Path
    retention: str = ""
    source: Path | None = None
    project: Project = field(init=False)
    dropped: set[int] = field(default_factory=set)
    runs: int = 0

    def __post_init__(self) -> None:
        yaml = YAML.format(first=FIRST, retention=self.retention)
        self.project = Project(self.root / "shop", yaml, spark=SPARK)

    @property
    def table(self) -> Path:
        """The Delta table of the pipeline."""
        return self.project.root / "lake" / "ledger"

    @property
    def files(self) -> Path:
        """The folder of the parquet sink."""
        return self.project.root / "out" / "files"

    def drop(self, *numbers: int) -> None:
        """Let these checkpoints arrive."""
        for number in numbers:
            rows = [{"id": one, "checkpoint": number} for one in ids_of([number])]
            self.project.rows(f"incoming/{number}.json", rows)
            self.dropped.add(number)

    def next(self, count: int) -> list[int]:
        """The numbers behind the highest that was dropped."""
        start = max(self.dropped, default=FIRST - 1) + 1
        return list(range(start, start + count))

    def start(self, *arguments: str, points: Sequence[Point] = (), audit: Path | None = None) -> Running:
        """Start a command with points to strike at."""
        self.runs += 1
        log, out = self.root / f"points-{self.runs}.log", self.root / f"out-{self.runs}.log"
        environment = {
            **os.environ,
            crash.CRASH: ",".join(map(str, points)),
            crash.CRASH_LOG: str(log),
            crash.AUDIT: str(audit or ""),
            crash.AUDIT_ROOT: str(self.project.root),
        }
        if self.source is not None:
            environment["PYTHONPATH"] = str(self.source)
        command = [
            sys.executable,
            "-m",
            "tidegate.testing.crash",
            "--",
            "--project",
            str(self.project.root),
            *arguments,
        ]
        # Into a file, not a pipe: a JVM that outlives its Python would hold a pipe open.
        with out.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        return Running(process=process, log=log, out=out)

    def run(self, *arguments: str, points: Sequence[Point] = (), audit: Path | None = None) -> Ended:
        """Run a command to its end, whichever that is."""
        return self.start(*arguments, points=points, audit=audit).ended()

    def once(self) -> Ended:
        """A whole run that nobody disturbs."""
        return self.run("run", "--once")

    def kill(self, point: Point, *arguments: str) -> Ended:
        """Run until the point strikes. One that never strikes proves nothing, and is an error."""
        ended = self.run(*(arguments or ("run", "--once")), points=[point])
        assert ended.was_struck(point), f"{point} was never reached; passed {dict(ended.counts)}\n{ended.text}"
        return ended

    def read_ids(self) -> list[int]:
        """What `tidegate read` shows."""
        command = [sys.executable, "-m", "tidegate", "--project", str(self.project.root)]
        done = subprocess.run(
            [*command, "read", "ledger", "--format", "json"], capture_output=True, text=True, check=True
        )
        return [row["id"] for row in json.loads(done.stdout)]

    def raw_ids(self) -> list[int]:
        """What deltalake shows."""
        return ids_in(DeltaTable(str(self.table)))

    def file_ids(self) -> list[int]:
        """What the manifest of the parquet sink says counts."""
        manifest = parquet.read_manifest(str(self.files))
        if manifest is None or not manifest.files:
            return []
        ids: list[int] = parquet.to_arrow(str(self.files), manifest.files, columns=["id"]).column("id").to_pylist()
        return ids

    def problems(self) -> list[str]:
        """All that is wrong at rest, when everything that was dropped ought to be published."""
        pipeline = self.project.pipeline("ledger")
        found = _marks_problems(pipeline, max(self.dropped))
        lowest = pipeline["reader_lo"]
        expected = ids_of(number for number in self.dropped if lowest is None or number >= lowest)
        sinks = {"tidegate read": self.read_ids(), "deltalake": self.raw_ids(), "files": self.file_ids()}
        wrong = oracle.judge_sinks(expected, sinks)
        return [*found, *(f"{name}: {findings}" for name, findings in wrong.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A command that was started."""

    process: subprocess.Popen[bytes]
    log: Path
    out: Path

    def ended(self, *, timeout: float = 300) -> Ended:
        """How it ended; waits for it, and ends it itself when it takes too long."""
        try:
            code = self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.end()
            raise
        return Ended(code=code, text=self.out.read_text(), passed=self.passed())

    def passed(self) -> tuple[str, ...]:
        """The points passed so far."""
        return tuple(self.log.read_text().splitlines()) if self.log.exists() else ()

    def wait_stopped(self) -> None:
        """Wait until a point has stopped it."""
        wait_for("the point that stops it", self._is_stopped)
        assert self.process.poll() is None, f"it ended with {self.process.returncode}\n{self.out.read_text()}"

    def _is_stopped(self) -> bool:
        if self.process.poll() is not None:
            return True
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def end(self) -> None:
        """Kill it if it still is."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def ids_in(table: DeltaTable) -> list[int]:
    """The ids of one version of a table, read without Tidegate."""
    ids: list[int] = table.to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    return ids


def _marks_problems(pipeline: dict[str, Any], last: int) -> list[str]:
    wanted = {"checkpoint_hi_inclusive": last, "published_hi_inclusive": last, "gaps": [], "ahead": [], "in_flight": []}
    return [f"{name} is {pipeline[name]}, not {value}" for name, value in wanted.items() if pipeline[name] != value]
