"""The names that a query reads, by its syntax tree. Heavy: sqlglot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError, SqlglotError, TokenError
from sqlglot.optimizer.scope import traverse_scope

from tidegate import errors
from tidegate.tables.declare import PythonQuery, SqlQuery, TableSpec
from tidegate.tables.graph import Reference

_SAY = "a table is one SELECT"
#: What is between and after semicolons: nothing, or a comment.
_NOTHING: Final = (type(None), exp.Semicolon)
#: What the parser makes of statements that it has no name for.
_NAMELESS: Final = (exp.Command, exp.Alias)


def references(spec: TableSpec) -> tuple[Reference, ...]:
    """The tables that the query reads, each once and with its line, in the order of the text.

    :raises ConfigError: the query does not parse, is no SELECT, or reads something that is not a name.
    """
    if isinstance(spec.query, PythonQuery):
        return tuple(Reference(name=name, line=1) for name in spec.query.inputs)
    tree = _parsed(spec, spec.query)
    found: dict[str, Reference] = {}
    for table in sorted(_tables(spec, spec.query, tree), key=_place):
        name = _name(spec, spec.query, table)
        found.setdefault(name.lower(), Reference(name=name, line=_line(spec.query, table)))
    return tuple(found.values())


def _parsed(spec: TableSpec, query: SqlQuery) -> exp.Query:
    try:
        statements = [one for one in sqlglot.parse(query.text, read="spark") if not isinstance(one, _NOTHING)]
    except ParseError as broken:
        first = broken.errors[0] if broken.errors else {}
        line = query.line + int(first.get("line") or 1) - 1
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        what = f"the query does not parse: {str(first.get('description') or broken).rstrip('.')}{near}"
        raise errors.ConfigError(where=f"{spec.file}:{line}", what=what) from broken
    except TokenError as broken:
        what = f"the query does not parse: {str(broken).splitlines()[0]}"
        raise errors.ConfigError(where=f"{spec.file}:{query.line}", what=what) from broken
    if len(statements) != 1:
        what = f"there are {len(statements)} statements; {_SAY}" if statements else f"there is no query; {_SAY}"
        raise errors.ConfigError(where=f"{spec.file}:{query.line}", what=what)
    [tree] = statements
    if not isinstance(tree, exp.Query):
        kind = "this is no query" if isinstance(tree, _NAMELESS) else f"this is {type(tree).__name__.upper()}, no query"
        what = f"{kind}; {_SAY}"
        raise errors.ConfigError(where=f"{spec.file}:{query.line}", what=what)
    return tree


def _tables(spec: TableSpec, query: SqlQuery, tree: exp.Query) -> Iterator[exp.Table]:
    """The tables that no common table expression stands for."""
    try:
        for scope in traverse_scope(tree):
            expressions = {name.lower() for name in scope.cte_sources}
            for table in scope.tables:
                is_function = isinstance(table.this, exp.Func)
                if not is_function and (table.db or table.name.lower() not in expressions):
                    yield table
    except (OptimizeError, SqlglotError) as broken:
        what = f"the query cannot be understood: {str(broken).splitlines()[0]}"
        raise errors.ConfigError(where=f"{spec.file}:{query.line}", what=what) from broken


def _name(spec: TableSpec, query: SqlQuery, table: exp.Table) -> str:
    where = f"{spec.file}:{_line(query, table)}"
    if not isinstance(table.this, exp.Identifier):
        what = f"{table.sql('spark')} is not the name of a table"
        raise errors.ConfigError(where=where, what=what)
    if table.db:
        what = f"{table.sql('spark')} is not known here; name a pipeline, table or external source, and no database"
        raise errors.ConfigError(where=where, what=what)
    return table.name


def _place(table: exp.Table) -> int:
    return int(table.this.meta.get("start", 0)) if isinstance(table.this, exp.Expression) else 0


def _line(query: SqlQuery, table: exp.Table) -> int:
    line = table.this.meta.get("line", 1) if isinstance(table.this, exp.Expression) else 1
    return query.line + int(line) - 1
