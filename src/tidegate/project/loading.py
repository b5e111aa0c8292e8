"""A folder becomes a `ProjectSpec`, or a page of everything that is wrong with it. Nothing is opened or started."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from tidegate.errors import ConfigError
from tidegate.pipelines.declare import PipelineSpec, TransformRef
from tidegate.project import checks, conversion, declared, environment, places, python, yaml
from tidegate.project.checks import Declared, Everything
from tidegate.project.declared import Declaration, What
from tidegate.project.kinds import Values, name_problem, read_section, read_what_is_right
from tidegate.project.model import ProjectSpec
from tidegate.project.problems import Problem, Problems, did_you_mean, raise_all
from tidegate.project.settings import PIPELINE_IN_PYTHON, PROJECT
from tidegate.project.yaml import Scalar, Table
from tidegate.quick import dataclass
from tidegate.tables.declare import PythonQuery, TableSpec, parse_option, parse_sql

T = TypeVar("T")

_TRANSFORM: Final = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")
_PLACED: Final = re.compile(r"(?P<file>.*?):(?P<line>\d+)")


def find(start: Path) -> Path:
    """The nearest folder, from `start` upward, that has a tidegate.yml."""
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / places.FILE).is_file():
            return folder
    raise ConfigError(
        where=start,
        what=f"there is no {places.FILE} here or above",
        hint="go into a project, name one with --project DIR, or make one with tidegate init DIR",
    )


def load(root: Path, *, variables: Mapping[str, str] | None = None) -> ProjectSpec:
    """The project in that folder; raises `BadProject` with everything that is wrong, each with its line."""
    root = root.absolute()
    files = _Files(root=root)
    project = files.of(places.FILE)
    node = yaml.parse(_text(root), environment.variables() if variables is None else variables, project)
    settings = read_what_is_right(PROJECT, node or Table(line=1, entries=()), "", project)
    scripts = files.scripts()
    declarations = [(script, one) for script in scripts for one in declared.declarations(script, files.of(script.file))]
    lake = str(places.absolute(root, settings["lake"] or places.DEFAULT_LAKE))
    everything = Everything(
        root=root,
        lake=lake,
        sources=_section(node, settings, "sources", project, conversion.source),
        pipelines=[
            *_section(node, settings, "pipelines", project, partial(_pipeline, files)),
            *(_python_pipeline(script, one, files) for script, one in declarations if one.what is What.PIPELINE),
        ],
        groups=_section(node, settings, "groups", project, conversion.group),
        tables=[
            *files.sql_tables(),
            *(_python_table(script, one, files) for script, one in declarations if one.what is What.TABLE),
        ],
    )
    spark = conversion.spark(settings["spark"], project)
    checks.check(everything)
    raise_all(files.found())
    return ProjectSpec(
        name=settings["name"] or _default_name(root),
        root=root,
        ledger=settings["ledger"] or places.DEFAULT_LEDGER,
        lake=lake,
        spark=spark,
        sources=_by_name(everything.sources),
        pipelines=_by_name(everything.pipelines),
        groups=_by_name(everything.groups),
        tables=_by_name(everything.tables),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of a project, each read once, and what is wrong with each."""

    root: Path
    problems: dict[str, Problems] = field(default_factory=dict)
    read: dict[str, python.Script | None] = field(default_factory=dict)

    def of(self, file: str) -> Problems:
        """What is wrong with that file."""
        return self.problems.setdefault(file, Problems(file=file))

    def found(self) -> Iterator[Problem]:
        for problems in self.problems.values():
            yield from problems.found

    def script(self, file: str) -> python.Script | None:
        """A Python file, parsed; None when it cannot be."""
        if file not in self.read:
            self.read[file] = python.read(self.root, file, self.of(file))
        return self.read[file]

    def scripts(self) -> list[python.Script]:
        """The Python files that may declare something."""
        files = [file for folder in python.FOLDERS for file in self.listed(folder, ".py")]
        return [script for script in map(self.script, files) if script is not None]

    def listed(self, folder: str, suffix: str) -> list[str]:
        """The files of a folder of the project, in order; names that start with . or _ are not looked at."""
        place = self.root / folder
        names = sorted(path.name for path in place.iterdir() if path.is_file()) if place.is_dir() else []
        return [f"{folder}/{name}" for name in names if name.endswith(suffix) and name[0] not in "._"]

    def sql_tables(self) -> Iterator[Declared[TableSpec]]:
        """The tables of `tables/*.sql`."""
        for file in self.listed("tables", ".sql"):
            name, problems = Path(file).stem, self.of(file)
            _check_name(name, 1, problems)
            text = None if problems.found else _read(self.root / file, problems)
            spec = None if text is None else _placed(lambda: parse_sql(name, text, file), problems)  # noqa: B023
            yield Declared(name=name, line=1, problems=problems, spec=spec)


def _text(root: Path) -> str:
    place = root / places.FILE
    if not place.is_file():
        hint = "name the folder of a project with --project DIR, or make one with tidegate init DIR"
        raise ConfigError(where=root, what=f"there is no {places.FILE} here", hint=hint)
    problems = Problems(file=places.FILE)
    text = _read(place, problems)
    problems.raise_any()
    return text or ""


def _read(place: Path, problems: Problems) -> str | None:
    try:
        return place.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        problems.add(None, "this is not text in UTF-8")
    except OSError as failed:
        problems.add(None, f"cannot be read: {failed.strerror}")
    return None


def _section(
    node: yaml.Node | None,
    settings: Values,
    key: str,
    problems: Problems,
    make: Callable[[str, Values, Problems], T | None],
) -> list[Declared[T]]:
    """What a section of tidegate.yml declares; a name counts also where what it has is wrong."""
    entry = node.get(key) if isinstance(node, Table) else None
    names = entry.node.entries if entry is not None and isinstance(entry.node, Table) else ()
    right: Mapping[str, Values] = settings[key]
    return [
        Declared(
            name=one.key,
            line=one.line,
            problems=problems,
            spec=make(one.key, right[one.key], problems) if one.key in right else None,
            values=right.get(one.key),
        )
        for one in names
    ]


def _by_name(declared: Sequence[Declared[T]]) -> dict[str, T]:
    return {one.name: one.spec for one in declared if one.spec is not None}


def _default_name(root: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", root.name).strip("-_.") or "project"


def _check_name(name: str, line: int, problems: Problems) -> None:
    wrong = name_problem(name)
    if wrong:
        problems.add(line, f"{name!r} cannot be a name: {wrong}")


# pipelines


def _pipeline(files: _Files, name: str, values: Values, problems: Problems) -> PipelineSpec | None:
    before = len(problems.found)
    transform = None
    if values["transform"] is not None:
        line, key = values.line_of("transform"), f"{values.path}.transform"
        transform = _transform(files, values["transform"], lambda what: problems.add(line, f"{key}: {what}"))
    made = conversion.pipeline(name, values, transform, problems)
    return made if len(problems.found) == before else None


def _transform(files: _Files, text: str, refuse: Callable[[str], None]) -> TransformRef | None:
    """The function that `file.py:function` names, found in the text of the file without running it."""
    found = _TRANSFORM.fullmatch(text)
    if found is None:
        refuse(f"{text!r} names no function; write file and function, as in pipelines/orders.py:clean")
        return None
    file, function = found["file"], found["function"]
    place = places.absolute(files.root, file)
    if not place.is_file():
        refuse(f"there is no file {file}{did_you_mean(file, files.listed('pipelines', '.py'))}")
        return None
    if not place.is_relative_to(files.root):
        refuse(f"{file} is outside of the project")
        return None
    script = files.script(place.relative_to(files.root).as_posix())
    if script is None:
        return None
    if function not in script.functions:
        refuse(f"there is no {function} in {file}{did_you_mean(function, script.functions)}")
        return None
    load = partial(python.function, script, function)
    return TransformRef(text=text, load=load, fingerprint=script.fingerprint)


def _python_pipeline(script: python.Script, one: Declaration, files: _Files) -> Declared[PipelineSpec]:
    problems = files.of(script.file)
    before = len(problems.found)
    _check_name(one.name, one.name_line, problems)
    if len(one.parameters) != 1:
        problems.add(one.line, f"{one.name} must take one DataFrame, and gives one: it has {len(one.parameters)}")
    values = read_section(PIPELINE_IN_PYTHON, one.options, f"pipelines.{one.name}", problems)
    spec = None
    if isinstance(values, Values):
        text = f"{script.file}:{one.name}"
        transform = TransformRef(text=text, load=one.function, fingerprint=script.fingerprint)
        spec = conversion.pipeline(one.name, values, transform, problems)
    return Declared(
        name=one.name,
        line=one.line,
        problems=problems,
        spec=spec if len(problems.found) == before else None,
        values=values if isinstance(values, Values) else None,
    )


# tables


@dataclass(frozen=True, slots=True)
class _Late:
    """A function of the project that is fetched, by running its file, when it is called."""

    fetch: Callable[[], python.Function]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fetch()(*args, **kwargs)


def _python_table(script: python.Script, one: Declaration, files: _Files) -> Declared[TableSpec]:
    problems = files.of(script.file)
    before = len(problems.found)
    _check_name(one.name, one.name_line, problems)
    if not one.parameters:
        problems.add(one.line, f"{one.name} has no parameters; they name the tables that it reads")
    options = _table_options(one, problems)
    query = PythonQuery(function=_Late(one.function), inputs=one.parameters, source=script.text)
    spec = None
    if len(problems.found) == before:
        make = partial(TableSpec, name=one.name, query=query, file=script.file, **options)
        spec = _placed(make, problems)
    return Declared(name=one.name, line=one.line, problems=problems, spec=spec)


def _table_options(one: Declaration, problems: Problems) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for entry in one.options.entries:
        if isinstance(entry.node, Scalar):
            text, where = entry.node.text, f"{problems.file}:{entry.line}"
            options[entry.key] = _placed(partial(parse_option, entry.key, text, where), problems)
        else:
            problems.add(entry.line, f"{entry.key} must be one value")
    return options


def _placed(make: Callable[[], T], problems: Problems) -> T | None:
    """What `make` makes; a refusal becomes a problem on the line that it names."""
    try:
        return make()
    except ConfigError as refused:
        found = _PLACED.fullmatch(str(refused.fields["where"]))
        problems.add(int(found["line"]) if found else None, str(refused.fields["what"]))
        return None
