"""What a setting may hold: each kind reads one node of the tree into a value, or says what is wrong.

A kind adds to `Problems` and answers `WRONG` instead of raising, so that one run tells everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final

from tidegate.errors import TidegateError
from tidegate.progress import durations
from tidegate.project.problems import Problems, did_you_mean
from tidegate.project.secrets import mask_credentials
from tidegate.project.yaml import Entry, Items, Node, Scalar, Table
from tidegate.quick import dataclass


class _Wrong(Enum):
    WRONG = "wrong"


WRONG: Final = _Wrong.WRONG

#: node, its path (`pipelines.orders.batch`), where problems go → the value or WRONG
Read = Callable[[Node, str, Problems], Any]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_WHOLE = re.compile(r"[+-]?[0-9][0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a setting may hold; `label` ends the sentence "must be …", and stands in the reference."""

    label: str
    read: Read
    #: What is inside, for the reference: the keys, or the keys for each type.
    section: Section | None = None
    types: Mapping[str, Section] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting: its name, what it may hold, what it means, and what holds without it."""

    name: str
    kind: Kind
    doc: str
    default: Any = None
    #: How the default is shown; the default itself when left out.
    shown: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table whose keys are known. `title` names it in the reference."""

    title: str
    keys: tuple[Key, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A section as it was read: a value for every key of it, and the lines they stand on."""

    path: str
    line: int
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default where this variant has no such key."""
        return self.values.get(key, default)

    def given(self, key: str) -> bool:
        """True when the key is written in the file."""
        return key in self.lines

    def line_of(self, key: str) -> int:
        """The line of the key, else of the section."""
        return self.lines.get(key, self.line)


def _scalar(label: str, parse: Callable[[str], Any]) -> Kind:
    """A kind of one value; `parse` raises ValueError, with a reason of its own or none."""

    def read(node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Scalar) or node.is_null:
            problems.add(node.line, f"{path} must be {label}, not {_what(node)}")
            return WRONG
        try:
            return parse(node.text)
        except (ValueError, TidegateError) as wrong:
            problems.add(node.line, f"{path} must be {label}, not {shown(node)}{_reason(str(wrong), node)}")
            return WRONG

    return Kind(label=label, read=read)


def shown(node: Scalar) -> str:
    """The value as it is written, in quotes; never what the environment or a URL keeps secret."""
    return repr(mask_credentials(node.raw))


def _reason(told: str, node: Scalar) -> str:
    """The reason in brackets; nothing where it could tell what came from the environment."""
    return f" ({mask_credentials(told)})" if told and node.raw == node.text else ""


def _what(node: Node) -> str:
    match node:
        case Scalar():
            return "nothing" if node.is_null else shown(node)
        case Items():
            return "a list"
        case Table():
            return "a table"


def _whole(text: str, at_least: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError
    number = int(text)
    if number < at_least:
        raise ValueError
    return number


def _truth(text: str) -> bool:
    if text not in {"true", "false", "True", "False"}:
        raise ValueError
    return text.lower() == "true"


def _duration(text: str) -> int:
    if _WHOLE.fullmatch(text):
        raise ValueError("a bare number has no unit" if text != "0" else "write 0s")
    return _with_unit(durations.parse_duration, text)


def _size(text: str) -> int:
    return _whole(text, 1) if _WHOLE.fullmatch(text) else _with_unit(durations.parse_size, text)


def _with_unit(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as wrong:
        # "… is not a duration; write …" would only say again what the label says.
        raise ValueError("" if "; write " in str(wrong) else str(wrong)) from None


def name_problem(name: str) -> str | None:
    """Why this cannot be the name of a thing of the project; None when it can."""
    if not _NAME.fullmatch(name):
        return "a name is a letter, then letters, digits and _, at most 63"
    if name.endswith(("__dead", "__late")):
        return "names that end in __dead and __late belong to Tidegate's side tables"
    return None


def _name(text: str) -> str:
    wrong = name_problem(text)
    if wrong:
        raise ValueError(wrong)
    return text


TEXT: Final = _scalar("text", str)
NAME: Final = _scalar("a name", _name)
TRUTH: Final = _scalar("true or false", _truth)
DURATION: Final = _scalar("a duration such as 500ms, 30s, 5m, 2h or 30d", _duration)
SIZE: Final = _scalar("a size such as 64KiB, 8MiB or 1GiB, or a number of bytes", _size)


def whole(at_least: int = 0) -> Kind:
    """A whole number, not below a bound."""
    return _scalar(f"a whole number, {at_least} or more", lambda text: _whole(text, at_least))


def parsed(label: str, parse: Callable[[str], Any]) -> Kind:
    """A value with a syntax of its own."""
    return _scalar(label, parse)


def choice(*words: str, built: tuple[str, ...] | None = None) -> Kind:
    """One of some words. Those that are not `built` yet are refused with a sentence that says so."""
    available = words if built is None else built
    label = " or ".join((", ".join(available[:-1]), available[-1])) if len(available) > 1 else available[0]

    def read(node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Scalar):
            problems.add(node.line, f"{path} must be {label}, not {_what(node)}")
        elif node.text in available:
            return node.text
        elif node.text in words:
            problems.add(node.line, f"{path}: {node.text} is not built yet; there is {label}")
        else:
            problems.add(node.line, f"{path} cannot be {shown(node)}{did_you_mean(node.raw, available)}")
        return WRONG

    return Kind(label=label, read=read)


def list_of(kind: Kind, label: str) -> Kind:
    """A list of values of one kind."""

    def read(node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Items):
            problems.add(node.line, f"{path} must be {label}, not {_what(node)}")
            return WRONG
        read_items = [kind.read(item, f"{path}[{number}]", problems) for number, item in enumerate(node.items)]
        return WRONG if WRONG in read_items else tuple(read_items)

    return Kind(label=label, read=read, section=kind.section, types=kind.types)


def table_of(kind: Kind, label: str, *, names: bool = False) -> Kind:
    """A table with free keys and values of one kind; with `names`, the keys are names of things."""

    def read(node: Node, path: str, problems: Problems) -> Any:
        entries = _entries(node, path, label, problems)
        if entries is None:
            return WRONG
        for entry in entries:
            wrong = name_problem(entry.key) if names else None
            if wrong:
                problems.add(entry.line, f"{path}.{entry.key} cannot be a name: {wrong}")
        values = {entry.key: kind.read(entry.node, f"{path}.{entry.key}", problems) for entry in entries}
        return {key: value for key, value in values.items() if value is not WRONG}

    return Kind(label=label, read=read, section=kind.section, types=kind.types)


def section_kind(section: Section) -> Kind:
    """A table whose keys are known."""
    return Kind(
        label="a table", read=lambda node, path, problems: read_section(section, node, path, problems), section=section
    )


def variants(by: str, sections: Mapping[str, Section], words: tuple[str, ...], what: str) -> Kind:
    """A table whose keys depend on the value of one of them, such as `type`.

    `words` are all that exist; those without a section are said to be not built yet.
    """
    type_kind = choice(*words, built=tuple(sections))

    def read(node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Table):
            problems.add(node.line, f"{path} must be a table with a `{by}`, not {_what(node)}")
            return WRONG
        entry = node.get(by)
        if entry is None:
            problems.add(node.line, f"{path}.{by} is missing; there is {', '.join(sections)}")
            return WRONG
        chosen = type_kind.read(entry.node, f"{path}.{by}", problems)
        if chosen is WRONG:
            return WRONG
        return read_section(sections[chosen], node, path, problems, of=f" of {what} of type {chosen}")

    return Kind(label=f"a table with a `{by}`", read=read, types=sections)


def _entries(node: Node, path: str, label: str, problems: Problems) -> tuple[Entry, ...] | None:
    if isinstance(node, Table):
        return node.entries
    if isinstance(node, Scalar) and node.is_null:
        return ()
    problems.add(node.line, f"{path} must be {label}, not {_what(node)}")
    return None


def read_section(section: Section, node: Node, path: str, problems: Problems, *, of: str = "") -> Values | _Wrong:
    """The section's values, defaults filled in; WRONG when anything in it is wrong."""
    before = len(problems.found)
    values = read_what_is_right(section, node, path, problems, of=of)
    return WRONG if len(problems.found) > before else values


def read_what_is_right(section: Section, node: Node, path: str, problems: Problems, *, of: str = "") -> Values:
    """The section's values; those that are wrong, or missing, are the default."""
    entries = _entries(node, path or "the file", "a table", problems) or ()
    known = {key.name: key for key in section.keys}
    prefix = f"{path}." if path else ""
    values: dict[str, Any] = {key.name: key.default for key in section.keys}
    for entry in entries:
        key = known.get(entry.key)
        if key is None:
            near = did_you_mean(entry.key, known)
            problems.add(entry.line, f"{prefix}{entry.key} is not a setting{of}{near}")
        elif not (isinstance(entry.node, Scalar) and entry.node.is_null):
            value = key.kind.read(entry.node, f"{prefix}{entry.key}", problems)
            values[entry.key] = key.default if value is WRONG else value
        elif key.required:
            problems.add(entry.line, f"{prefix}{entry.key} must be {key.kind.label}, not nothing")
    lines = {entry.key: entry.line for entry in entries}
    for key in section.keys:
        if key.required and key.name not in lines:
            problems.add(node.line, f"{prefix}{key.name} is missing; it must be {key.kind.label}")
    return Values(path=path, line=node.line, values=values, lines=lines)
