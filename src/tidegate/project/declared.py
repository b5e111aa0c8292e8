"""`@tg.pipeline(...)` and `@tg.table(...)`: what Python files declare, the same as YAML and SQL.

Outside of a project the decorators do nothing but give the function back. A file whose
declarations are written out is only read, not run; one that computes them (in a loop, from a
variable) is run when the project is loaded.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from datetime import timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, TypeVar, overload

from tidegate.project import python
from tidegate.project.problems import Problems
from tidegate.project.yaml import Entry, Items, Node, Scalar, Table
from tidegate.quick import dataclass

F = TypeVar("F", bound=Callable[..., Any])


class What(Enum):
    """What a decorator declares."""

    PIPELINE = "pipeline"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A pipeline or table of a Python file; `function` runs the file when it is called."""

    what: What
    name: str
    name_line: int
    options: Table
    parameters: tuple[str, ...]
    line: int
    function: Callable[[], python.Function] = field(compare=False, repr=False)


def pipeline(
    *,
    source: str,
    sinks: Sequence[Mapping[str, Any]],
    name: str | None = None,
    mode: str | None = None,
    from_: str | int | None = None,
    batch: Mapping[str, Any] | None = None,
    publish_every: str | timedelta | None = None,
    retention: Mapping[str, Any] | None = None,
    retry: Mapping[str, Any] | None = None,
    late: str | None = None,
) -> Callable[[F], F]:
    """Declare a pipeline whose transform is the function below, from DataFrame to DataFrame.

    The options are those of `pipelines.NAME` in tidegate.yml; the name is that of the function.
    """
    given = {
        "source": source, "sinks": sinks, "mode": mode, "from": from_, "batch": batch, "publish_every": publish_every,
        "retention": retention, "retry": retry, "late": late,
    }  # fmt: skip
    return lambda function: _heard_of(What.PIPELINE, function, name, given)


@overload
def table(function: F, /) -> F: ...
@overload
def table(
    *,
    name: str | None = None,
    gating: str | None = None,
    tolerance: str | int | timedelta | None = None,
    schedule: str | None = None,
    refresh: str | None = None,
    over: str | None = None,
) -> Callable[[F], F]: ...
def table(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    gating: str | None = None,
    tolerance: str | int | timedelta | None = None,
    schedule: str | None = None,
    refresh: str | None = None,
    over: str | None = None,
) -> F | Callable[[F], F]:
    """Declare a maintained table: the function below gets the DataFrames that its parameters name.

    The options are those of the comment above a table's SQL; the name is that of the function.
    """
    given = {"gating": gating, "tolerance": tolerance, "schedule": schedule, "refresh": refresh, "over": over}
    if function is not None:
        return _heard_of(What.TABLE, function, name, given)
    return lambda function: _heard_of(What.TABLE, function, name, given)


def declarations(script: python.Script, problems: Problems) -> tuple[Declaration, ...]:
    """What the file declares, in its order."""
    uses = _uses(script.tree)
    if not uses:
        return ()
    try:
        written = tuple(_written(script, uses))
    except _Computed:
        return _computed(script, problems)
    return written


# from a file that is run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    what: What
    function: Callable[..., Any]
    name: str | None
    options: Mapping[str, Any]


_hearing: ContextVar[list[_Heard] | None] = ContextVar("tidegate_hearing", default=None)
_heard_in: dict[tuple[str, str], tuple[_Heard, ...]] = {}


def _heard_of(what: What, function: F, name: str | None, options: Mapping[str, Any]) -> F:
    hearing = _hearing.get()
    if hearing is not None:
        given = {key: value for key, value in options.items() if value is not None}
        hearing.append(_Heard(what=what, function=function, name=name, options=given))
    return function


def _computed(script: python.Script, problems: Problems) -> tuple[Declaration, ...]:
    try:
        heard = _hear(script)
    except Exception as failed:  # noqa: BLE001  the user's file may raise anything, and it is told with its line
        problems.add(_line_in(failed, script), f"running this file failed: {type(failed).__name__}: {failed}")
        return ()
    found = [_from_heard(one, problems) for one in heard]
    return tuple(one for one in found if one is not None)


def _hear(script: python.Script) -> tuple[_Heard, ...]:
    key = (str(script.root / script.file), script.fingerprint)
    if key not in _heard_in:
        hearing: list[_Heard] = []
        token = _hearing.set(hearing)
        try:
            python.run(script, afresh=True)
        finally:
            _hearing.reset(token)
        _heard_in[key] = tuple(hearing)
    return _heard_in[key]


def _from_heard(heard: _Heard, problems: Problems) -> Declaration | None:
    code = getattr(heard.function, "__code__", None)
    line = 1 if code is None else code.co_firstlineno
    parameters = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        options = _node_of(heard.options, line)
    except _Computed as wrong:
        problems.add(line, str(wrong))
        return None
    assert isinstance(options, Table)
    return Declaration(
        what=heard.what,
        name=heard.name or heard.function.__name__,
        name_line=line,
        options=options,
        parameters=parameters,
        line=line,
        function=lambda: heard.function,
    )


def _node_of(value: object, line: int) -> Node:
    match value:
        case Mapping():
            entries = tuple(Entry(key=str(key), line=line, node=_node_of(of, line)) for key, of in value.items())
            return Table(line=line, entries=entries)
        case list() | tuple():
            return Items(line=line, items=tuple(_node_of(item, line) for item in value))
        case timedelta():
            return _scalar(f"{value // timedelta(microseconds=1)}us", line)
        case PurePath() | str() | int() | float() | None:
            return _scalar(value, line)
        case Enum():
            return _node_of(value.value, line)
        case _:
            raise _Computed(f"{value!r} cannot be the value of a setting")


def _line_in(failed: BaseException, script: python.Script) -> int | None:
    file = str(script.root / script.file)
    lines = [frame.lineno for frame in traceback.extract_tb(failed.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


# from a file that is only read


class _Computed(Exception):
    """A declaration cannot be told from the text."""


_DECORATORS: Final = {what.value: what for what in What}


def _uses(tree: ast.Module) -> dict[int, What]:
    """The places, by id of their node, where a decorator of ours is named."""
    modules, names = {"tidegate"}, dict[str, What]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.name == "tidegate" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module == "tidegate":
            names |= {
                alias.asname or alias.name: _DECORATORS[alias.name] for alias in node.names if alias.name in _DECORATORS
            }
    found: dict[int, What] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=attr) if module in modules and attr in _DECORATORS:
                found[id(node)] = _DECORATORS[attr]
            case ast.Name(id=name) if name in names:
                found[id(node)] = names[name]
            case _:
                pass
    return found


def _written(script: python.Script, uses: Mapping[int, What]) -> Iterator[Declaration]:
    told = 0
    for function in script.tree.body:
        if isinstance(function, ast.FunctionDef):
            for decorator in function.decorator_list:
                named = decorator.func if isinstance(decorator, ast.Call) else decorator
                if id(named) in uses:
                    told += 1
                    yield _from_text(script, function, decorator, uses[id(named)])
    if told < len(uses):
        raise _Computed


def _from_text(script: python.Script, function: ast.FunctionDef, decorator: ast.expr, what: What) -> Declaration:
    call = decorator if isinstance(decorator, ast.Call) else ast.Call(func=decorator, args=[], keywords=[])
    arguments = function.args
    if call.args or arguments.vararg or arguments.kwarg:
        raise _Computed
    entries = _entries(call.keywords)
    name = next((entry for entry in entries if entry.key == "name"), None)
    if name is not None and not (isinstance(name.node, Scalar) and name.node.quoted):
        raise _Computed
    return Declaration(
        what=what,
        name=name.node.text if name is not None and isinstance(name.node, Scalar) else function.name,
        name_line=function.lineno if name is None else name.line,
        options=Table(line=decorator.lineno, entries=tuple(entry for entry in entries if entry.key != "name")),
        parameters=tuple(one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)),
        line=decorator.lineno,
        function=lambda: python.function(script, function.name),
    )


def _entries(keywords: Sequence[ast.keyword]) -> tuple[Entry, ...]:
    found = []
    for keyword in keywords:
        if keyword.arg is None:
            raise _Computed
        node = _literal(keyword.value)
        if not (isinstance(node, Scalar) and node.is_null):
            found.append(Entry(key="from" if keyword.arg == "from_" else keyword.arg, line=keyword.lineno, node=node))
    return tuple(found)


def _literal(expression: ast.expr) -> Node:
    line = expression.lineno
    match expression:
        case ast.Constant(value=str() | int() | float() | None as value):
            return _scalar(value, line)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return _scalar(-value, line)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return Items(line=line, items=tuple(_literal(item) for item in items))
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return Table(line=line, entries=tuple(_pair(key, value) for key, value in pairs))
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return Table(line=line, entries=_entries(keywords))
        case _:
            raise _Computed


def _pair(key: ast.expr | None, value: ast.expr) -> Entry:
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str | int):
        raise _Computed
    return Entry(key=str(key.value), line=key.lineno, node=_literal(value))


def _scalar(value: object, line: int) -> Scalar:
    match value:
        case None:
            text = "null"
        case bool():
            text = "true" if value else "false"
        case _:
            text = str(value)
    return Scalar(line=line, raw=text, text=text, quoted=isinstance(value, str))
