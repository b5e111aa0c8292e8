"""Whether a table may be refreshed, and whether it is due. Pure: facts in, verdict out.

Everybody who asks asks here: the scheduler, a manual refresh, `status` and `explain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tidegate.lake.log import Metadata, Version
from tidegate.progress.cut import Choice, InputState, Mode, Problem, Standing, Verdict, decide
from tidegate.progress.groups import Group
from tidegate.quick import dataclass
from tidegate.tables.declare import Over, TableSpec
from tidegate.tables.documents import TableDocument
from tidegate.tables.graph import Node
from tidegate.tables.inputs import HOLDS_MORE
from tidegate.tables.schedules import Trigger

NOT_REBUILDABLE = "TG-T003"  #: an input has given up rows that a full refresh would need

# In the `extra` of a table's commits.
IN_USE = "in_use"
READER_LO = "reader_lo"
REFRESHED_US = "refreshed_us"
HOW = "how"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the verdict on a table depends on.

    `own` is the table's newest version, `problem` why that cannot be known, `heard_us` when each source
    was last heard of.
    """

    spec: TableSpec
    node: Node
    inputs: tuple[InputState, ...]
    groups: tuple[Group, ...] = ()
    own: Version | None = None
    problem: Problem | None = None
    document: TableDocument | None = None
    heard_us: Mapping[str, int | None] = field(default_factory=dict)
    now_us: int = 0

    @property
    def metadata(self) -> Metadata | None:
        """What the table says of its contents; None before its first refresh."""
        return None if self.own is None else self.own.metadata

    @property
    def frontier(self) -> Mapping[str, int]:
        """For each lake table that it reads, the version that its contents come from."""
        return {} if self.metadata is None else self.metadata.frontier

    @property
    def refreshed_us(self) -> int | None:
        """When its contents were made."""
        if self.metadata is None:
            return None
        said = self.metadata.extra.get(REFRESHED_US)
        return said if isinstance(said, int) else self.metadata.at_us

    @property
    def is_redefined(self) -> bool:
        """Whether its contents were made by another query."""
        return self.metadata is not None and self.metadata.definition != self.spec.definition


def judge(facts: Facts) -> Verdict:
    """Whether the table may be refreshed now, from which versions, and if not, who is in the way.

    Any error while deciding closes the gate.
    """
    if facts.problem is not None:
        return Verdict(standing=Standing.CLOSED, reason=facts.problem.text, code=facts.problem.code)
    in_use = frozenset() if facts.metadata is None else frozenset(facts.metadata.extra.get(IN_USE, ()))
    verdict = decide(
        facts.node.mode,
        facts.inputs,
        facts.groups,
        now_us=facts.now_us,
        tolerance=None if facts.spec.tolerance is None else facts.spec.tolerance.amount,
        in_use=in_use,
        heard_us=facts.heard_us,
    )
    if verdict.is_closed:
        return verdict
    return _not_rebuildable(facts, verdict.cut) or verdict


def newest(facts: Facts) -> Verdict:
    """The newest versions, whatever the groups say: for `refresh --force`. Closed where there are none to read."""
    forced = decide(Mode.NONE, facts.inputs, facts.groups, now_us=facts.now_us)
    return forced if forced.is_closed else replace(forced, ungated=facts.node.groups)


def is_current(facts: Facts, verdict: Verdict) -> bool:
    """Whether the table shows exactly the cut already, by the query that is declared, and says what is known of it.

    The same versions may be known to be complete to more than before: a loader that found nothing new.
    """
    said = facts.metadata
    if said is None or facts.is_redefined:
        return False
    claim = (said.vector, dict(said.effective), said.ungated, bool(said.extra.get(HOLDS_MORE)))
    known = (verdict.vector, dict(verdict.effective), bool(verdict.ungated), holds_more(verdict))
    return shows(facts, verdict) and claim == known


def holds_more(verdict: Verdict) -> bool:
    """Whether rows beyond the vector may be in the cut."""
    return any(choice.holds_more for choice in verdict.cut.values())


def shows(facts: Facts, verdict: Verdict) -> bool:
    """Whether the contents come from exactly the versions of the cut."""
    return {name: choice.version for name, choice in verdict.cut.items()} == dict(facts.frontier)


def is_due(facts: Facts, *, wanted_below: bool = False) -> bool:
    """Whether its schedule asks for a refresh now. `wanted_below` says that a table above asks for this one."""
    trigger = facts.spec.schedule.trigger
    if trigger is Trigger.ON_ADVANCE:
        return True
    if trigger is Trigger.DOWNSTREAM:
        return wanted_below
    due_us = facts.spec.schedule.next_due_us(facts.refreshed_us)
    return due_us is not None and due_us <= facts.now_us


def _not_rebuildable(facts: Facts, cut: Mapping[str, Choice]) -> Verdict | None:
    """Closed where computing in full would lose rows that retention has taken from an input since."""
    if facts.spec.over is Over.RETAINED or facts.metadata is None:
        return None
    counted = facts.metadata.extra.get(READER_LO, {})
    for name, choice in cut.items():
        before = counted.get(name)
        if before is not None and choice.reader_lo is not None and choice.reader_lo > before:
            reason = (
                f"{name} was pruned below {choice.reader_lo}, and {facts.spec.name} counts rows from {before} on: "
                f"computing it again would lose them"
            )
            return Verdict(standing=Standing.CLOSED, reason=reason, blocked_by=(name,), code=NOT_REBUILDABLE)
    return None
