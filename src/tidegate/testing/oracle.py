"""The oracle of ids: what a sink must hold, against what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is wrong with the ids of a sink; each tuple ascends. Nothing in any of them: nothing is wrong."""

    missing: tuple[Hashable, ...] = ()
    twice: tuple[Hashable, ...] = ()
    unexpected: tuple[Hashable, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether each id is there, once, and no other."""
        return not (self.missing or self.twice or self.unexpected)

    def __str__(self) -> str:
        said = [f"{len(ids)} {name}: {_some(ids)}" for name, ids in self._named() if ids]
        return "; ".join(said) or "every id once, and no other"

    def _named(self) -> tuple[tuple[str, tuple[Hashable, ...]], ...]:
        return ("missing", self.missing), ("twice", self.twice), ("unexpected", self.unexpected)


def judge(expected: Iterable[Hashable], found: Iterable[Hashable]) -> Findings:
    """What is wrong with `found`, where each of `expected` should be exactly once.

    An id that was expected twice must be there twice.
    """
    wanted, held = Counter(expected), Counter(found)
    return Findings(
        missing=_sorted(wanted - held),
        twice=_sorted(Counter({one: count for one, count in (held - wanted).items() if one in wanted})),
        unexpected=_sorted(Counter({one: count for one, count in held.items() if one not in wanted})),
    )


def judge_sinks(expected: Iterable[Hashable], sinks: Mapping[str, Iterable[Hashable]]) -> dict[str, Findings]:
    """What is wrong, for each sink where something is."""
    wanted = tuple(expected)
    judged = {name: judge(wanted, found) for name, found in sinks.items()}
    return {name: findings for name, findings in judged.items() if not findings.is_clean}


def _sorted(ids: Counter[Hashable]) -> tuple[Hashable, ...]:
    try:
        return tuple(sorted(ids))  # type: ignore[type-var]  # mixed ids are sorted by their text
    except TypeError:
        return tuple(sorted(ids, key=repr))


def _some(ids: tuple[Hashable, ...]) -> str:
    shown = ", ".join(map(str, ids[:_SHOWN]))
    return shown if len(ids) <= _SHOWN else f"{shown}, and {len(ids) - _SHOWN} more"
