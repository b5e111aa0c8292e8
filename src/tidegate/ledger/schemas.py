"""Which schema a table of a source had, from which position on: a log of versions, one document a table.

    schemas/<source>/<table>     the entries, oldest first, and the rule that new ones must keep

The same schema as the newest is no new version; one that was left and came back is: A, B, A are three.
Old rows are read with the schema of their position, so the log goes back together with a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Final, Self

from tidegate import errors
from tidegate.clock import from_micros, to_micros
from tidegate.ledger import records
from tidegate.ledger.checkpoints import CheckpointStore, checkpoint_key
from tidegate.ledger.contract import Operation, Put, Store
from tidegate.ledger.positions import KINDS, Order, Position

_PREFIX: Final = "schemas/"
_TRIES: Final = 50
#: What a type can be read as without loss, in one step.
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "tinyint": ("smallint",),
    "smallint": ("int", "float"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp",),
}


class Rule(Enum):
    """What a new schema owes to those who know the last one."""

    NONE = "none"
    BACKWARD = "backward"  #: readers with the new schema can read old rows
    FORWARD = "forward"  #: readers with the old schema can read new rows
    FULL = "full"  #: both

    @property
    def is_backward(self) -> bool:
        return self in (Rule.BACKWARD, Rule.FULL)

    @property
    def is_forward(self) -> bool:
        return self in (Rule.FORWARD, Rule.FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column. With `fills` a reader knows what to take where a row lacks it: null, or a default."""

    name: str
    type: str
    nullable: bool = True
    has_default: bool = False

    @property
    def fills(self) -> bool:
        return self.nullable or self.has_default

    def to_json(self) -> list[Any]:
        return [self.name, self.type, self.nullable, self.has_default]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a table, in their order, and its key."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        twice = {name for name in names if names.count(name) > 1}
        if not names or twice or not set(self.primary_key) <= set(names):
            raise ValueError(f"columns {names} with the key {list(self.primary_key)} make no schema")

    @property
    def fingerprint(self) -> str:
        """The same for the same schema, everywhere."""
        told = json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {"columns": [column.to_json() for column in self.columns], "primary_key": list(self.primary_key)}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Self:
        columns = (
            Column(name=name, type=kind, nullable=nullable, has_default=has_default)
            for name, kind, nullable, has_default in read["columns"]
        )
        return cls(columns=tuple(columns), primary_key=tuple(read["primary_key"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A version of a schema: valid from `position` on, where that is known, until the next one's."""

    version: int
    schema: Schema
    registered_us: int
    position: Position | None = None

    @property
    def fingerprint(self) -> str:
        return self.schema.fingerprint

    @property
    def registered_at(self) -> datetime:
        return from_micros(self.registered_us)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "schema": self.schema.to_json(),
            "registered_us": self.registered_us,
            "position": None if self.position is None else self.position.to_json(),
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Self:
        position = read["position"]
        return cls(
            version=read["version"],
            schema=Schema.from_json(read["schema"]),
            registered_us=read["registered_us"],
            position=None if position is None else KINDS[position["kind"]].from_json(position),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log(records.Record):
    """The document of a table. `highest` is the last version ever given: a rollback gives none again."""

    KIND: ClassVar[str] = "schemas"

    rule: str = Rule.NONE.value
    highest: int = 0
    entries: tuple[Mapping[str, Any], ...] = ()

    @property
    def versions(self) -> tuple[Entry, ...]:
        return tuple(Entry.from_json(entry) for entry in self.entries)


class SchemaRegistry:
    """The schemas of tables, in a ledger.

    *When*: by whoever reads a source whose tables change. *May assume*: names follow `keys.check_key`.
    *Holds after*: what was registered is found by version, position and time, until it is rolled back.
    *Raises*: `Incompatible`, and what the store raises. *Guarantees*: registered at the same time by
    several, a schema gets one version.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def register(
        self, source: str, table: str, schema: Schema, *, position: Position | None = None, rule: Rule | None = None
    ) -> Entry:
        """The schema's version: the newest, when that is it already, else a new one from `position` on.

        A rule that is given stays, for this schema and those after it.

        :raises Incompatible: the rule forbids it; `why` says which column.
        """
        key = _key(source, table)
        for _ in range(_TRIES):
            version, log = self._read(key)
            last = log.versions[-1] if log.entries else None
            kept = Rule(log.rule) if rule is None else rule
            if last is not None and last.fingerprint == schema.fingerprint and kept is Rule(log.rule):
                return last
            if last is not None and last.fingerprint == schema.fingerprint:
                entry, changed = last, replace(log, rule=kept.value)
            else:
                self._check(source, table, kept, last, schema)
                now_us = to_micros(self.store.now())
                entry = Entry(version=log.highest + 1, schema=schema, registered_us=now_us, position=position)
                entries = (*log.entries, entry.to_json())
                changed = replace(log, rule=kept.value, highest=entry.version, entries=entries)
            try:
                self.store.put(key, records.to_body(changed), expect=version)
            except errors.VersionConflict:
                continue
            return entry
        raise errors.LedgerError(what=f"{key} is being written all the time by somebody else")

    def tables(self, source: str) -> list[str]:
        """The tables that have a schema, in order."""
        prefix = f"{_PREFIX}{source}/"
        return [key.removeprefix(prefix) for key in self.store.list(prefix)]

    def versions(self, source: str, table: str) -> tuple[Entry, ...]:
        """Every version, oldest first."""
        return self._read(_key(source, table))[1].versions

    def latest(self, source: str, table: str) -> Entry | None:
        """The newest version; None when there is none."""
        return next(reversed(self.versions(source, table)), None)

    def version(self, source: str, table: str, version: int) -> Entry | None:
        """That version; None when there is none."""
        return next((entry for entry in self.versions(source, table) if entry.version == version), None)

    def at_position(self, source: str, table: str, position: Position) -> Entry | None:
        """The schema of what is read at that position; None before the first one.

        :raises LedgerError: a version's position has no order with it, so nobody can say.
        """
        found = None
        for entry in self.versions(source, table):
            if _is_after(entry, position):
                break
            found = entry
        return found

    def at_time(self, source: str, table: str, moment: datetime) -> Entry | None:
        """The newest version that was registered by then; None before the first one."""
        limit_us = to_micros(moment)
        return next((e for e in reversed(self.versions(source, table)) if e.registered_us <= limit_us), None)

    def roll_back(self, source: str, checkpoints: CheckpointStore, name: str, version: int) -> int:
        """Make an older checkpoint the newest again, and the schemas of its source as they were there: its version.

        All of it is one transaction where the store has them; else the checkpoint goes back last.
        """
        kind = self._kind_of(checkpoints, name, version)
        position = checkpoints.get_version(name, version, kind)
        current = self.store.get(checkpoint_key(name))
        if position is None:
            raise errors.LedgerError(what=f"version {version} of {name} is not kept")
        operations: list[Operation] = [
            *self._cut(source, position),
            Put(
                key=checkpoint_key(name),
                body=records.to_body(position),
                expect=None if current is None else current.version,
            ),
        ]
        if self.store.capabilities.transactions:
            return self.store.transaction(operations)[-1]
        return [self.store.transaction([operation])[0] for operation in operations][-1]

    def _cut(self, source: str, position: Position) -> Iterable[Put]:
        """The logs of the source's tables without what was first seen after the position."""
        for table in self.tables(source):
            key = _key(source, table)
            version, log = self._read(key)
            stays = tuple(e for e in log.versions if not _is_after(e, position))
            if len(stays) < len(log.entries):
                changed = replace(log, entries=tuple(entry.to_json() for entry in stays))
                yield Put(key=key, body=records.to_body(changed), expect=version)

    def _kind_of(self, checkpoints: CheckpointStore, name: str, version: int) -> type[Position]:
        found = self.store.get_version(checkpoint_key(name), version)
        kind = "" if found is None else str(json.loads(found.body).get("kind"))
        if kind not in KINDS:
            raise errors.LedgerError(what=f"version {version} of {name} is not kept, or holds no position")
        return KINDS[kind]

    def _read(self, key: str) -> tuple[int | None, _Log]:
        found = self.store.get(key)
        return (None, _Log()) if found is None else (found.version, records.from_body(found, _Log))

    def _check(self, source: str, table: str, rule: Rule, last: Entry | None, schema: Schema) -> None:
        why = [] if last is None else refusals(rule, last.schema, schema)
        if last is not None and why:
            fields = {"source": source, "table": table, "rule": rule.value, "version": last.version}
            raise errors.Incompatible(**fields, why="; ".join(why))


def refusals(rule: Rule, old: Schema, new: Schema) -> Sequence[str]:
    """Why the rule forbids the new schema after the old one; empty when it does not."""
    before, after = ({column.name: column for column in schema.columns} for schema in (old, new))
    told: list[str] = []
    if rule is not Rule.NONE and old.primary_key != new.primary_key:
        told.append(f"the key changes from {list(old.primary_key)} to {list(new.primary_key)}")
    if rule.is_backward:
        told += _unreadable(before, after, "old rows lack {name}, which is not null and has no default")
    if rule.is_forward:
        told += _unreadable(after, before, "new rows lack {name}, which old readers need")
    for name in before.keys() & after.keys():
        told += _changed(rule, before[name], after[name])
    return told


def _unreadable(rows: Mapping[str, Column], reader: Mapping[str, Column], why: str) -> list[str]:
    return [why.format(name=name) for name, column in reader.items() if name not in rows and not column.fills]


def _changed(rule: Rule, old: Column, new: Column) -> Iterable[str]:
    if rule.is_backward and not _reads(new.type, old.type):
        yield f"{old.name} was {old.type}, which cannot be read as {new.type}"
    if rule.is_forward and not _reads(old.type, new.type):
        yield f"{old.name} becomes {new.type}, which old readers cannot read as {old.type}"
    if rule.is_backward and old.nullable and not new.fills:
        yield f"{old.name} may be null in old rows"
    if rule.is_forward and new.nullable and not old.fills:
        yield f"{old.name} may be null in new rows"


def _reads(wide: str, narrow: str) -> bool:
    """Whether values of the narrow type can be read as the wide one."""
    return wide == narrow or any(_reads(wide, wider) for wider in _WIDER.get(narrow, ()))


def _is_after(entry: Entry, position: Position) -> bool:
    """Whether the version was first seen after the position."""
    if entry.position is None:
        return False
    order, why = entry.position.compare(position)
    if order is Order.NONE:
        raise errors.LedgerError(what=f"schema version {entry.version} cannot be placed: {why}")
    return order is Order.AFTER


def _key(source: str, table: str) -> str:
    return f"{_PREFIX}{source}/{table}"
