"""Writes the generated pages of docs/reference; `--check` only says whether they are as they should be."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
sys.path.insert(0, str(ROOT))

from benchmarks.page import benchmarks_page  # noqa: E402
from tests.unit.cli import samples  # noqa: E402

from tidegate import errors  # noqa: E402
from tidegate.cli import app, options  # noqa: E402
from tidegate.events import EVENTS  # noqa: E402
from tidegate.project.reference import settings_page  # noqa: E402
from tidegate.project.running import PruneReport, RunOutcome  # noqa: E402
from tidegate.service import CheckpointRange  # noqa: E402
from tidegate.views import values  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
_GENERATED = "This page is generated from the code: `make docs`."


# commands


def cli_page() -> str:
    """Every command, from the command line itself."""
    built = app.build()
    own = list(_commands(built, ""))
    lines = ["# Commands", "", _GENERATED, "", "Every command takes these options, before its name or after it:", ""]
    lines += [*_table("option", "what it does"), *(_option(one) for one in _everywhere(built)), "", _EXITS, ""]
    for path, command in own:
        lines += [f"## tidegate {path}", "", command.help or "", "", f"    tidegate {path}{_usage(command)}", ""]
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        if arguments:
            lines += [
                *_table("argument", "what it is"),
                *(f"| `{_metavar(one)}` | {one.help} |" for one in arguments),
                "",
            ]
        taken = _own_options(command)
        if taken:
            lines += [*_table("option", "what it does"), *(_option(one) for one in taken), ""]
    lines += ["## Not in this version yet", "", "These are part of the design; until they are built they end with one "]
    lines[-1] += "line and exit code 2: " + ", ".join(f"`{name}`" for name in _not_built()) + "."
    return "\n".join([*lines, ""])


_EXITS = """\
| exit code | what it means |
|---|---|
| 0 | done; also with a gap, a closed gate, a paused pipeline or an optional sink that failed: these are no errors |
| 1 | something failed: a planned checkpoint, a refresh |
| 2 | wrong usage or configuration; nothing was started |
| 3 | not complete yet: `wait`, `read --complete-to`, and what was never published |
| 4 | refused: a watermark that would go back, a lease that another runner holds, a writer that was taken over |

Data is on standard output, everything else on standard error. Errors are one line of what and where, and one of what
to do, with a [stable code](errors.md); with `--json`, standard output has them, too, as
`{"error": {"code", "message", "hint"}}`. Where standard error is a terminal, `run` shows a bar for each pipeline."""


def _commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        path = f"{before} {name}".strip()
        yield path, command
        if hasattr(command, "commands"):
            yield from _commands(command, path)


def _own_options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and one.name not in options.OPTIONS]


def _everywhere(built: Any) -> list[Any]:
    return [one for one in built.params if one.name in options.OPTIONS]


def _usage(command: Any) -> str:
    words = [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    words += [_spelled(one) if one.required else f"[{_spelled(one)}]" for one in _own_options(command)]
    return "".join(f" {word}" for word in words)


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _spelled(option: Any) -> str:
    longest = max(option.opts, key=len)
    return longest if option.is_flag else f"{longest} {_metavar(option)}"


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    value = "" if option.is_flag else f" {_metavar(option)}"
    default = f" Without it: {option.default}." if option.default not in (None, False) else ""
    return f"| {names}{_cell(value)} | {_cell(option.help or '')}{default} |"


def _not_built() -> list[str]:
    return [f"tidegate {place} {name}".replace("  ", " ") for place, names in app.NOT_BUILT.items() for name in names]


# errors


def errors_page() -> str:
    """Every code, from the classes of errors."""
    lines = ["# Errors", "", _GENERATED, "", _ERRORS, "", *_table("code", "exit", "when", "what it says", "what to do")]
    for one in sorted(error_classes(), key=lambda kind: (kind.code, kind.__name__)):
        cells = (f"`{one.code}`", str(one.exit_code), _first_line(one), _code(one.text), _code(one.advice))
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "A closed gate has a code, too; `explain` tells its reason in words:",
        "",
    ]
    lines += [*_table("code", "why the gate is closed")]
    lines += [f"| `{code}` | {why} |" for code, why in sorted(_closed_because().items())]
    return "\n".join([*lines, ""])


_ERRORS = """\
A code never changes once it is released; the words may. `{…}` are the fields of an error, in Python `error.fields`. In
Python every class derives from `tidegate.TidegateError`, and has `code`, `exit_code`, `message` and `hint`."""


def _closed_because() -> dict[str, str]:
    """The codes of verdicts, each a constant with what it means behind `#:`."""
    told = re.compile(r'^[A-Z_]+ = "(TG-\w+)"  #: (.*)$', re.MULTILINE)
    texts = (path.read_text(encoding="utf-8") for path in (SOURCE / "tidegate").rglob("*.py"))
    return dict(found.groups() for text in texts for found in told.finditer(text))


def error_classes() -> set[type[errors.TidegateError]]:
    """Every class of errors in the package; those for tests are left out."""
    for path in sorted((SOURCE / "tidegate").rglob("*.py")):
        if re.search(r"^    code = \"TG-", path.read_text(encoding="utf-8"), re.MULTILINE):
            importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    return {one for one in _below(errors.TidegateError) if not one.__module__.startswith("tidegate.testing")}


def _below(kind: type[errors.TidegateError]) -> Iterator[type[errors.TidegateError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _below(one)


# status --json


def status_page() -> str:
    """The fields of `status --json`, from the values behind it."""
    lines = ["# JSON of status, explain and others", "", _GENERATED, "", _STATUS, ""]
    for kind, title in _VALUES.items():
        lines += [f"## {title}", "", inspect.getdoc(kind) or "", "", *_table("field", "holds", "what it means")]
        told = meanings(kind)
        shown = [one for one in fields(kind) if "inside" not in one.metadata]
        lines += [f"| `{one.name}` | {_holds(str(one.type))} | {_cell(told[one.name])} |" for one in shown]
        lines.append("")
    example = json.dumps(values.as_json(samples.STATUS), indent=1, ensure_ascii=False)
    lines += ["## An example", "", "```json", _flat_numbers(example), "```", ""]
    return "\n".join(lines)


_STATUS = """\
One document on standard output. Numbers are inclusive, ranges are `[first, last]`, what is absent is `null`, times are
UTC with as many fractional digits as needed. Fields are only ever added. `explain NAME --json` is one object with the
fields of *an explanation*, and beside them what the reason was found from. `tables`, `groups`, `advance` and `refresh`
give items of the lists below."""

_VALUES: dict[type[Any], str] = {
    values.Status: "status",
    values.PipelineStatus: "an item of `pipelines`",
    values.SinkStatus: "an item of `sinks` of a pipeline",
    values.PartStatus: "an item of `partitions` of a pipeline",
    values.SourceStatus: "an item of `sources`",
    values.GroupStatus: "an item of `groups`",
    values.TableStatus: "an item of `tables`",
    values.InputStatus: "an item of `inputs` of a table's explanation",
    values.Explanation: "an explanation",
    RunOutcome: "run --json",
    PruneReport: "an item of prune --json",
    CheckpointRange: "an item of checkpoints list --json",
}
_WORDS = {
    "str": "text",
    "int": "number",
    "bool": "true or false",
    "State": "text",
    "ValueKind": "text",
    "RangeSet": "list of ranges",
    "Watermark": "time or number",
    "datetime": "time",
}


def meanings(kind: type[Any]) -> dict[str, str]:
    """What stands behind `#:` of each field: in its line, or in the one above."""
    lines = inspect.getsource(kind).splitlines()
    found = {}
    for before, line in pairwise(lines):
        named = re.match(r"    (\w+): ", line)
        told = re.search(r"#: (.*)$", line) or (re.match(r"    #: (.*)$", before) if named else None)
        if named and told:
            found[named[1]] = told[1]
    return found


def _holds(kind: str) -> str:
    one, _, absent = kind.partition(" | ")
    many = re.match(r"(tuple|Mapping)\[(.*)\]$", one)
    if many is None:
        return _WORDS[one] + (" or null" if absent else "")
    if many[1] == "Mapping" and not many[2].endswith("Status"):
        return "object"
    inner = many[2].split(", ")[-1 if many[1] == "Mapping" else 0]
    words = {"str": "list of text", "int": "first and last"}
    return words.get(inner, "list of objects") + (" or null" if absent else "")


def _flat_numbers(text: str) -> str:
    """JSON with its innermost lists on one line."""
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)


# events


def events_page() -> str:
    """Every event of a run, from the list of them."""
    lines = ["# Events", "", _GENERATED, "", _EVENTS, "", *_table("event", "level", "when", "facts")]
    for one in EVENTS.values():
        facts = " ".join(f"`{fact}`" for fact in one.facts)
        lines.append(f"| `{one.name}` | {logging.getLevelName(one.level).lower()} | {one.what} | {facts} |")
    return "\n".join([*lines, ""])


_EVENTS = """\
`tidegate run` writes them as JSON lines to `.tidegate/logs/run.jsonl` (10 MiB, three older files are kept), each with
`timestamp`, `level` and `event`. Where standard error is no terminal they are there too, from level *info* (*debug*
with `--verbose`, *warning* with `--quiet`); with `--json` as JSON. `first` and `last` are inclusive, `end` is the first
number that is not in it."""


@cache
def told_events() -> dict[str, set[str]]:
    """The events that the source tells, with the facts that can be seen where they are told."""
    found: dict[str, set[str]] = {}
    for path in (SOURCE / "tidegate").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(str(name)), *_]
                ):
                    if called in ("tell", "_tell", "_tell_range"):
                        facts = {one.arg for one in node.keywords if one.arg}
                        facts |= {
                            key.value
                            for one in node.args
                            if isinstance(one, ast.Dict)
                            for key in one.keys
                            if isinstance(key, ast.Constant)
                        }
                        found.setdefault(name, set()).update(facts)
    return found


# pieces


def _table(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def _first_line(kind: type[Any]) -> str:
    return _cell((inspect.getdoc(kind) or "").splitlines()[0])


def _code(text: str) -> str:
    mark = "``" if "`" in text else "`"
    return f"{mark}{_cell(text)}{mark}" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "errors.md": errors_page,
    "status-json.md": status_page,
    "events.md": events_page,
    "benchmarks.md": benchmarks_page,
}


def stale() -> dict[str, str]:
    """The pages that are not as they should be, as they should be."""
    return {name: text for name, page in PAGES.items() if (text := page()) != _present(name)}


def main(arguments: list[str]) -> int:
    """Write the pages that differ; with `--check`, name them and end with 1."""
    found = stale()
    if "--check" not in arguments:
        REFERENCE.mkdir(parents=True, exist_ok=True)
        for name, text in found.items():
            (REFERENCE / name).write_text(text, encoding="utf-8")
    for name in found:
        sys.stdout.write(f"docs/reference/{name}\n")
    return 1 if found and "--check" in arguments else 0


def _present(name: str) -> str | None:
    path = REFERENCE / name
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
