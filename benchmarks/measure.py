"""One figure of a benchmark, and how to take it fairly on a noisy machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A named value with its target; `raw` holds every single figure it was made from."""

    name: str
    value: float
    unit: str
    target: float
    #: Whether the value must be at most or at least the target.
    at_most: bool = True
    raw: Mapping[str, Sequence[float]] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "at_most": self.at_most,
            "met": self.met,
            "note": self.note,
            "raw": {key: list(values) for key, values in self.raw.items()},
        }


def interleaved(rounds: int, warmups: int, **sides: Callable[[], float | None]) -> dict[str, list[float]]:
    """Run the sides in turn, each round in the other order, and give what each returned.

    A side returns its own figure, or nothing: then its wall-clock seconds count.
    """
    raw: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warmups + rounds):
        names = list(sides) if number % 2 == 0 else list(reversed(sides))
        for name in names:
            began = time.perf_counter()
            figure = sides[name]()
            elapsed = time.perf_counter() - began
            if number >= warmups:
                raw[name].append(elapsed if figure is None else figure)
    return raw


def median_ratio(raw: Mapping[str, Sequence[float]], over: str, under: str) -> float:
    """The median of the ratios of the pairs: what the machine did in a round hits both."""
    return statistics.median(a / b for a, b in zip(raw[over], raw[under], strict=True))
