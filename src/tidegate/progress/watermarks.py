"""Watermark values: "complete through W", a time or an integer, and what a version of a table contains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Final

from tidegate import errors
from tidegate.clock import from_micros, to_micros
from tidegate.quick import dataclass


class ValueKind(Enum):
    """What a watermark counts in."""

    TIMESTAMP = "timestamp"
    INTEGER = "integer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Everything up to and including this value is there.

    A timestamp is kept as microseconds since 1970 in UTC. Values of different kinds are unequal,
    and to order them is an error.
    """

    kind: ValueKind
    value: int

    def __post_init__(self) -> None:
        if type(self.value) is not int:
            raise ValueError(f"a watermark is a whole number inside, not {self.value!r}")

    @classmethod
    def of_micros(cls, micros: int) -> Watermark:
        """The time so many microseconds after 1970 in UTC."""
        return cls(kind=ValueKind.TIMESTAMP, value=micros)

    @classmethod
    def of_integer(cls, value: int) -> Watermark:
        """A plain number."""
        return cls(kind=ValueKind.INTEGER, value=value)

    @classmethod
    def from_json(cls, document: Mapping[str, int]) -> Watermark:
        """The watermark that `to_json` wrote."""
        if len(document) != 1:
            raise ValueError(f"a watermark is one value of one kind, not {dict(document)}")
        [(kind, value)] = document.items()
        return cls(kind=ValueKind(kind), value=value)

    def to_json(self) -> dict[str, int]:
        """`{"timestamp": micros}` or `{"integer": n}`."""
        return {self.kind.value: self.value}

    @property
    def text(self) -> str:
        """As people write it; `parse_watermark` reads it."""
        return format_micros(self.value) if self.kind is ValueKind.TIMESTAMP else str(self.value)

    def __str__(self) -> str:
        return self.text

    def minus(self, other: Watermark) -> int:
        """How far it is ahead of the other: microseconds, or plain numbers."""
        return self.value - self._peer(other)

    def __lt__(self, other: Watermark) -> bool:
        return self.value < self._peer(other)

    def __le__(self, other: Watermark) -> bool:
        return self.value <= self._peer(other)

    def __gt__(self, other: Watermark) -> bool:
        return self.value > self._peer(other)

    def __ge__(self, other: Watermark) -> bool:
        return self.value >= self._peer(other)

    def _peer(self, other: Watermark) -> int:
        if self.kind is not other.kind:
            raise errors.MixedKinds(where="a comparison", what=f"{self.text} and {other.text}")
        return other.value


class Vector(Mapping[str, Watermark]):
    """What a version of a table contains: root source → the watermark it is complete through."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Watermark] | Iterable[tuple[str, Watermark]] = ()) -> None:
        self._values = dict(sorted(dict(values).items()))

    @classmethod
    def from_json(cls, document: Mapping[str, Mapping[str, int]]) -> Vector:
        """The vector that `to_json` wrote."""
        return cls({source: Watermark.from_json(value) for source, value in document.items()})

    def to_json(self) -> dict[str, dict[str, int]]:
        """Each source with its watermark, sorted by name."""
        return {source: value.to_json() for source, value in self._values.items()}

    def merged(self, other: Mapping[str, Watermark]) -> Vector:
        """What a query over both contains: every source, and the lower value of one that is in both."""
        both = {name: min(value, other[name]) for name, value in self._values.items() if name in other}
        return Vector({**self._values, **other, **both})

    def __getitem__(self, source: str) -> Watermark:
        return self._values[source]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Vector({', '.join(f'{source}={value}' for source, value in self._values.items())})"


# The Gregorian calendar repeats after so many days.
_CYCLE_US: Final = 146_097 * 86_400_000_000


def format_micros(micros: int) -> str:
    """`2026-03-01T12:05:00Z`, with a fraction only where there is one.

    Every number has a text: rows carry sentinels such as year 1, from which a lateness is still subtracted.
    """
    cycles, within = divmod(micros, _CYCLE_US)
    moment = from_micros(within)
    year = moment.year + 400 * cycles
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{year:{'04d' if 0 <= year <= 9999 else '+05d'}}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def parse_watermark(text: str, kind: ValueKind | None = None) -> Watermark:
    """The value that a person or loader typed; without a kind, digits are an integer and the rest is a time.

    A time needs a zone. What is refused is refused with the spelling that works.
    """
    written = text.strip()
    is_integer = _INTEGER.fullmatch(written) is not None
    if kind is ValueKind.INTEGER and not is_integer:
        raise ValueError(f"{text!r} is not an integer; write it like 1200")
    if is_integer and kind is not ValueKind.TIMESTAMP:
        return Watermark.of_integer(int(written))
    return Watermark.of_micros(_parse_time(written))


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<minute>[0-9]{2}:[0-9]{2})(?P<second>:[0-9]{2})?"
    r"(?:[.,](?P<fraction>[0-9]+))?(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_EXAMPLE: Final = "2026-03-01T12:05:00Z"


def _parse_time(written: str) -> int:
    if _DATE.fullmatch(written):
        raise ValueError(f"{written!r} is a date without a time and a zone; write {written}T00:00:00Z")
    match = _TIME.fullmatch(written)
    if match is None or (match["fraction"] and not match["second"]):
        raise ValueError(f"{written!r} is not a time; write it like {_EXAMPLE}")
    fraction = f".{match['fraction']}" if match["fraction"] else ""
    clean = f"{match['date']}T{match['minute']}{match['second'] or ':00'}{fraction}"
    if match["zone"] is None:
        raise ValueError(f"{written!r} has no time zone; write {clean}Z, or an offset such as {clean}+02:00")
    if len(fraction.rstrip("0")) > 7:
        raise ValueError(f"{written!r} is finer than a microsecond; write {clean[: clean.index('.') + 7]}Z")
    try:
        return to_micros(datetime.fromisoformat(clean[:26] + match["zone"].upper()))
    except ValueError as cause:
        raise ValueError(f"{written!r} is not a time ({cause}); write it like {_EXAMPLE}") from cause
