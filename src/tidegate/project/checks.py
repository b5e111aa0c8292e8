"""What only shows in a project as a whole: names that point nowhere, names that clash, kinds that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Generic, TypeVar

from tidegate.pipelines.declare import Late, PipelineSpec
from tidegate.progress.groups import Group
from tidegate.progress.watermarks import ValueKind
from tidegate.project import places
from tidegate.project.conversion import value_kind
from tidegate.project.kinds import Values
from tidegate.project.problems import Problems, did_you_mean
from tidegate.quick import dataclass
from tidegate.sinks.specs import DeltaSinkSpec, ParquetSinkSpec
from tidegate.sources.specs import ExternalSpec, LandingSpec, SourceSpec
from tidegate.tables.declare import TableSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(Generic[T]):
    """Something that a file declares: the name counts also where the rest is wrong (`spec` is None)."""

    name: str
    line: int
    problems: Problems
    spec: T | None
    values: Values | None = None

    def line_of(self, *path: str) -> int:
        """The line of a setting."""
        return self.line if self.values is None else self.values.line_of(*path)

    def refuse(self, line: int, what: str) -> None:
        self.problems.add(line, what)

    @property
    def where(self) -> str:
        return f"{self.problems.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """All that the files declare."""

    root: Path
    lake: str
    sources: Sequence[Declared[SourceSpec]] = field(default_factory=tuple)
    pipelines: Sequence[Declared[PipelineSpec]] = field(default_factory=tuple)
    groups: Sequence[Declared[Group]] = field(default_factory=tuple)
    tables: Sequence[Declared[TableSpec]] = field(default_factory=tuple)


def check(everything: Everything) -> None:
    """Add to the problems of each file what does not fit together."""
    sources = {source.name: source for source in everything.sources}
    for pipeline in everything.pipelines:
        _check_source(pipeline, sources)
    for group in everything.groups:
        _check_group(group, sources)
    _check_names(everything)
    _check_folders(everything)


def _check_source(pipeline: Declared[PipelineSpec], sources: Mapping[str, Declared[SourceSpec]]) -> None:
    """A pipeline reads a source that exists and can be read, and is late only where there is event time."""
    if pipeline.spec is None:
        return
    name, line = pipeline.spec.source, pipeline.line_of("source")
    key = f"pipelines.{pipeline.name}"
    if name not in sources:
        readable = [source.name for source in sources.values() if not isinstance(source.spec, ExternalSpec)]
        pipeline.refuse(line, f"{key}.source: there is no source {name}{_near(name, readable, 'sources')}")
        return
    source = sources[name].spec
    if isinstance(source, ExternalSpec):
        pipeline.refuse(
            line, f"{key}.source: {name} is external: tables read it by its name, and no pipeline moves its rows"
        )
    elif source is not None and source.event_time is None and pipeline.spec.late is not Late.KEEP:
        what = f"{key}.late: source {name} has no `event_time:`, so none of its rows is late"
        pipeline.refuse(pipeline.line_of("late"), what)
    if isinstance(source, LandingSpec) and isinstance(pipeline.spec.from_, int):
        what = f"{key}.from: source {name} has no numbers of its own to begin at; say start or now"
        pipeline.refuse(pipeline.line_of("from"), what)


def _check_group(group: Declared[Group], sources: Mapping[str, Declared[SourceSpec]]) -> None:
    """The members of a group exist, are there once, and speak of the same kind of watermark as its bounds."""
    if group.spec is None:
        return
    key, line = f"groups.{group.name}", group.line_of("sources")
    members = group.spec.sources
    for unknown in (name for name in members if name not in sources):
        group.refuse(line, f"{key}.sources: there is no source {unknown}{_near(unknown, sources, 'sources')}")
    kinds = _kinds(members, sources)
    if len(set(kinds.values())) > 1:
        told = " and ".join(f"{_names_of(kinds, kind)} ({kind.value})" for kind in ValueKind if kind in kinds.values())
        group.refuse(line, f"{key}.sources mixes kinds of watermarks: {told}; a group has one kind")
    elif kinds:
        _check_bounds(group, next(iter(kinds.values())))


def _kinds(members: Iterable[str], sources: Mapping[str, Declared[SourceSpec]]) -> dict[str, ValueKind]:
    specs = {name: sources[name].spec for name in members if name in sources}
    return {name: value_kind(spec.watermark) for name, spec in specs.items() if spec is not None}


def _names_of(kinds: Mapping[str, ValueKind], kind: ValueKind) -> str:
    return ", ".join(name for name, of in kinds.items() if of is kind)


def _check_bounds(group: Declared[Group], kind: ValueKind) -> None:
    spec, values = group.spec, group.values
    if spec is None or values is None:
        return
    for key in ("tolerance", "max_drift"):
        distance = values[key]
        if distance is not None and distance.kind not in {None, kind}:
            wanted = "a duration such as 30s" if kind is ValueKind.TIMESTAMP else "a whole number"
            what = f"groups.{group.name}.{key} must be {wanted}: the watermarks of its sources are {kind.value}s"
            group.refuse(group.line_of(key), what)
    bound = spec.at_least
    if bound is not None and (ValueKind.TIMESTAMP if bound.value is None else bound.value.kind) is not kind:
        wanted = "a time, or now - 1h" if kind is ValueKind.TIMESTAMP else "a whole number"
        what = f"groups.{group.name}.at_least must be {wanted}: the watermarks of its sources are {kind.value}s"
        group.refuse(group.line_of("at_least"), what)


# names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    """A name that queries may use, and whose it is: a pipeline and its own lake table are one."""

    name: str
    owner: str
    what: str
    line: int
    problems: Problems


def _check_names(everything: Everything) -> None:
    """A name in a query means one thing; Spark does not tell apart names that differ only in case."""
    seen: dict[str, _Name] = {}
    for name in _queried(everything):
        other = seen.setdefault(name.name.lower(), name)
        if other is not name and other.owner != name.owner:
            spelling = "" if other.name == name.name else f", and {name.name} differs from it only in case"
            place = f"{other.problems.file}:{other.line}"
            name.problems.add(name.line, f"{name.what} clashes with {other.what} ({place}){spelling}")


def _queried(everything: Everything) -> Iterable[_Name]:
    for source in everything.sources:
        if isinstance(source.spec, ExternalSpec):
            what = f"external source {source.name}"
            yield _Name(name=source.name, owner=what, what=what, line=source.line, problems=source.problems)
    for pipeline in everything.pipelines:
        what = f"pipeline {pipeline.name}"
        yield _Name(name=pipeline.name, owner=f"{what} {pipeline.where}", what=what, line=pipeline.line,
                    problems=pipeline.problems)  # fmt: skip
        yield from _sink_tables(pipeline)
    for table in everything.tables:
        what = f"table {table.name}"
        yield _Name(name=table.name, owner=f"{what} {table.where}", what=what, line=table.line,
                    problems=table.problems)  # fmt: skip


def _sink_tables(pipeline: Declared[PipelineSpec]) -> Iterable[_Name]:
    if pipeline.spec is None:
        return
    written: set[str] = set()
    for number, sink in enumerate(pipeline.spec.sinks):
        if isinstance(sink, DeltaSinkSpec):
            line = _sink_line(pipeline, number, "table")
            what = f"table {sink.table} of sink {sink.name} of pipeline {pipeline.name}"
            if sink.table.lower() in written:
                pipeline.refuse(line, f"{what}: another sink writes that table already")
            if sink.table == pipeline.name and sink is not pipeline.spec.main_sink:
                first = pipeline.spec.main_sink.name
                pipeline.refuse(line, f"{what}: the name of the pipeline is that of its first delta sink, {first}")
            written.add(sink.table.lower())
            yield _Name(name=sink.table, owner=f"pipeline {pipeline.name} {pipeline.where}", what=what,
                        line=line, problems=pipeline.problems)  # fmt: skip


def _sink_line(pipeline: Declared[PipelineSpec], number: int, key: str) -> int:
    if pipeline.values is None:
        return pipeline.line
    line: int = pipeline.values["sinks"][number].line_of(key)
    return line


# folders


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    place: Path
    what: str


def _check_folders(everything: Everything) -> None:
    """What is written lies apart from what is read: a source that saw what its own pipeline wrote would never end."""
    own = [
        _Folder(place=Path(everything.lake), what="the lake"),
        _Folder(place=everything.root / places.STATE, what="Tidegate's own folder"),
    ]
    for source in everything.sources:
        if isinstance(source.spec, LandingSpec):
            place = places.absolute(everything.root, source.spec.path)
            other = next((one for one in own if places.overlap(one.place, place)), None)
            if other is not None:
                what = f"sources.{source.name}.path: {source.spec.path} is inside or around the folder of {other.what}"
                source.refuse(source.line_of("path"), what)
    taken = [
        *own,
        *(
            _Folder(place=places.absolute(everything.root, _folder_of(source.spec)), what=f"source {source.name}")
            for source in everything.sources
            if isinstance(source.spec, LandingSpec | ExternalSpec)
        ),
    ]
    for pipeline in everything.pipelines:
        for number, sink in enumerate(pipeline.spec.sinks if pipeline.spec else ()):
            if isinstance(sink, ParquetSinkSpec):
                folder = _Folder(
                    place=places.absolute(everything.root, sink.path),
                    what=f"sink {sink.name} of pipeline {pipeline.name}",
                )
                other = next((one for one in taken if places.overlap(one.place, folder.place)), None)
                if other is not None:
                    what = f"{folder.what}: {sink.path} is inside or around the folder of {other.what}"
                    pipeline.refuse(_sink_line(pipeline, number, "path"), what)
                taken.append(folder)


def _folder_of(spec: LandingSpec | ExternalSpec) -> str:
    return spec.path if isinstance(spec, LandingSpec) else spec.table


def _near(asked: str, known: Iterable[str], what: str) -> str:
    return did_you_mean(asked, known) or f"; the project has no {what}"
