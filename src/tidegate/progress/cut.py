"""The cut rule: which versions of its inputs a table may be computed from together. Pure.

A choice of one version for each input is feasible when the vectors chosen agree: the members of
every overlapped group within its tolerance, and inputs that share a root source on that source.
Versions and vectors rise together, so the greatest feasible choice is found by starting at the
newest versions and lowering whoever is too far ahead, until nobody is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum

from tidegate.progress.groups import Group, alignment, distance_text
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.quick import dataclass


class Mode(Enum):
    """How a table treats the groups of its sources."""

    NONE = "none"
    GATE = "gate"
    HOLD_BACK = "hold_back"


class Standing(Enum):
    """Whether a table may be refreshed: from the newest versions, from an older feasible cut, or not."""

    OPEN = "open"
    CAPPED = "capped"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A version of an input that could be read.

    `holds_more` says that rows beyond the vector may be in it, because it came after a version
    with the same one: hold_back does not read it.
    """

    version: int
    vector: Vector = field(default_factory=Vector)
    holds_more: bool = False
    at_us: int = 0
    reader_lo: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why an input cannot be judged or read. It closes the gate."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """What there is of an input: its root sources, and its versions from the table's frontier on, ascending."""

    name: str
    roots: frozenset[str]
    choices: tuple[Choice, ...] = ()
    problem: Problem | None = None

    @property
    def newest(self) -> Choice | None:
        """The version that everybody else reads now."""
        return self.choices[-1] if self.choices else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a table may be refreshed now, from which versions, and if not so, who is in the way.

    A capped table is refreshed from `cut` too; its reason tells why that is not the newest.
    """

    standing: Standing
    cut: Mapping[str, Choice] = field(default_factory=dict)
    vector: Vector = field(default_factory=Vector)
    effective: Mapping[str, Watermark] = field(default_factory=dict)
    ungated: tuple[str, ...] = ()
    reason: str | None = None
    blocked_by: tuple[str, ...] = ()
    code: str | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be refreshed."""
        return self.standing is Standing.CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a choice is not feasible, and who is in the way."""

    reason: str
    by: tuple[str, ...]


NOT_PUBLISHED = "TG-N002"


def decide(
    mode: Mode,
    inputs: Sequence[InputState],
    groups: Sequence[Group],
    *,
    now_us: int,
    tolerance: int | None = None,
    in_use: frozenset[str] = frozenset(),
) -> Verdict:
    """The verdict over the versions that would be read.

    `in_use` are the groups under which the table was refreshed before: in those a member that never
    reported is waited for, in others `bootstrap: open` lets the table run ungated.

    :raises MixedKinds: a group compares timestamps with integers.
    """
    for one in inputs:
        if one.problem is not None:
            return _closed(Blocked(reason=one.problem.text, by=(one.name,)), one.problem.code)
    unpublished = tuple(one.name for one in inputs if one.newest is None)
    if unpublished:
        reason = f"{' and '.join(unpublished)} {'has' if len(unpublished) == 1 else 'have'} nothing published yet"
        return _closed(Blocked(reason=reason, by=unpublished), NOT_PUBLISHED)
    newest = {one.name: one.newest for one in inputs if one.newest is not None}
    overlapped = overlapping(groups, inputs)
    if mode is Mode.NONE:
        return _verdict(Standing.OPEN, newest, inputs, overlapped)
    open_groups = tuple(g.name for g in overlapped if _may_run_ungated(g, inputs, newest, in_use))
    judged = [g for g in overlapped if g.name not in open_groups]
    rule = _Rule(inputs=inputs, groups=judged, now_us=now_us, tolerance=tolerance)
    blocked = rule.blocked(newest)
    if mode is Mode.GATE:
        if blocked is not None:
            return _closed(blocked)
        return _verdict(Standing.OPEN, newest, inputs, overlapped, ungated=open_groups)
    found = rule.greatest()
    if found is None:
        return _closed(blocked or _holds_more(newest))
    if found == newest:
        return _verdict(Standing.OPEN, found, inputs, overlapped, ungated=open_groups)
    why = blocked or _holds_more(newest)
    return _verdict(Standing.CAPPED, found, inputs, overlapped, ungated=open_groups, why=why)


def overlapping(groups: Sequence[Group], inputs: Sequence[InputState]) -> list[Group]:
    """The groups that have a root source of the inputs as a member."""
    roots = frozenset().union(*(one.roots for one in inputs)) if inputs else frozenset()
    return [group for group in groups if roots & set(group.sources)]


def merged(inputs: Sequence[InputState], chosen: Mapping[str, Choice]) -> Vector:
    """What a query over the chosen versions contains.

    A root in several inputs counts as the lowest; one that an input which stems from it does not
    speak of is unknown.
    """
    known: dict[str, Watermark] = {}
    unknown: set[str] = set()
    for one in inputs:
        vector = chosen[one.name].vector
        for root in one.roots:
            value = vector.get(root)
            if value is None:
                unknown.add(root)
            else:
                known[root] = min(known[root], value) if root in known else value
    return Vector({root: value for root, value in known.items() if root not in unknown})


def effective(
    groups: Sequence[Group], inputs: Sequence[InputState], chosen: Mapping[str, Choice]
) -> dict[str, Watermark]:
    """Per group, the external time that contents made from the choice are complete through."""
    vector = merged(inputs, chosen)
    roots = frozenset().union(*(one.roots for one in inputs)) if inputs else frozenset()
    found: dict[str, Watermark] = {}
    for group in groups:
        members = [source for source in group.sources if source in roots]
        values = [vector[source] for source in members if source in vector]
        if values and len(values) == len(members):
            found[group.name] = min(values)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    inputs: Sequence[InputState]
    groups: Sequence[Group]
    now_us: int
    tolerance: int | None

    def blocked(self, chosen: Mapping[str, Choice]) -> Blocked | None:
        """Why the choice is not feasible; None when it is."""
        return self._disagreement(chosen) or self._misalignment(chosen)

    def greatest(self) -> dict[str, Choice] | None:
        """The one greatest feasible choice; None when there is none."""
        ladders = {one.name: [c for c in one.choices if not c.holds_more] for one in self.inputs}
        while all(ladders.values()):
            top = {name: ladder[-1] for name, ladder in ladders.items()}
            offenders = {name for tie in self._ties() for name in tie.offenders(top)}
            if not offenders:
                return None if self.blocked(top) else top
            for name in offenders:
                ladders[name].pop()
        return None

    def _ties(self) -> Iterator[_Tie]:
        for root, names in self._shared():
            yield _Tie(members=tuple((name, root) for name in names), tolerance=0)
        for group in self.groups:
            members = tuple((one.name, root) for one in self.inputs for root in group.sources if root in one.roots)
            yield _Tie(members=members, tolerance=group.tolerance if self.tolerance is None else self.tolerance)

    def _shared(self) -> list[tuple[str, list[str]]]:
        roots = sorted(frozenset().union(*(one.roots for one in self.inputs)))
        named = [(root, [one.name for one in self.inputs if root in one.roots]) for root in roots]
        return [(root, names) for root, names in named if len(names) > 1]

    def _disagreement(self, chosen: Mapping[str, Choice]) -> Blocked | None:
        for root, names in self._shared():
            values = {name: chosen[name].vector.get(root) for name in names}
            if len(set(values.values())) > 1:
                return Blocked(reason=_disagreement_text(root, values), by=(root,))
        return None

    def _misalignment(self, chosen: Mapping[str, Choice]) -> Blocked | None:
        found = []
        for group in self.groups:
            judged = alignment(group, _lowest_of(group, self.inputs, chosen), self.now_us, self.tolerance)
            if judged.reason is not None:
                found.append(judged)
        if not found or found[0].reason is None:
            return None
        return Blocked(reason=found[0].reason, by=tuple(dict.fromkeys(s for one in found for s in one.blocked_by)))


@dataclass(frozen=True, slots=True)
class _Tie:
    """Roots of inputs that must not be further apart than the tolerance."""

    members: tuple[tuple[str, str], ...]
    tolerance: int

    def offenders(self, top: Mapping[str, Choice]) -> set[str]:
        """The inputs that are too far ahead: no feasible choice below has them so high."""
        values = [(name, top[name].vector.get(root)) for name, root in self.members]
        known = [value for _, value in values if value is not None]
        if not known:
            return set()
        if len(known) < len(values):  # nothing was said of a root there, so nothing may be said of it elsewhere
            return {name for name, value in values if value is not None}
        low = min(known)
        return {name for name, value in values if value is not None and value.minus(low) > self.tolerance}


def _lowest_of(group: Group, inputs: Sequence[InputState], chosen: Mapping[str, Choice]) -> dict[str, Watermark | None]:
    vector = merged(inputs, chosen)
    roots = frozenset().union(*(one.roots for one in inputs))
    return {source: vector.get(source) for source in group.sources if source in roots}


def _may_run_ungated(
    group: Group, inputs: Sequence[InputState], newest: Mapping[str, Choice], in_use: frozenset[str]
) -> bool:
    missing = any(value is None for value in _lowest_of(group, inputs, newest).values())
    return missing and group.bootstrap_open and group.name not in in_use


def _disagreement_text(root: str, values: Mapping[str, Watermark | None]) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    ahead = max(known, key=lambda name: known[name].value)
    unknown = [name for name in values if name not in known]
    if unknown:
        return f"{unknown[0]} says nothing of {root} yet, {ahead} has it to {known[ahead].text}"
    behind = min(known, key=lambda name: known[name].value)
    lag = distance_text(known[ahead].minus(known[behind]), known[ahead].kind)
    return f"{behind} has {root} to {known[behind].text}, {lag} behind {ahead}"


def _holds_more(newest: Mapping[str, Choice]) -> Blocked:
    """Why versions that agree are not read: there are rows in them that no watermark speaks of yet."""
    names = [name for name, choice in newest.items() if choice.holds_more]
    said = [f"{root} {value.text}" for name in names for root, value in newest[name].vector.items()]
    roots = tuple(dict.fromkeys(root for name in names for root in newest[name].vector))
    if not names:
        return Blocked(reason="no versions agree that are as new as what the table shows", by=tuple(newest))
    return Blocked(reason=f"{' and '.join(names)} may have rows beyond the watermark ({', '.join(said)})", by=roots)


def _closed(blocked: Blocked, code: str | None = None) -> Verdict:
    return Verdict(standing=Standing.CLOSED, reason=blocked.reason, blocked_by=blocked.by, code=code)


def _verdict(
    standing: Standing,
    chosen: Mapping[str, Choice],
    inputs: Sequence[InputState],
    groups: Sequence[Group],
    *,
    ungated: tuple[str, ...] = (),
    why: Blocked | None = None,
) -> Verdict:
    return Verdict(
        standing=standing,
        cut=dict(chosen),
        vector=merged(inputs, chosen),
        effective=effective(groups, inputs, chosen),
        ungated=ungated,
        reason=None if why is None else why.reason,
        blocked_by=() if why is None else why.by,
    )
