"""Which tables read what, down to the sources that everything stems from. Light and pure.

What the query of a table reads is found elsewhere, by a parser (`queries`) or by a glance (`scan`);
here the names get a meaning, the tables an order, and each its mode.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Protocol

from tidegate import errors
from tidegate.pipelines.declare import PipelineSpec
from tidegate.progress.cut import Mode
from tidegate.progress.groups import Group
from tidegate.progress.watermarks import ValueKind
from tidegate.quick import dataclass
from tidegate.sinks.specs import DeltaSinkSpec
from tidegate.sources.specs import ExternalSpec, SourceSpec
from tidegate.tables.declare import SqlQuery, TableSpec


class Declared(Protocol):
    """What a project declares; `ProjectSpec` is one."""

    @property
    def sources(self) -> Mapping[str, SourceSpec]: ...
    @property
    def pipelines(self) -> Mapping[str, PipelineSpec]: ...
    @property
    def groups(self) -> Mapping[str, Group]: ...
    @property
    def tables(self) -> Mapping[str, TableSpec]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A name that a query reads, and the line of it in its file."""

    name: str
    line: int


class InputKind(Enum):
    """What an input is."""

    PIPELINE = "pipeline"
    TABLE = "table"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Something that a table reads. `table` is the lake table, or the external source, behind the name."""

    name: str
    kind: InputKind
    table: str
    roots: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A table, what it reads, the sources it stems from, and how it treats their groups, with the reason."""

    name: str
    inputs: tuple[Input, ...]
    references: tuple[Reference, ...]
    mode: Mode
    why: str
    groups: tuple[str, ...] = ()

    @property
    def roots(self) -> frozenset[str]:
        """The sources that everything in it stems from."""
        return frozenset().union(*(one.roots for one in self.inputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """All tables, inputs before those that read them."""

    nodes: Mapping[str, Node] = field(default_factory=dict)

    def readers(self, name: str) -> tuple[str, ...]:
        """The tables that read the table directly."""
        return tuple(
            node.name
            for node in self.nodes.values()
            if any(one.kind is InputKind.TABLE and one.table == name for one in node.inputs)
        )


References = Callable[[TableSpec], Sequence[Reference]]


def build(declared: Declared, references: References, *, strict: bool = True) -> Graph:
    """The tables of a project in the order in which they are computed.

    What is wrong raises; when not `strict`, it is left out, for a `status` that must answer anyway.
    :raises ConfigError: a name means nothing, or tables read each other in a circle.
    """
    found = {name: _known(declared, spec, references(spec), strict=strict) for name, spec in declared.tables.items()}
    nodes: dict[str, Node] = {}
    for name in _ordered(declared, found, strict=strict):
        inputs = tuple(_input(declared, nodes, one.name) for one in found[name] if _is_ready(declared, nodes, one.name))
        nodes[name] = _node(declared, declared.tables[name], inputs, tuple(found[name]))
        if strict:
            _check_tolerance(declared, declared.tables[name], nodes[name])
    return Graph(nodes=nodes)


def _known(
    declared: Declared, spec: TableSpec, references: Sequence[Reference], *, strict: bool
) -> tuple[Reference, ...]:
    """The references by their declared spelling. Spark does not tell upper from lower case in names."""
    names = {name.lower(): name for name in _readable(declared)}
    known = []
    for one in references:
        name = names.get(one.name.lower())
        if name is not None:
            known.append(Reference(name=name, line=one.line))
        elif strict:
            where = f"{spec.file}:{one.line}" if isinstance(spec.query, SqlQuery) else spec.file
            raise errors.ConfigError(where=where, what=_unknown(declared, one.name, names.values()))
    return tuple(known)


def _readable(declared: Declared) -> Iterator[str]:
    for pipeline in declared.pipelines.values():
        tables = [sink.table for sink in pipeline.sinks if isinstance(sink, DeltaSinkSpec)]
        if tables:
            yield pipeline.name
        yield from tables
    yield from declared.tables
    yield from (name for name, source in declared.sources.items() if isinstance(source, ExternalSpec))


def _unknown(declared: Declared, name: str, known: Iterable[str]) -> str:
    if name in declared.pipelines:
        return f"pipeline {name} has no delta sink, so there is no table {name} to read"
    if name in declared.sources:
        readers = [one.name for one in declared.pipelines.values() if one.source == name]
        return f"{name} is a source; read {' or '.join(readers) or 'a pipeline over it'} instead"
    near = difflib.get_close_matches(name, list(known), n=1)
    guess = f"; did you mean {near[0]}?" if near else "; name a pipeline, another table or an external source"
    return f"there is nothing called {name}{guess}"


def _ordered(declared: Declared, found: Mapping[str, Sequence[Reference]], *, strict: bool) -> list[str]:
    done: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        path.append(name)
        for one in found[name]:
            if one.name in path:
                if strict:
                    raise _circle(declared, [*path[path.index(one.name) :], one.name], one)
            elif one.name in found and one.name not in done:
                visit(one.name)
        done.append(path.pop())

    for name in found:
        if name not in done:
            visit(name)
    return done


def _circle(declared: Declared, circle: Sequence[str], closing: Reference) -> errors.ConfigError:
    spec = declared.tables[circle[-2]]
    where = f"{spec.file}:{closing.line}" if isinstance(spec.query, SqlQuery) else spec.file
    if len(circle) == 2:
        return errors.ConfigError(where=where, what=f"table {circle[0]} reads itself")
    return errors.ConfigError(where=where, what=f"tables read each other in a circle: {' → '.join(circle)}")


def _is_ready(declared: Declared, nodes: Mapping[str, Node], name: str) -> bool:
    """False only for what closes a circle, in a graph that is not strict."""
    return name not in declared.tables or name in nodes


def _input(declared: Declared, nodes: Mapping[str, Node], name: str) -> Input:
    if name in declared.tables:
        return Input(name=name, kind=InputKind.TABLE, table=name, roots=nodes[name].roots)
    if isinstance(declared.sources.get(name), ExternalSpec) and name not in declared.pipelines:
        return Input(name=name, kind=InputKind.EXTERNAL, table=name, roots=frozenset({name}))
    pipeline, table = _written_by(declared, name)
    return Input(name=name, kind=InputKind.PIPELINE, table=table, roots=frozenset({pipeline.source}))


def _written_by(declared: Declared, name: str) -> tuple[PipelineSpec, str]:
    pipeline = declared.pipelines.get(name)
    if pipeline is not None and isinstance(pipeline.main_sink, DeltaSinkSpec):
        return pipeline, pipeline.main_sink.table
    return next(
        (one, name)
        for one in declared.pipelines.values()
        if any(isinstance(sink, DeltaSinkSpec) and sink.table == name for sink in one.sinks)
    )


def _node(declared: Declared, spec: TableSpec, inputs: tuple[Input, ...], references: tuple[Reference, ...]) -> Node:
    roots = frozenset().union(*(one.roots for one in inputs))
    groups = [group for group in declared.groups.values() if roots & set(group.sources)]
    mode, why = (spec.gating, f"declared in {spec.file}") if spec.gating is not None else _inferred(inputs, groups)
    names = tuple(group.name for group in groups)
    return Node(name=spec.name, inputs=inputs, references=references, mode=mode, why=why, groups=names)


def _check_tolerance(declared: Declared, spec: TableSpec, node: Node) -> None:
    """Refuse a tolerance in other units than the watermarks of the table's groups: 5s would be 5,000,000 batches."""
    kind = None if spec.tolerance is None else spec.tolerance.kind
    members = [source for group in node.groups for source in declared.groups[group].sources if source in node.roots]
    for source in members:
        counted = declared.sources[source].watermark.value_kind
        if kind is not None and kind is not counted:
            wanted = "a whole number" if counted is ValueKind.INTEGER else "a duration such as 30s"
            what = f"tolerance must be {wanted}: the watermark of {source} is of kind {counted.value}"
            raise errors.ConfigError(where=spec.file, what=what)


def _inferred(inputs: Sequence[Input], groups: Sequence[Group]) -> tuple[Mode, str]:
    """Gate where members of a group meet, or where a source that must have reached something is read."""
    for group in groups:
        members = [source for source in group.sources if any(source in one.roots for one in inputs)]
        if len(members) > 1 and not any(set(members) <= one.roots for one in inputs):
            return Mode.GATE, f"{_listed(members)} of group {group.name} meet in it"
        read = [one.name for one in inputs if one.kind is not InputKind.TABLE and one.roots & set(members)]
        if group.at_least is not None and read:
            return (
                Mode.GATE,
                f"it reads {_listed(read)}, and group {group.name} asks for at least {group.at_least.text}",
            )
    if not groups:
        return Mode.NONE, "none of its sources is in a group"
    return Mode.NONE, f"no two members of group {_listed([group.name for group in groups])} meet in it"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
