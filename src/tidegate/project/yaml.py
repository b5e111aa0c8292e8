"""YAML text becomes a tree that knows the line of everything in it.

Values stay text: what they mean is decided by the setting that they belong to, so `on` is never
silently a boolean and `1e3` never silently a string.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from tidegate.project import environment
from tidegate.project.problems import Problems
from tidegate.quick import dataclass

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value. `raw` is as written, and the only form that messages show: it holds no secrets."""

    line: int
    raw: str
    text: str
    quoted: bool

    @property
    def is_null(self) -> bool:
        return not self.quoted and self.text in _NULLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of a table and its value."""

    key: str
    line: int
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Keys and values, in the order of the file, each key once."""

    line: int
    entries: tuple[Entry, ...]

    def get(self, key: str) -> Entry | None:
        """The entry of that key."""
        return next((entry for entry in self.entries if entry.key == key), None)


Node = Scalar | Items | Table


def parse(text: str, variables: Mapping[str, str], problems: Problems) -> Node | None:
    """The tree of one YAML document, `${VAR}` replaced; None when the text is empty or broken."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        last = max(1, len(text.splitlines()))  # what is missing at the end is missing on the last line
        problems.add(
            min(mark.line + 1, last) if mark else None, f"this is not YAML: {broken.problem or broken.context}"
        )
        return None
    except yaml.YAMLError as broken:
        problems.add(None, f"this is not YAML: {' '.join(str(broken).split())}")
        return None
    return None if root is None else _Converter(variables, problems).node(root)


class _Converter:
    def __init__(self, variables: Mapping[str, str], problems: Problems) -> None:
        self._variables = variables
        self._problems = problems
        self._open: set[int] = set()

    def node(self, node: yaml.Node, *, line: int | None = None) -> Node:
        """The node's tree. `line` is that of its key: what is missing from a table is missing there."""
        line = node.start_mark.line + 1 if line is None else line
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, line)
        if id(node) in self._open:
            self._problems.add(line, "an alias refers to itself")
            return Items(line=line, items=())
        self._open.add(id(node))
        try:
            return self._collection(node, line)
        finally:
            self._open.discard(id(node))

    def _collection(self, node: yaml.Node, line: int) -> Node:
        if isinstance(node, yaml.SequenceNode):
            return Items(line=line, items=tuple(self.node(item) for item in node.value))
        return self._table(node, line)

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Scalar:
        raw, quoted = str(node.value), bool(node.style)  # plain is None, or "" from the C parser
        return Scalar(line=line, raw=raw, text=self._expanded(raw, line), quoted=quoted)

    def _expanded(self, raw: str, line: int) -> str:
        try:
            return environment.expand(raw, self._variables)
        except environment.Unset as unset:
            hint = f"set it, or write ${{{unset.name}:-default}}"
            self._problems.add(line, f"${{{unset.name}}} is not in the environment; {hint}")
            return raw

    def _table(self, node: yaml.Node, line: int) -> Table:
        seen: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            key, key_line = str(key_node.value), key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.add(key_line, "a key must be a name, not a list or a table")
            elif key in seen:
                self._problems.add(key_line, f"{key} is written twice (first on line {seen[key].line})")
            else:
                seen[key] = Entry(key=key, line=key_line, node=self._value(value_node, key_line))
        return Table(line=line, entries=tuple(seen.values()))

    def _value(self, node: yaml.Node, key_line: int) -> Node:
        return self.node(node, line=None if isinstance(node, yaml.ScalarNode) else key_line)
