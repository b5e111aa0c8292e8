"""What changed between two versions of a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

NOTHING: Final = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A place in a document, as `sinks.lake.rows`, and what it held before and after."""

    place: str
    before: Any
    after: Any


def differences(before: Any, after: Any, place: str = "") -> Iterator[Difference]:
    """What differs between two values of JSON, in the order of the places; lists are compared whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            inside = f"{place}.{name}" if place else name
            yield from differences(before.get(name, NOTHING), after.get(name, NOTHING), inside)
    elif before != after:
        yield Difference(place=place, before=before, after=after)
