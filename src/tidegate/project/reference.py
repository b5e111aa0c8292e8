"""docs/reference/settings.md, written from the descriptions that the settings are read by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.project.kinds import Key, Kind, Section
from tidegate.project.settings import PROJECT, SINKS, SOURCES

_HEAD: Final = """\
# tidegate.yml

Every setting, what it may hold, and what holds without it. An unknown key is an error that names the nearest right
one. Durations are written `500ms 30s 5m 2h 30d`, sizes `64KiB 8MiB 1GiB`; `${VAR}` and `${VAR:-default}` come from the
environment. `@tg.pipeline(...)` takes the settings of a pipeline by the same names (`from_` for `from`).

This page is generated from the settings themselves: `make docs`.
"""


def settings_page() -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *(_table(section) for section in _sections(PROJECT))])


def _sections(section: Section) -> Iterator[Section]:
    """The section and all that lie in it, each after the one that names it."""
    yield section
    for key in section.keys:
        if key.kind.section is not None:
            yield from _sections(key.kind.section)
        for inner in key.kind.types.values():
            yield from _sections(inner)


def _table(section: Section) -> str:
    rows = (f"| `{key.name}` | {_holds(key.kind)} | {_otherwise(key)} | {_cell(key.doc)} |" for key in section.keys)
    return "\n".join(
        [f"## {section.title}", "", "| key | is | without it | what it means |", "|---|---|---|---|", *rows, ""]
    )


def _holds(kind: Kind) -> str:
    words = {id(SOURCES): "a table for each, by type", id(SINKS): "a list, by type"}
    return words.get(id(kind.types), _cell(kind.label))


def _otherwise(key: Key) -> str:
    if key.required:
        return "**required**"
    return _cell(key.shown if key.shown is not None else _shown(key.default))


def _shown(default: Any) -> str:
    return "" if default in (None, (), {}) else str(default)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
