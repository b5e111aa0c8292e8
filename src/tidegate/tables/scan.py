"""The names that a query reads, found without a parser: for `status` before a table was ever planned.

Whatever is refreshed is parsed in full (`queries`), and the ledger remembers what was found. Until
then, looking at words is enough to tell what a table waits for, in a hundredth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tidegate.tables.declare import PythonQuery, TableSpec
from tidegate.tables.graph import Reference

_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[^\W\d]\w*)|\d\w*|\S""",
    re.DOTALL,
)
_READS: Final = frozenset({"FROM", "JOIN"})
_ENDS: Final = frozenset(
    re.findall(
        r"\w+",
        "SELECT WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT MINUS WINDOW LATERAL CLUSTER DISTRIBUTE SORT",
    )
)
_BEFORE_A_NAME: Final = frozenset({"LATERAL", "TABLE"})


def references(spec: TableSpec) -> tuple[Reference, ...]:
    """What follows a FROM or a JOIN in the query; common table expressions are left out."""
    if isinstance(spec.query, PythonQuery):
        return tuple(Reference(name=name, line=1) for name in spec.query.inputs)
    found = dict.fromkeys(_names(list(_tokens(spec.query.text))))
    return tuple(Reference(name=name, line=spec.query.line) for name in found)


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match[0]
        if not token.startswith(("--", "/*")):
            yield f"`{match['quoted'].replace('``', '`')}" if match["quoted"] else token


def _names(tokens: list[str]) -> Iterator[str]:
    expressions = {
        token.removeprefix("`").lower()
        for token, after, opening in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if after.upper() == "AS" and opening == "("
    }
    clauses = [""]
    waits = False
    for place, token in enumerate(tokens):
        word = token.upper()
        after = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token == "(":
            clauses.append("")
            waits = False
        elif token == ")":
            clauses = clauses[:-1] or [""]
        elif word in _READS:
            clauses[-1], waits = "FROM", True
        elif token == "," and clauses[-1] == "FROM":
            waits = True
        elif waits and word in _BEFORE_A_NAME:
            continue
        elif word in _ENDS:
            clauses[-1], waits = word, False
        elif waits:
            waits = False
            name = token.removeprefix("`")
            if (token[0] in "`_" or token[0].isalpha()) and after not in {"(", "."} and name.lower() not in expressions:
                yield name
