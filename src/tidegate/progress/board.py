"""The verdicts of many tables over inputs that they share, kept up while sources advance.

`cut.decide` judges one table from nothing. A board says the same of thousands: what a gate compares is
compiled to places in one list of numbers, and an input that moved touches only the tables that read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import NamedTuple

from tidegate.progress.cut import InputState, Mode, Standing, Verdict, decide, is_consistent, overlapping
from tidegate.progress.groups import Group
from tidegate.progress.watermarks import ValueKind
from tidegate.quick import dataclass

# Integers live so far from all times that no tolerance bridges them: the two kinds never agree.
_INTEGERS = 1 << 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A table as `decide` wants to know it. `frontier`: the version of each input that it shows."""

    name: str
    mode: Mode
    inputs: tuple[str, ...]
    groups: tuple[Group, ...] = ()
    tolerance: int | None = None
    in_use: frozenset[str] = frozenset()
    frontier: Mapping[str, int] = field(default_factory=dict)


class Board:
    """Standings of tables. All states of inputs are given before the first question; `roots` do not change."""

    __slots__ = ("_inputs", "_is_whole", "_plans", "_readers", "_slots", "_standings", "_tables", "_usable", "_values")

    def __init__(self, tables: Iterable[Gated], inputs: Iterable[InputState]) -> None:
        self._inputs: dict[str, InputState] = {}
        self._slots: dict[tuple[str, str], int] = {}
        self._values: list[int | None] = []
        self._usable: dict[str, bool] = {}
        self._is_whole: dict[str, bool] = {}
        for state in inputs:
            for root in sorted(state.roots):
                self._slots[state.name, root] = len(self._values)
                self._values.append(None)
            self._take(state)
        self._tables = {table.name: table for table in tables}
        self._plans = {name: self._compiled(table) for name, table in self._tables.items()}
        self._readers: dict[str, list[str]] = defaultdict(list)
        for table in self._tables.values():
            for one in table.inputs:
                self._readers[one].append(table.name)
        self._standings: dict[str, Standing] = {}

    def standing(self, name: str, *, now_us: int) -> Standing:
        """Whether the table may be refreshed: what `verdict` says, without its reasons."""
        plan, known = self._plans[name], self._standings.get(name)
        if known is None or plan.is_timed:
            known = self._judged(plan) or self.verdict(name, now_us=now_us).standing
            self._standings[name] = known
        return known

    def standings(self, *, now_us: int) -> dict[str, Standing]:
        """Of every table."""
        return {name: self.standing(name, now_us=now_us) for name in self._tables}

    def verdict(self, name: str, *, now_us: int) -> Verdict:
        """The whole verdict of one table."""
        table = self._tables[name]
        states = [self._state(one, table.frontier.get(one)) for one in table.inputs]
        return decide(table.mode, states, table.groups, now_us=now_us, tolerance=table.tolerance, in_use=table.in_use)

    def put(self, state: InputState, *, now_us: int) -> tuple[str, ...]:
        """There is something new of an input. The tables whose standing is not what was told last."""
        if state.roots != self._inputs[state.name].roots:
            raise ValueError(f"input {state.name} has other root sources than before; make a new board")
        self._take(state)
        readers = self._readers[state.name]
        before = [self._standings.pop(name, None) for name in readers]
        after = [self.standing(name, now_us=now_us) for name in readers]
        return tuple(name for name, was, now in zip(readers, before, after, strict=True) if was is not now)

    def _take(self, state: InputState) -> None:
        self._inputs[state.name] = state
        newest = state.newest
        self._usable[state.name] = newest is not None and state.problem is None and is_consistent(state)
        kinds = {value.kind for choice in state.choices for value in choice.vector.values()}
        is_plain = state.shown is None and len(kinds) <= 1  # versions before it may matter otherwise
        self._is_whole[state.name] = newest is not None and not newest.holds_more and is_plain
        for root in state.roots:
            value = None if newest is None else newest.vector.get(root)
            offset = 0 if value is None or value.kind is ValueKind.TIMESTAMP else _INTEGERS
            self._values[self._slots[state.name, root]] = None if value is None else value.value + offset

    def _compiled(self, table: Gated) -> _Plan:
        states = [self._inputs[one] for one in table.inputs]
        roots: dict[str, list[int]] = defaultdict(list)
        for state in states:
            for root in state.roots:
                roots[root].append(self._slots[state.name, root])
        groups = overlapping(table.groups, states)
        ties = [tuple(slots) for slots in roots.values() if len(slots) > 1]
        is_timed = any(group.at_least is not None for group in groups)
        compares = [_Check(0, tie, all_or_none=True) for tie in ties]
        for group in groups:
            tolerance = group.tolerance if table.tolerance is None else table.tolerance
            places = tuple(slot for source in group.sources for slot in roots.get(source, ()))
            bootstraps = group.bootstrap_open and group.name not in table.in_use
            compares.append(_Check(tolerance, places, may_run_ungated=bootstraps))
        is_quick = not is_timed and len(set(table.inputs)) == len(table.inputs)
        return _Plan(
            inputs=table.inputs,
            floors=tuple(table.frontier.items()),
            checks=tuple(compares),
            is_timed=is_timed,
            is_quick=is_quick and (table.mode is not Mode.NONE or not compares),
            may_lower=table.mode is Mode.HOLD_BACK,
        )

    def _judged(self, plan: _Plan) -> Standing | None:
        """The standing, where comparing numbers tells it."""
        if not plan.is_quick:
            return None
        for one in plan.inputs:
            if not self._usable[one]:
                return Standing.CLOSED
            if plan.may_lower and not self._is_whole[one]:
                return None
        for one, version in plan.floors:
            newest = self._inputs[one].newest
            if newest is None or newest.version < version:
                return Standing.CLOSED
        values = self._values
        for tolerance, slots, all_or_none, may_run_ungated in plan.checks:
            found = [values[slot] for slot in slots]
            if None in found:
                if may_run_ungated or (all_or_none and len(set(found)) == 1):
                    continue
            elif max(found) - min(found) <= tolerance:  # type: ignore[type-var, operator]  # none of them is None
                continue
            return None if plan.may_lower else Standing.CLOSED
        return Standing.OPEN

    def _state(self, name: str, frontier: int | None) -> InputState:
        """What a table that shows version `frontier` may still choose from."""
        state = self._inputs[name]
        if frontier is None or not self._usable[name]:
            return state
        return replace(state, choices=tuple(choice for choice in state.choices if choice.version >= frontier))


class _Check(NamedTuple):
    """The numbers in these places are within the tolerance, where all of them are known."""

    tolerance: int
    slots: tuple[int, ...]
    all_or_none: bool = False
    may_run_ungated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What the standing of a table depends on. Only a quick one is told by its checks."""

    inputs: tuple[str, ...]
    floors: tuple[tuple[str, int], ...]
    checks: tuple[_Check, ...]
    is_timed: bool
    is_quick: bool
    may_lower: bool
