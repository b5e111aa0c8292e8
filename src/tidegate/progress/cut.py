"""The cut rule: which versions of its inputs a table may be computed from together. Pure.

A choice of one version for each input is feasible when the vectors chosen agree: the members of
every overlapped group within its tolerance, and inputs that share a root source on that source.
Versions and vectors rise together, so the greatest feasible choice is found by starting at the
newest versions and lowering whoever is too far ahead, until nobody is. An input by position is
lowered to an older version; one by row stays at its newest and is read up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from itertools import pairwise

from tidegate import errors
from tidegate.progress.durations import format_duration
from tidegate.progress.groups import Alignment, Group, WhenStuck, alignment, distance_text
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
    with the same one: hold_back does not read it, except by row. `bound`: of this version only the
    rows up to and including that value are read; None for all.
    """

    version: int
    vector: Vector = field(default_factory=Vector)
    holds_more: bool = False
    at_us: int = 0
    reader_lo: int | None = None
    bound: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why an input cannot be judged or read. It closes the gate."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """What there is of an input: its root sources, and its versions from the table's frontier on, ascending.

    `by_row`: the event-time column of its one root reaches the table unchanged, so that any version can
    be read up to a bound. `shown` is the bound that the table shows now; a cut does not go below it.
    """

    name: str
    roots: frozenset[str]
    choices: tuple[Choice, ...] = ()
    problem: Problem | None = None
    by_row: bool = False
    shown: Watermark | None = None

    def __post_init__(self) -> None:
        if self.by_row and len(self.roots) != 1:
            raise ValueError(f"input {self.name} has {len(self.roots)} root sources; by row it has one event time")

    @property
    def newest(self) -> Choice | None:
        """The version that everybody else reads now."""
        return self.choices[-1] if self.choices else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a table may be refreshed now, from which versions, and if not so, who is in the way.

    A capped table is refreshed from `cut` too; its reason tells why that is not the newest. `since_us`: since
    when the first of `blocked_by` stands where it stands, as far as the versions tell. `stuck` are the
    sources of its groups that have been silent for too long, whether that pauses the table or not.
    """

    standing: Standing
    cut: Mapping[str, Choice] = field(default_factory=dict)
    vector: Vector = field(default_factory=Vector)
    effective: Mapping[str, Watermark] = field(default_factory=dict)
    ungated: tuple[str, ...] = ()
    reason: str | None = None
    blocked_by: tuple[str, ...] = ()
    code: str | None = None
    since_us: int | None = None
    stuck: tuple[str, ...] = ()

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be refreshed."""
        return self.standing is Standing.CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a choice is not feasible, and who is in the way."""

    code: str
    reason: str
    by: tuple[str, ...]
    since_us: int | None = None


NOT_PUBLISHED = "TG-N002"  #: an input has nothing that could be read
APART = "TG-N003"  #: a group of sources does not agree, or is below its floor
NOT_REPORTED = "TG-N004"  #: a member of a group never said anything
INPUTS_APART = "TG-N005"  #: two inputs have the same source to different watermarks
NOTHING_NEWER = "TG-N006"  #: no versions agree that are as new as what the table shows
BEYOND = "TG-N007"  #: rows may be there that no watermark speaks of yet
INCONSISTENT = "TG-N008"  #: what is told of an input contradicts itself
STUCK = "TG-T005"  #: a source has said nothing for too long, and its group pauses


def decide(
    mode: Mode,
    inputs: Sequence[InputState],
    groups: Sequence[Group],
    *,
    now_us: int,
    tolerance: int | None = None,
    in_use: frozenset[str] = frozenset(),
    heard_us: Mapping[str, int | None] | None = None,
) -> Verdict:
    """The verdict over the versions that would be read. It never raises: what contradicts itself closes.

    `in_use` are the groups under which the table was refreshed before: in those a member that never
    reported is waited for, in others `bootstrap: open` lets the table run ungated. `heard_us` is when each
    source was last heard of; one that is not in it cannot be stuck.
    """
    try:
        verdict = _decided(mode, inputs, groups, now_us, tolerance, in_use)
    except errors.WatermarkError as wrong:
        return Verdict(standing=Standing.CLOSED, reason=wrong.message, code=wrong.code)
    if mode is Mode.NONE or not heard_us:
        return verdict
    return _with_stuck(verdict, overlapping(groups, inputs), inputs, heard_us, now_us)


def _decided(
    mode: Mode,
    inputs: Sequence[InputState],
    groups: Sequence[Group],
    now_us: int,
    tolerance: int | None,
    in_use: frozenset[str],
) -> Verdict:
    for one in inputs:
        if one.problem is not None:
            return _closed(Blocked(code=one.problem.code, reason=one.problem.text, by=(one.name,)))
    inconsistency = _inconsistency(inputs)
    if inconsistency is not None:
        return _closed(inconsistency)
    unpublished = tuple(one.name for one in inputs if one.newest is None)
    if unpublished:
        reason = f"{' and '.join(unpublished)} {'has' if len(unpublished) == 1 else 'have'} nothing published yet"
        return _closed(Blocked(code=NOT_PUBLISHED, reason=reason, by=unpublished))
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


def is_consistent(one: InputState) -> bool:
    """Whether what is told of an input does not contradict itself."""
    return _contradiction(one) is None


def _inconsistency(inputs: Sequence[InputState]) -> Blocked | None:
    """What cannot be, whoever told it: a choice made from it would mean nothing."""
    names = [one.name for one in inputs]
    for one in inputs:
        what = "is named twice" if names.count(one.name) > 1 else _contradiction(one)
        if what is not None:
            return Blocked(code=INCONSISTENT, reason=f"{one.name} {what}", by=(one.name,))
    return None


def _contradiction(one: InputState) -> str | None:
    if any(later.version <= earlier.version for earlier, later in pairwise(one.choices)):
        return "has versions that do not ascend"
    foreign = sorted({root for choice in one.choices for root in choice.vector if root not in one.roots})
    return f"speaks of {foreign[0]}, which it does not stem from" if foreign else None


def _with_stuck(
    verdict: Verdict,
    groups: Sequence[Group],
    inputs: Sequence[InputState],
    heard_us: Mapping[str, int | None],
    now_us: int,
) -> Verdict:
    """The verdict that names who is stuck and, where a group pauses for that, is closed by it."""
    roots = _roots(inputs)
    silent = {
        group: tuple(s for s in group.sources if s in roots and group.is_stuck(heard_us.get(s), now_us))
        for group in groups
    }
    stuck = tuple(dict.fromkeys(source for sources in silent.values() for source in sources))
    pausing = next((group for group in groups if silent[group] and group.when_stuck is WhenStuck.PAUSE), None)
    if pausing is None or verdict.is_closed:
        return replace(verdict, stuck=stuck) if stuck else verdict
    by = silent[pausing]
    since_us = heard_us.get(by[0]) or 0
    silence_us = now_us - since_us
    reason = (
        f"{by[0]} has said nothing for {format_duration(silence_us - silence_us % 1_000_000)}, and group "
        f"{pausing.name} pauses after {format_duration(pausing.stuck_after_us or 0)}"
    )
    return Verdict(standing=Standing.CLOSED, reason=reason, blocked_by=by, code=STUCK, since_us=since_us, stuck=stuck)


def overlapping(groups: Sequence[Group], inputs: Sequence[InputState]) -> list[Group]:
    """The groups that have a root source of the inputs as a member."""
    roots = _roots(inputs)
    return [group for group in groups if roots & set(group.sources)]


def _roots(inputs: Sequence[InputState]) -> frozenset[str]:
    return frozenset().union(*(one.roots for one in inputs))


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
    roots = _roots(inputs)
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
        ladders = {one.name: _ladder(one) for one in self.inputs}
        while all(ladders.values()):
            top = {name: ladder[-1] for name, ladder in ladders.items()}
            lower = {name: bound for tie in self._ties() for name, bound in tie.offenders(top)}
            if not lower:
                return None if self.blocked(top) else top
            for one in self.inputs:
                if one.name in lower:
                    _descend(ladders[one.name], one, lower[one.name])
        return None

    def _ties(self) -> Iterator[_Tie]:
        for root, names in self._shared():
            yield _Tie(members=tuple((name, root) for name in names), tolerance=0)
        for group in self.groups:
            members = tuple((one.name, root) for one in self.inputs for root in group.sources if root in one.roots)
            yield _Tie(members=members, tolerance=group.tolerance if self.tolerance is None else self.tolerance)

    def _shared(self) -> list[tuple[str, list[str]]]:
        roots = sorted(_roots(self.inputs))
        named = [(root, [one.name for one in self.inputs if root in one.roots]) for root in roots]
        return [(root, names) for root, names in named if len(names) > 1]

    def _disagreement(self, chosen: Mapping[str, Choice]) -> Blocked | None:
        for root, names in self._shared():
            values = {name: chosen[name].vector.get(root) for name in names}
            if len(set(values.values())) > 1:
                reason = _disagreement_text(root, values)
                return Blocked(code=INPUTS_APART, reason=reason, by=(root,), since_us=self._stands_since(root))
        return None

    def _misalignment(self, chosen: Mapping[str, Choice]) -> Blocked | None:
        found: list[Alignment] = []
        for group in self.groups:
            judged = alignment(group, _lowest_of(group, self.inputs, chosen), self.now_us, self.tolerance)
            if judged.reason is not None:
                found.append(judged)
        if not found or found[0].reason is None:
            return None
        by = tuple(dict.fromkeys(s for one in found for s in one.blocked_by))
        code = NOT_REPORTED if found[0].missing else APART
        return Blocked(code=code, reason=found[0].reason, by=by, since_us=self._stands_since(by[0]))

    def _stands_since(self, root: str) -> int | None:
        """Since when the newest versions have a root where they have it."""
        return max((_since(one.choices, root) for one in self.inputs if root in one.roots), default=None)


def _since(choices: Sequence[Choice], root: str) -> int:
    """When the first of the versions was made that have the root where the newest has it."""
    value, since_us = choices[-1].vector.get(root), choices[-1].at_us
    for choice in reversed(choices):
        if choice.vector.get(root) != value:
            break
        since_us = choice.at_us
    return since_us


def _ladder(one: InputState) -> list[Choice]:
    """What may be chosen of an input, ascending, the best last.

    Versions before one that says less are not there: what they had was taken back.
    """
    choices = [choice for choice in one.choices if one.by_row or not choice.holds_more]
    for at in range(len(choices) - 1, 0, -1):
        if _falls(choices[at - 1].vector, choices[at].vector):
            choices = choices[at:]
            break
    return [_by_row(choice) for choice in choices if _shows(choice, one)] if one.by_row else choices


def _shows(choice: Choice, one: InputState) -> bool:
    """Whether a version says enough to be read up to what the table shows already."""
    return one.shown is None or any(value >= one.shown for value in choice.vector.values())


def _by_row(choice: Choice) -> Choice:
    """The version as far as it is known to be complete."""
    return replace(choice, bound=next(iter(choice.vector.values()), None)) if choice.holds_more else choice


def _falls(before: Vector, after: Vector) -> bool:
    return any(root not in after or after[root] < value for root, value in before.items())


def _descend(ladder: list[Choice], one: InputState, bound: Watermark | None) -> None:
    """Lower an input: by position to the version before, by row to the bound."""
    top = ladder[-1]
    if not one.by_row or bound is None:
        ladder.pop()
    elif one.shown is not None and bound < one.shown:
        ladder.clear()
    else:
        ladder[-1] = replace(top, vector=Vector(dict.fromkeys(one.roots, bound)), bound=bound)


@dataclass(frozen=True, slots=True)
class _Tie:
    """Roots of inputs that must not be further apart than the tolerance."""

    members: tuple[tuple[str, str], ...]
    tolerance: int

    def offenders(self, top: Mapping[str, Choice]) -> Iterator[tuple[str, Watermark | None]]:
        """The inputs that are too far ahead, and how far they may be at most; None: they may say nothing."""
        values = [(name, top[name].vector.get(root)) for name, root in self.members]
        known = [value for _, value in values if value is not None]
        if not known:
            return
        if len(known) < len(values):  # nothing was said of a root there, so nothing may be said of it elsewhere
            yield from ((name, None) for name, value in values if value is not None)
            return
        low = min(known)
        most = replace(low, value=low.value + self.tolerance)
        yield from ((name, most) for name, value in values if value is not None and value > most)


def _lowest_of(group: Group, inputs: Sequence[InputState], chosen: Mapping[str, Choice]) -> dict[str, Watermark | None]:
    vector = merged(inputs, chosen)
    roots = _roots(inputs)
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
        reason = "no versions agree that are as new as what the table shows"
        return Blocked(code=NOTHING_NEWER, reason=reason, by=tuple(newest))
    reason = f"{' and '.join(names)} may have rows beyond the watermark ({', '.join(said)})"
    return Blocked(code=BEYOND, reason=reason, by=roots, since_us=max(newest[name].at_us for name in names))


def _closed(blocked: Blocked) -> Verdict:
    return Verdict(
        standing=Standing.CLOSED,
        reason=blocked.reason,
        blocked_by=blocked.by,
        code=blocked.code,
        since_us=blocked.since_us,
    )


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
        code=None if why is None else why.code,
        since_us=None if why is None else why.since_us,
    )
