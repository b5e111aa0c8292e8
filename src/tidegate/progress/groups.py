"""Groups of sources that must agree, and whether they do. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from tidegate import errors
from tidegate.progress.durations import format_duration, parse_duration
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.quick import dataclass


class WhenStuck(Enum):
    """What happens to a group's tables while a member neither advances nor beats."""

    WARN = "warn"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """What every member must have reached: a fixed value, or a time before now. Exactly one is given."""

    value: Watermark | None = None
    now_minus_us: int | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.now_minus_us is None):
            raise ValueError("at_least is a value or a time before now")

    def floor(self, now_us: int) -> Watermark:
        """The value that it asks for at that moment."""
        return self.value if self.value is not None else Watermark.of_micros(now_us - (self.now_minus_us or 0))

    @property
    def text(self) -> str:
        """As it is written."""
        return self.value.text if self.value is not None else f"now - {format_duration(self.now_minus_us or 0)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far watermarks may be apart. `kind` is None for zero, which every kind of watermark knows."""

    amount: int
    kind: ValueKind | None


_WHOLE: Final = re.compile(r"[0-9][0-9_]*")


def parse_tolerance(text: str) -> Tolerance:
    """A duration for timestamps, a bare number for integers; `0` is for both. ValueError when it is neither."""
    is_whole = _WHOLE.fullmatch(text) is not None
    amount = int(text) if is_whole else parse_duration(text)
    kind = ValueKind.INTEGER if is_whole else ValueKind.TIMESTAMP
    return Tolerance(amount=amount, kind=kind if amount else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Sources that must agree. `tolerance` counts microseconds, or is a number for integer watermarks.

    `max_drift` counts the same: how far a member may run ahead of the others before it waits for them.
    """

    name: str
    sources: tuple[str, ...]
    tolerance: int = 0
    at_least: AtLeast | None = None
    bootstrap_open: bool = True
    stuck_after_us: int | None = None
    when_stuck: WhenStuck = WhenStuck.WARN
    max_drift: int | None = None
    ad_hoc: bool = False

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError(f"group {self.name} has no sources")
        if len(set(self.sources)) != len(self.sources):
            raise ValueError(f"group {self.name} names a source twice")
        if self.tolerance < 0:
            raise ValueError(f"group {self.name} cannot have a tolerance below 0")
        if self.max_drift is not None and self.max_drift < 0:
            raise ValueError(f"group {self.name} cannot have a drift below 0")

    def is_stuck(self, heard_us: int | None, now_us: int) -> bool:
        """Whether a member that was last heard of then is stuck; one that never spoke is not, it is missing."""
        return self.stuck_after_us is not None and heard_us is not None and now_us - heard_us > self.stuck_after_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """How far the members of a group are apart.

    `low` and `high` are over those that have reported, `lag` their distance once all have. `behind`
    are the members that are further behind the highest than the tolerance, the worst first, `below`
    those that have not reached the floor, `missing` those that never reported.
    """

    group: str
    aligned: bool
    tolerance: int
    low: Watermark | None = None
    high: Watermark | None = None
    lag: int | None = None
    lowest: str | None = None
    highest: str | None = None
    missing: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    floor: Watermark | None = None

    @property
    def blocked_by(self) -> tuple[str, ...]:
        """The members that are in the way."""
        return self.missing or self.behind or self.below

    @property
    def reason(self) -> str | None:
        """Why it is not aligned, as a sentence; None when it is."""
        if self.missing:
            return f"{_listed(self.missing)} not reported a watermark yet in group {self.group}"
        if self.behind and self.low is not None:
            lag = distance_text(self.lag or 0, self.low.kind)
            tolerance = distance_text(self.tolerance, self.low.kind)
            return f"{self.lowest} is {lag} behind {self.highest} in group {self.group} (tolerance {tolerance})"
        if self.below and self.low is not None and self.floor is not None:
            short = distance_text(self.floor.minus(self.low), self.low.kind)
            wanted = f"at least {self.floor.text}"
            return f"{self.lowest} is complete to {self.low.text}, {short} short of group {self.group} ({wanted})"
        return None


def alignment(
    group: Group, watermarks: Mapping[str, Watermark | None], now_us: int, tolerance: int | None = None
) -> Alignment:
    """Whether the members that `watermarks` names agree; those of the group that it leaves out do not count.

    :raises MixedKinds: timestamps and integers cannot be compared.
    """
    allowed = group.tolerance if tolerance is None else tolerance
    members = [source for source in group.sources if source in watermarks]
    known = {source: value for source in members if (value := watermarks[source]) is not None}
    missing = tuple(source for source in members if source not in known)
    floor = None if group.at_least is None else group.at_least.floor(now_us)
    if not known:
        return Alignment(group=group.name, aligned=not missing, tolerance=allowed, missing=missing, floor=floor)
    check_kinds(group, known, floor)
    ascending = sorted(known, key=lambda source: known[source].value)  # stable: in the order of the group
    lowest, highest = ascending[0], ascending[-1]
    low, high = known[lowest], known[highest]
    behind = tuple(source for source in ascending if high.minus(known[source]) > allowed)
    below = () if floor is None else tuple(source for source in ascending if known[source].value < floor.value)
    return Alignment(
        group=group.name,
        aligned=not (missing or behind or below),
        tolerance=allowed,
        low=low,
        high=high,
        lag=None if missing else high.minus(low),
        lowest=lowest,
        highest=highest,
        missing=missing,
        behind=behind,
        below=below,
        floor=floor,
    )


def check_kinds(group: Group, known: Mapping[str, Watermark], floor: Watermark | None = None) -> None:
    """Refuse timestamps and integers in one group."""
    kinds = {source: value.kind for source, value in known.items()}
    if floor is not None:
        kinds["at_least"] = floor.kind
    if len(set(kinds.values())) > 1:
        what = ", ".join(f"{source}: {kind.value}" for source, kind in kinds.items())
        raise errors.MixedKinds(where=f"group {group.name}", what=what)


def distance_text(distance: int, kind: ValueKind) -> str:
    """A distance between two watermarks: `10m`, or a plain number for integers."""
    return str(distance) if kind is ValueKind.INTEGER else format_duration(distance)


def _listed(names: tuple[str, ...]) -> str:
    head = ", ".join(names[:-1])
    return f"{head} and {names[-1]} have" if head else f"{names[-1]} has"
