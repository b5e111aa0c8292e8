"""What the ledger remembers of a table.

    tables/<name>/state     TableDocument: its last refresh, what it read, history, failure
    tables/<name>/lease     who refreshes it

The truth about contents is the table's own log; this document may lag behind it by one crash, never
lead it. Light: `tidegate status` loads this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any, Final

from tidegate.ledger.contract import Store
from tidegate.ledger.formats import decoded
from tidegate.quick import dataclass
from tidegate.tables.graph import Reference

FORMAT: Final = 1
MAX_HISTORY: Final = 50


def state_key(table: str) -> str:
    return f"tables/{table}/state"


def lease_key(table: str) -> str:
    return f"tables/{table}/lease"


class Happening(Enum):
    """What a row of a table's history is about."""

    REFRESHED = "refreshed"
    FORCED = "forced"
    WAITED = "waited"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Something that happened, `count` times between the two moments.

    `how` is the mode of a refresh that really ran; the version is that which it made.
    """

    happening: Happening
    at_us: int
    until_us: int
    count: int = 1
    reason: str | None = None
    code: str | None = None
    blocked_by: tuple[str, ...] = ()
    version: int | None = None
    rows: int | None = None
    how: str | None = None
    took_us: int | None = None

    def to_json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in _ROW}
        return {name: value for name, value in {**said, "happening": self.happening.value}.items() if value is not None}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Row:
        known = {name: read[name] for name in _ROW if name in read}
        typed = {"happening": Happening(read["happening"]), "blocked_by": tuple(read.get("blocked_by", ()))}
        return cls(**{**known, **typed})


_ROW: Final = ("at_us", "until_us", "count", "reason", "code", "blocked_by", "version", "rows", "how", "took_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocument:
    """What is known of a table beside its log.

    `references` are the names that the query `definition` reads, so that nobody needs to parse it
    to tell. `frontier` and `reading` hold versions by lake table: those that its contents come from,
    and those that a refresh under way reads. `needs_all` says that any version from the frontier on
    may be asked for, not only the newest; before there is a frontier, any from `kept_from` on.
    `readable_from` is the oldest version whose files are all there.
    """

    table: str
    definition: str = ""
    references: tuple[Reference, ...] = ()
    mode: str = ""
    needs_all: bool = False
    token: int = 0
    frontier: Mapping[str, int] = field(default_factory=dict)
    reading: Mapping[str, int] = field(default_factory=dict)
    kept_from: Mapping[str, int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)
    readable_from: int = 0
    history: tuple[Row, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_planned(self) -> bool:
        """Whether its query was parsed."""
        return bool(self.mode)

    @property
    def oldest(self) -> Mapping[str, int]:
        """For each lake table, the oldest version that it may still read the files of."""
        needed = [self.frontier, self.reading, self.kept_from]
        tables = frozenset().union(*needed)
        return {table: min(one[table] for one in needed if table in one) for table in tables}

    @property
    def last(self) -> Row | None:
        """The newest row of its history."""
        return self.history[-1] if self.history else None

    @property
    def last_refresh(self) -> Row | None:
        """The newest refresh in its history."""
        made = (Happening.REFRESHED, Happening.FORCED)
        return next((row for row in reversed(self.history) if row.happening in made), None)

    @property
    def failure(self) -> Row | None:
        """The failure that no refresh has mended yet."""
        for row in reversed(self.history):
            if row.happening is Happening.FAILED:
                return row
            if row.happening is not Happening.WAITED:
                return None
        return None

    def told(self, row: Row) -> TableDocument:
        """With that row; what only repeats the newest one is counted there."""
        last = self.last
        if last is not None and _repeats(last, row):
            again = replace(row, at_us=last.at_us, count=last.count + row.count)
            return replace(self, history=(*self.history[:-1], again))
        return replace(self, history=(*self.history, row)[-MAX_HISTORY:])

    def to_body(self) -> bytes:
        document = {
            **self.extra,
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "references": [[one.name, one.line] for one in self.references],
            "history": [row.to_json() for row in self.history],
        }
        return json.dumps(document, separators=(",", ":"), allow_nan=False, default=dict).encode()

    @classmethod
    def from_body(cls, body: bytes) -> TableDocument:
        read = decoded(body, what="the document of a table", newest=FORMAT)
        references = tuple(Reference(name=name, line=line) for name, line in read.pop("references"))
        history = tuple(Row.from_json(row) for row in read.pop("history"))
        plain = {name: read.pop(name) for name in _PLAIN if name in read}
        return cls(references=references, history=history, **plain, extra=read)


_PLAIN: Final = (
    "table",
    "definition",
    "mode",
    "needs_all",
    "token",
    "frontier",
    "reading",
    "kept_from",
    "gone",
    "readable_from",
)


def _repeats(last: Row, row: Row) -> bool:
    same = (last.happening, last.blocked_by, last.code) == (row.happening, row.blocked_by, row.code)
    return same and row.happening in (Happening.WAITED, Happening.FAILED)


def read(store: Store, table: str) -> TableDocument | None:
    """What is remembered of the table; None before it was ever looked at by a run."""
    found = store.get(state_key(table))
    return None if found is None else TableDocument.from_body(found.body)


def read_all(store: Store) -> dict[str, TableDocument]:
    """All tables that are remembered, by name."""
    found = [TableDocument.from_body(one.body) for one in store.scan("tables/") if one.key.endswith("/state")]
    return {document.table: document for document in found}


def pins(store: Store, tables: frozenset[str] | None = None) -> dict[str, int]:
    """For each lake table, the oldest version that a maintained table still needs the files of.

    Only those of `tables` count, where they are given: a table that is declared no more needs nothing.
    """
    lowest: dict[str, int] = {}
    for name, document in read_all(store).items():
        if tables is None or name in tables:
            for source, version in document.oldest.items():
                lowest[source] = min(version, lowest.get(source, version))
    return lowest


def needed_from(documents: Iterable[TableDocument], table: str) -> int | None:
    """The oldest version of a maintained table that another one may still read; None when none does.

    A table that reads only the newest versions needs those that it reads right now, no older ones:
    each version is a copy of its own, and a gate may be closed for days.
    """
    needed = [document.oldest if document.needs_all else document.reading for document in documents]
    return min((one[table] for one in needed if table in one), default=None)
