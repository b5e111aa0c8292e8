"""Typed values as bodies of documents: JSON that says what it is and in which format.

    {"kind": "mysql", "format": 1, "file": "binlog.000042", "pos": 12345, "gtid_set": null}

A record of an older format is upgraded when it is read; what a newer Tidegate added within a format is
kept in `extra` and written again. A record of a newer format, or of another kind, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from tidegate import errors
from tidegate.ledger.contract import Versioned

_OWN = frozenset(("kind", "format"))


class RecordBroken(Exception):
    """The body is not a record of the type that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A value that documents hold. Its fields are what JSON has: text, numbers, mappings, tuples of those."""

    KIND: ClassVar[str]
    FORMAT: ClassVar[int] = 1

    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def to_json(self) -> dict[str, Any]:
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "extra"}
        return {**self.extra, "kind": self.KIND, "format": self.FORMAT, **own}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Self:
        """:raises RecordBroken: it is of another kind, of a newer format, or lacks something."""
        kind, written_in = read.get("kind"), read.get("format")
        if kind != cls.KIND:
            raise RecordBroken(f"it is {kind or 'something else'}, not {cls.KIND}")
        if not isinstance(written_in, int) or written_in > cls.FORMAT:
            raise RecordBroken(f"it has format {written_in}, this Tidegate reads up to {cls.FORMAT}")
        told = {name: value for name, value in read.items() if name not in _OWN}
        for older in range(written_in, cls.FORMAT):
            told = cls.upgraded(told, older)
        names = {one.name for one in fields(cls)} - {"extra"}
        known = {name: cls.typed(name, value) for name, value in told.items() if name in names}
        try:
            return cls(**known, extra={name: value for name, value in told.items() if name not in names})
        except (TypeError, ValueError) as error:
            raise RecordBroken(str(error)) from error

    @classmethod
    def upgraded(cls, told: dict[str, Any], format: int) -> dict[str, Any]:
        """The fields as the next format has them."""
        raise RecordBroken(f"format {format} was never written")

    @classmethod
    def typed(cls, name: str, value: Any) -> Any:
        """A field as Python has it; lists of JSON are tuples here."""
        return tuple(value) if isinstance(value, list) else value


_Record = TypeVar("_Record", bound=Record)


def to_body(record: Record) -> bytes:
    """The body of a document that holds the record."""
    return json.dumps(record.to_json(), separators=(",", ":"), allow_nan=False).encode()


def from_body(document: Versioned, type: type[_Record]) -> _Record:
    """The record that the document holds.

    :raises LedgerError: it holds something else.
    """
    try:
        read = json.loads(document.body)
        if not isinstance(read, dict):
            raise RecordBroken("it is no record")
        return type.from_json(read)
    except (RecordBroken, ValueError) as error:
        what = f"version {document.version} of {document.key} cannot be read as {type.__name__}: {error}"
        raise errors.LedgerError(what=what) from error
