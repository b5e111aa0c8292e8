"""How far a source may run ahead of those it must agree with: throttled beyond that, never idle by it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tidegate import errors
from tidegate.progress.groups import Group, check_kinds, distance_text
from tidegate.progress.watermarks import Watermark
from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Whether a source plans nothing for now, and whom it waits for.

    `ahead` is how far it is before the slowest other member of the group that throttles it, or of the one
    in which it is furthest ahead; None where nobody else has a watermark to compare with.
    """

    source: str
    is_throttled: bool
    group: str | None = None
    ahead: int | None = None
    waits_for: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How far the members of a group may drift apart, and the group."""

    group: Group
    max_drift: int

    def __post_init__(self) -> None:
        if self.max_drift < 0:
            raise ValueError(f"group {self.group.name} cannot have a drift below 0")


def bounds_of(groups: Iterable[Group]) -> tuple[Bound, ...]:
    """The bounds of the groups that set one."""
    return tuple(Bound(group=group, max_drift=group.max_drift) for group in groups if group.max_drift is not None)


def drift(
    source: str,
    bounds: Sequence[Bound],
    watermarks: Mapping[str, Watermark | None],
    *,
    idle: Collection[str] = (),
) -> Drift:
    """Whether the source is more than `max_drift` ahead of the slowest other member of one of its groups.

    A function of the watermarks alone: it resumes as soon as the others are within the drift. Members that
    are known to be idle are not waited for; one that never reported is, or the first to report would run
    away from it. The slowest of all is never throttled, so somebody always runs.

    :raises MixedKinds: timestamps and integers cannot be compared.
    """
    own = watermarks.get(source)
    found = Drift(source=source, is_throttled=False)
    if own is None:
        return found
    for bound in bounds:
        members = bound.group.sources
        if source not in members:
            continue
        others = {one: watermarks.get(one) for one in members if one != source and one not in idle}
        one = _within(source, own, bound, others)
        if one.is_throttled:
            return one
        if one.ahead is not None and (found.ahead is None or one.ahead > found.ahead):
            found = one
    return found


def drift_or_wait(
    source: str,
    bounds: Sequence[Bound],
    watermarks: Mapping[str, Watermark | None],
    *,
    idle: Collection[str] = (),
) -> Drift:
    """`drift`, where a source waits for whoever it cannot be compared with."""
    try:
        return drift(source, bounds, watermarks, idle=idle)
    except errors.MixedKinds as mixed:
        members = {one for bound in bounds if source in bound.group.sources for one in bound.group.sources}
        by = tuple(sorted(members - {source}))
        return Drift(source=source, is_throttled=True, waits_for=by, reason=mixed.message)


def _within(source: str, own: Watermark, bound: Bound, others: Mapping[str, Watermark | None]) -> Drift:
    group = bound.group.name
    missing = tuple(one for one, value in others.items() if value is None)
    if missing:
        reason = f"{source} waits for {missing[0]}, which has not reported a watermark yet in group {group}"
        return Drift(source=source, is_throttled=True, group=group, waits_for=missing, reason=reason)
    known = {one: value for one, value in others.items() if value is not None}
    if not known:
        return Drift(source=source, is_throttled=False, group=group)
    check_kinds(bound.group, {**known, source: own})
    low = min(known.values())
    ahead = own.minus(low)
    slow = tuple(one for one, value in known.items() if own.minus(value) > bound.max_drift)
    if not slow:
        return Drift(source=source, is_throttled=False, group=group, ahead=ahead)
    slowest = next(one for one, value in known.items() if value == low)
    allowed = distance_text(bound.max_drift, own.kind)
    reason = f"{source} is {distance_text(ahead, own.kind)} ahead of {slowest} in group {group} (at most {allowed})"
    return Drift(source=source, is_throttled=True, group=group, ahead=ahead, waits_for=slow, reason=reason)
