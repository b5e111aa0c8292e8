"""Where a command's words go: data to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.quick import dataclass

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

WIDTH = 100


@dataclass(frozen=True)
class Trimmed:
    """What Rich draws, without the blanks that it fills lines up with: they would be copied along."""

    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for line in console.render_lines(self.renderable, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                last = line.pop()
                yield from line
                yield Segment(last.text.rstrip(), last.style, last.control)
            yield Segment.line()


@dataclass(frozen=True, kw_only=True)
class Shell:
    """How a command was asked to behave, and how it speaks."""

    project: str | None = None
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False
    debug: bool = False

    @cached_property
    def console(self) -> Console:
        """Standard output."""
        return _console(stderr=False, no_color=self.no_color)

    @cached_property
    def aside(self) -> Console:
        """Standard error."""
        return _console(stderr=True, no_color=self.no_color)

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        json.dump(value, sys.stdout, ensure_ascii=False, allow_nan=False, indent=2 if sys.stdout.isatty() else None)
        sys.stdout.write("\n")

    def show(self, *renderables: RenderableType) -> None:
        """Print data for people."""
        for renderable in renderables:
            self.console.print(Trimmed(renderable))

    def say(self, text: str) -> None:
        """Tell what was done; `--quiet` and `--json` leave it out."""
        if not self.quiet and not self.as_json:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Say something beside the data."""
        if not self.quiet:
            self.aside.print(text, markup=False, highlight=False, soft_wrap=True, style="dim")

    def done(self, text: str, **facts: Any) -> None:
        """The answer of a command that did something: a sentence, or its facts as JSON."""
        self.document(facts) if self.as_json else self.say(text)


def _console(*, stderr: bool, no_color: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Rich takes 80 columns where there is no terminal; our tables are made for 100.
    width = None if stream.isatty() else WIDTH
    return Console(stderr=stderr, no_color=no_color or None, width=width, highlight=False, emoji=False)


def report(error: TidegateError, *, as_json: bool, no_color: bool = False) -> None:
    """Tell of an error: code, one line of what and where, one line of what to do."""
    if as_json:
        told = {"code": error.code, "message": error.message, "hint": error.hint or None}
        sys.stdout.write(json.dumps({"error": told}, ensure_ascii=False) + "\n")
    red, plain = ("\033[1;31m", "\033[0m") if _colored(no_color) else ("", "")
    lines = [f"{red}{error.code}{plain} {error.message}"]
    if error.hint:
        lines.append(f"{' ' * len(error.code)} {error.hint}")
    sys.stderr.write("\n".join(lines) + "\n")


def _colored(no_color: bool) -> bool:
    from tidegate.project.environment import variables

    return sys.stderr.isatty() and not no_color and not variables().get("NO_COLOR")
