"""Where a reader of a source stands, for each kind of source: frozen values that can be compared.

Two positions of one source need not have an order: `compare` then says why, and nobody may guess.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple, Self, TypeVar

from tidegate.ledger.records import Record


class Order(Enum):
    """How one position stands to another."""

    BEFORE = "before"
    SAME = "same"
    AFTER = "after"
    NONE = "none"  #: neither is before the other


class Comparison(NamedTuple):
    """An order, and why there is none where there is none."""

    order: Order
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(Record):
    """Where a reader stands. What is before it was read."""

    def compare(self, other: Position) -> Comparison:
        """How this position stands to the other one."""
        if not isinstance(other, type(self)):
            return Comparison(Order.NONE, f"a position of {self.KIND} has no order with one of {other.KIND}")
        return self._compare(other)

    @abstractmethod
    def _compare(self, other: Self) -> Comparison:
        """The same for two positions of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedCheckpoint(Position):
    """The next number of a source that numbers its own checkpoints, and of one that makes its own rows."""

    KIND: ClassVar[str] = "numbered"

    number: int

    def __post_init__(self) -> None:
        _check_natural(number=self.number)

    def _compare(self, other: Self) -> Comparison:
        return _of(self.number, other.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsCheckpoint(Position):
    """The next position in each part: offsets of Kafka partitions, file numbers of a landing folder.

    Only a position that is at least as far in every part is after another one. A part that is missing
    was not read yet.
    """

    KIND: ClassVar[str] = "parts"

    parts: Mapping[str, int]

    def __post_init__(self) -> None:
        _check_natural(**{f"part {name}": position for name, position in self.parts.items()})

    def _compare(self, other: Self) -> Comparison:
        ahead = [name for name in self.parts if self.parts[name] > other.parts.get(name, 0)]
        behind = [name for name in other.parts if other.parts[name] > self.parts.get(name, 0)]
        if ahead and behind:
            return Comparison(Order.NONE, f"it is ahead in part {min(ahead)} and behind in part {min(behind)}")
        return _of(bool(ahead), bool(behind))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCheckpoint(Position):
    """The next version of a Delta table. Versions of two tables (another id) have no order."""

    KIND: ClassVar[str] = "delta"

    table_id: str
    version: int

    def __post_init__(self) -> None:
        _check_natural(version=self.version)

    def _compare(self, other: Self) -> Comparison:
        if self.table_id != other.table_id:
            return Comparison(Order.NONE, f"table {self.table_id} is not table {other.table_id}: it was made anew")
        return _of(self.version, other.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresCheckpoint(Position):
    """A place in the write-ahead log of one Postgres cluster, `16/B374D848`. A promoted copy is another timeline."""

    KIND: ClassVar[str] = "postgres"

    lsn: str
    system_id: str | None = None
    timeline: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}", self.lsn):
            raise ValueError(f"{self.lsn!r} is no place in a write-ahead log; write it as 16/B374D848")

    @property
    def number(self) -> int:
        high, low = (int(half, 16) for half in self.lsn.split("/"))
        return high << 32 | low

    def _compare(self, other: Self) -> Comparison:
        if _differ(self.system_id, other.system_id):
            return Comparison(Order.NONE, f"server {self.system_id} is not server {other.system_id}")
        if _differ(self.timeline, other.timeline):
            return Comparison(Order.NONE, f"timeline {self.timeline} parted from timeline {other.timeline}")
        return _of(self.number, other.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlCheckpoint(Position):
    """A place in the binary log of MySQL or MariaDB. Where both know their sets of transactions, those decide.

    Files and places are those of one server; sets are the same on its replicas.
    """

    KIND: ClassVar[str] = "mysql"

    file: str
    pos: int
    gtid_set: str | None = None

    def __post_init__(self) -> None:
        _check_natural(pos=self.pos)
        if not re.fullmatch(r".+\.\d+", self.file):
            raise ValueError(f"{self.file!r} is no file of a binary log; write it as binlog.000042")
        if self.gtid_set is not None:
            _transactions(self.gtid_set)

    def _compare(self, other: Self) -> Comparison:
        if self.gtid_set is not None and other.gtid_set is not None:
            return _of_sets(_transactions(self.gtid_set), _transactions(other.gtid_set))
        (name, number), (their_name, their_number) = (one.file.rsplit(".", 1) for one in (self, other))
        if name != their_name:
            return Comparison(Order.NONE, f"{self.file} and {other.file} are of two logs, and not both have a GTID set")
        return _of((int(number), self.pos), (int(their_number), other.pos))


KINDS: Mapping[str, type[Position]] = {
    kind.KIND: kind
    for kind in (NumberedCheckpoint, PartsCheckpoint, DeltaCheckpoint, PostgresCheckpoint, MySqlCheckpoint)
}

_Comparable = TypeVar("_Comparable", int, tuple[int, int])
_Spans = dict[str, list[tuple[int, int]]]


def _transactions(text: str) -> _Spans:
    """A set of transactions by server: `uuid:1-5:7,uuid:1-3`, ends inclusive."""
    found: _Spans = {}
    for piece in "".join(text.split()).split(","):
        server, *spans = piece.split(":")
        if not server or not all(re.fullmatch(r"\d+(-\d+)?", span) for span in spans or [""]):
            raise ValueError(f"{piece!r} is no set of transactions; write it as SERVER:1-5:7")
        ends = [span.partition("-") for span in spans]
        found.setdefault(server.lower(), []).extend((int(low), int(high or low)) for low, _, high in ends)
    return {server: _joined(spans) for server, spans in found.items()}


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _of_sets(ours: _Spans, theirs: _Spans) -> Comparison:
    covers, is_covered = _covers(ours, theirs), _covers(theirs, ours)
    if not covers and not is_covered:
        return Comparison(Order.NONE, "each has transactions that the other one lacks: the servers parted")
    return _of(covers, is_covered)


def _covers(outer: _Spans, inner: _Spans) -> bool:
    return all(
        any(low <= start and end <= high for low, high in outer.get(server, ()))
        for server, spans in inner.items()
        for start, end in spans
    )


def _of(ours: _Comparable, theirs: _Comparable) -> Comparison:
    if ours == theirs:
        return Comparison(Order.SAME)
    return Comparison(Order.BEFORE if ours < theirs else Order.AFTER)


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _check_natural(**numbers: int) -> None:
    for name, number in numbers.items():
        if type(number) is not int or number < 0:  # True is an int, too, and 1.5 may come from outside
            raise ValueError(f"{name} is {number!r}, and must be a whole number from 0 on")
