"""Schemas as people write them, `id BIGINT, at TIMESTAMP`, judged without Spark."""

from __future__ import annotations

import re
from typing import Final

from tidegate.sources.specs import schema_fields, split_top_level

#: What every reader of a lake table understands.
TYPES: Final = (
    "BIGINT", "BINARY", "BOOLEAN", "BYTE", "DATE", "DEC", "DECIMAL", "DOUBLE", "FLOAT", "INT", "INTEGER", "LONG",
    "NUMERIC", "REAL", "SHORT", "SMALLINT", "STRING", "TIMESTAMP", "TIMESTAMP_LTZ", "TINYINT",
)  # fmt: skip
_DECIMALS: Final = ("DEC", "DECIMAL", "NUMERIC")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_INSTEAD: Final = {
    "TIMESTAMP_NTZ": "TIMESTAMP: text without a zone is read as UTC",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "TEXT": "STRING",
    "DATETIME": "TIMESTAMP",
    "INT64": "BIGINT",
    "INT32": "INT",
    "BOOL": "BOOLEAN",
    "VARIANT": "STRING",
}
#: Spark keeps these for itself in the names of Parquet columns.
_BAD_LETTERS = re.compile(r"[ ,;{}()\n\t=]")
_NESTED = re.compile(r"(ARRAY|MAP|STRUCT)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_SCALAR = re.compile(r"([A-Za-z_0-9]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
RESERVED_PREFIX: Final = "__tidegate"


def checked_schema(text: str) -> str:
    """The schema as it is written; ValueError says which column is wrong."""
    _check_columns(text)
    return text


def is_timestamp(schema: str, column: str) -> bool:
    """Whether the column of the schema is a TIMESTAMP."""
    return any(name == column and kind.upper() in _TIMESTAMPS for name, kind in schema_fields(schema))


def _check_columns(text: str) -> None:
    if not text.strip():
        raise ValueError
    seen: set[str] = set()
    for name, kind in schema_fields(text):
        if name.lower() in seen:
            raise ValueError(f"{name} is there twice; columns that differ only in case are the same to Spark")
        seen.add(name.lower())
        _check_name(name)
        _check_type(name, kind)


def _check_name(name: str) -> None:
    if _BAD_LETTERS.search(name):
        raise ValueError(f"{name!r} cannot be the name of a column: no spaces and none of ,;{{}}()=")
    if name.lower().startswith(RESERVED_PREFIX):
        raise ValueError(f"{name}: names that start with {RESERVED_PREFIX} belong to Tidegate")


def _check_type(name: str, kind: str) -> None:
    nested = _NESTED.fullmatch(kind)
    if nested:
        _check_nested(name, nested[1].upper(), nested[2])
        return
    scalar = _SCALAR.fullmatch(kind)
    if re.search(r"\bNOT\s+NULL\b", kind, re.IGNORECASE):
        raise ValueError(f"{name}: columns are always nullable; leave NOT NULL out")
    if scalar is None:
        raise ValueError(f"{name}: {kind} is not a type; there is {_there_is()}")
    word = scalar[1].upper()
    if word in _INSTEAD:
        raise ValueError(f"{name}: {word} is not a type here; write {_INSTEAD[word]}")
    if word not in TYPES or (scalar[2] and word not in _DECIMALS):
        raise ValueError(f"{name}: {kind} is not a type; there is {_there_is()}")
    if scalar[2] and not (1 <= int(scalar[2]) <= 38 and int(scalar[3] or 0) <= int(scalar[2])):
        raise ValueError(f"{name}: {kind} has at most 38 digits, and no more after the point than in all")


def _check_nested(name: str, word: str, inside: str) -> None:
    if word == "STRUCT":
        _check_columns(inside)
    elif word == "ARRAY":
        _check_type(name, inside.strip())
    else:
        kinds = split_top_level(inside)
        if len(kinds) != 2:
            raise ValueError(f"{name}: a map has two types, as in MAP<STRING, BIGINT>")
        for kind in kinds:
            _check_type(name, kind.strip())


def _there_is() -> str:
    return "BIGINT, INT, DOUBLE, STRING, BOOLEAN, TIMESTAMP, DATE, DECIMAL(p, s), BINARY, ARRAY, MAP and STRUCT"
