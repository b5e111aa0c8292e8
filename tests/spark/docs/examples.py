"""Carries out the examples of a page: what a reader would type and save, in the order of the page.

A fenced block is one of

    ```console            lines with `$` are typed, the lines below each are what it prints, in this order, or some
    ```yaml tidegate.yml  a block with a path is saved there
    ```python             Python without a path is run in the folder
    ```yaml               YAML without a path is a piece of a file, and must be YAML
    ```text, ```sh        to look at

Blanks count once, a time of another day than the examples' own is any time, and `…` is anything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tidegate.cli import main

DOCS = Path(__file__).parents[3] / "docs"
THEIR_DAY = "2026-03-01"
_BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_CODE = "; echo $?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block, and the line of the page where it is."""

    language: str
    path: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(language=found[1], path=found[2], text=found[3], line=page.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(page)
    ]


@dataclass(kw_only=True)
class Reader:
    """Somebody who follows a page in a folder."""

    folder: Path
    done: list[str] = field(default_factory=list)

    def follow(self, name: str) -> None:
        """Do what the page says, and find what it shows."""
        before = Path.cwd()
        try:
            os.chdir(self.folder)
            for block in blocks((DOCS / name).read_text()):
                self._do(block, f"docs/{name}:{block.line}")
        finally:
            self.folder = Path.cwd()
            os.chdir(before)

    def _do(self, block: Block, where: str) -> None:
        match block.language:
            case "console":
                self._type(block.text, where)
            case _ if block.path:
                target = Path(block.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text)
            case "python":
                exec(compile(block.text, where, "exec"), {"__name__": "__main__"})
            case "yaml":
                yaml.safe_load(block.text)
            case "text" | "sh" | "sql" | "json":
                pass
            case other:
                raise AssertionError(f"{where}: nobody knows what to do with {other}")

    def _type(self, text: str, where: str) -> None:
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            asks_code = command.endswith(_CODE)
            code, printed = self._carried_out(command.removesuffix(_CODE))
            self.done.append(command)
            if asks_code:
                printed += f"{code}\n"
            else:
                assert code == 0, f"{where}: {command} ended with {code}\n{printed}"
            missing = _not_printed(shown, printed)
            assert missing is None, f"{where}: {command} does not print\n{missing}\nbut\n{printed}"

    def _carried_out(self, command: str) -> tuple[int, str]:
        words = shlex.split(command, comments=True)
        if words[0] == "cd":
            os.chdir(words[1])
            return 0, ""
        if words[0] == "tidegate":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                code = main(words[1:])
            return code, printed.getvalue()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        return ran.returncode, ran.stdout + ran.stderr


def _not_printed(shown: str, printed: str) -> str | None:
    """The first line that a page shows and that was not printed below the ones before it."""
    there = iter([_plain(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        wanted = re.escape(_plain(line)).replace("…", ".*")
        if wanted and not any(re.fullmatch(wanted, one) for one in there):
            return line
    return None


def _plain(line: str) -> str:
    times = _TIME.sub(lambda found: found[0] if found[0].startswith(THEIR_DAY) else "TIME", line)
    return " ".join(times.split())
