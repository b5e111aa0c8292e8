"""What is wrong with a project: found all together, each with its file and line, told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import field

from tidegate.errors import ConfigError
from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing that cannot be, and where it is written."""

    file: str
    line: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"

    @property
    def where(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class BadProject(ConfigError):
    """The project cannot be loaded; nothing was started. `problems` has each reason."""

    code = "TG-C002"
    text = "{all}"
    advice = "{what_to_do}"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        several = "correct these lines" if len(problems) > 1 else "correct that line"
        lines = "\n".join(str(problem) for problem in problems)
        super().__init__(all=lines, what_to_do=f"{several} and try again; nothing was started")


@dataclass(slots=True)
class Problems:
    """Collects what is wrong in one file."""

    file: str
    found: list[Problem] = field(default_factory=list)

    def add(self, line: int | None, what: str) -> None:
        self.found.append(Problem(file=self.file, line=line, what=what))

    def raise_any(self) -> None:
        """Raise `BadProject` when anything was found."""
        raise_all(self.found)


def raise_all(found: Iterable[Problem]) -> None:
    """Raise `BadProject` with the problems in the order of their lines, when there are any."""
    ordered = tuple(sorted(set(found), key=lambda problem: (problem.file, problem.line or 0)))
    if ordered:
        raise BadProject(ordered)


def did_you_mean(asked: str, known: Iterable[str]) -> str:
    """`; did you mean orders?`, or what there is when nothing is near."""
    names = sorted(set(known))
    near = difflib.get_close_matches(asked.lower(), [name.lower() for name in names], n=1, cutoff=0.6)
    if near:
        right = next(name for name in names if name.lower() == near[0])
        return f"; did you mean {right}?"
    if not names:
        return ""
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"; there is {listed}"
