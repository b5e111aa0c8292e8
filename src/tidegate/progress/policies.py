"""Which deliveries make a checkpoint committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import reduce
from itertools import groupby
from operator import and_
from typing import assert_never

from tidegate.progress.ranges import EMPTY, Range, RangeSet
from tidegate.quick import dataclass


class PolicyName(Enum):
    """The policies, as a project names them."""

    ALL = "all"
    REQUIRED = "required"
    QUORUM = "quorum"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPolicy:
    """Whether all sinks, the required ones, or any `count` of them must have a checkpoint."""

    kind: PolicyName
    count: int | None = None

    def __post_init__(self) -> None:
        if (self.kind is PolicyName.QUORUM) != (self.count is not None):
            raise ValueError("a count of sinks belongs to quorum, and to no other policy")

    @classmethod
    def all(cls) -> CommitPolicy:
        """Every sink."""
        return cls(kind=PolicyName.ALL)

    @classmethod
    def required(cls) -> CommitPolicy:
        """Every sink that is required; the others may lag."""
        return cls(kind=PolicyName.REQUIRED)

    @classmethod
    def quorum(cls, count: int) -> CommitPolicy:
        """Any `count` of the sinks, required or not."""
        return cls(kind=PolicyName.QUORUM, count=count)

    @property
    def name(self) -> str:
        """As a project names it."""
        return self.kind.value

    def __str__(self) -> str:
        return self.name if self.count is None else f"{self.name}({self.count})"

    def problem(self, sinks: Mapping[str, bool]) -> str | None:
        """Why no checkpoint could ever, or would always, be committed with these sinks (name → required)."""
        if not sinks:
            return "has no sinks"
        if self.kind is PolicyName.REQUIRED and not any(sinks.values()):
            return "has the commit policy required, but none of its sinks is required"
        if self.count is not None and self.count < 1:
            return f"has a quorum of {self.count}; it must be at least 1"
        if self.count is not None and self.count > len(sinks):
            return f"has a quorum of {self.count}, but only {len(sinks)} {'sink' if len(sinks) == 1 else 'sinks'}"
        return None

    def committed(self, delivered: Mapping[str, RangeSet], required: Mapping[str, bool]) -> RangeSet:
        """The numbers that pass.

        The sinks that count are those of `required` (name → required); one that is not in `delivered` has
        delivered nothing. When no sink is asked for anything, nothing passes: agreement of nobody is none.
        """
        match self.kind:
            case PolicyName.ALL:
                return _in_all(delivered.get(name, EMPTY) for name in required)
            case PolicyName.REQUIRED:
                return _in_all(delivered.get(name, EMPTY) for name, is_required in required.items() if is_required)
            case PolicyName.QUORUM:
                return _in_any([delivered.get(name, EMPTY) for name in required], self.count or 0)
            case _:
                assert_never(self.kind)


def _in_all(sets: Iterable[RangeSet]) -> RangeSet:
    first, *others = [*sets] or [EMPTY]
    return reduce(and_, others, first)


def _in_any(sets: Iterable[RangeSet], count: int) -> RangeSet:
    """The numbers in at least `count` of the sets: a sweep over all their boundaries."""
    if count < 1:
        return EMPTY
    steps = sorted(step for one in sets for span in one for step in ((span.lo, 1), (span.hi, -1)))
    passing, depth, since = [], 0, 0
    for place, moves in groupby(steps, key=lambda step: step[0]):
        before, depth = depth, depth + sum(move for _, move in moves)
        if before < count <= depth:
            since = place
        elif depth < count <= before:
            passing.append(Range(since, place))
    return RangeSet(passing)
