"""A project folder and the `tidegate` command beside it, as a user has them: nothing of ours is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import jvm

SPARK = f"""\
spark:
  master: local[2]
  conf:
    spark.sql.shuffle.partitions: 2
    spark.driver.memory: 1g
    spark.driver.extraJavaOptions: "{jvm.OPTIONS}"
"""
WAIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.out)


class Project:
    """A project folder, and commands run in it as subprocesses."""

    def __init__(self, root: Path, yaml: str, *, spark: str = SPARK) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.write("tidegate.yml", f"name: {root.name}\n{spark}{yaml}")

    def write(self, path: str, text: str) -> Path:
        """A file of the project; it appears whole, by a rename, as loaders do."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.draft")
        draft.write_text(text)
        draft.rename(target)
        return target

    def rows(self, path: str, rows: Iterable[Mapping[str, object]]) -> Path:
        """A file of JSON lines."""
        return self.write(path, "".join(json.dumps(row) + "\n" for row in rows))

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "tidegate", "--project", str(self.root), *args]

    def tg(self, *args: str, expect: int | None = 0, timeout: float = 300) -> Result:
        """Run a command to its end; the exit code is checked unless `expect` is None."""
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=timeout, check=False)
        result = Result(code=done.returncode, out=done.stdout, err=done.stderr)
        if expect is not None:
            assert result.code == expect, (
                f"tidegate {' '.join(args)} ended with {result.code}\n{result.out}\n{result.err}"
            )
        return result

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own; its log is in `.run.log`."""
        with open(self.root / ".run.log", "a") as log:
            return subprocess.Popen(
                self.command(*args), stdout=log, stderr=log, text=True, start_new_session=True, env=dict(os.environ)
            )

    def log(self) -> str:
        return (self.root / ".run.log").read_text()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.tg("status", "--json").json
        return found

    def pipeline(self, name: str) -> dict[str, Any]:
        return named(self.status()["pipelines"], name)

    def table(self, name: str) -> dict[str, Any]:
        return named(self.status()["tables"], name)

    def read(self, name: str, *args: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.tg("read", name, "--format", "json", *args).json
        return rows

    def ids(self, name: str, *args: str, column: str = "id") -> list[Any]:
        """The sorted ids of what readers see."""
        return sorted(row[column] for row in self.read(name, *args))


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def wait_for(what: str, condition: Callable[[], Any], *, within_s: float = WAIT_S) -> Any:
    """Wait for a condition and give what it gave; a condition, not a time, ends the wait."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s:.0f} s in vain: {what}")
        time.sleep(0.1)  # between two looks at the condition; nothing is concluded from the time
