"""One project that is killed again and again, with a reader beside it that never looks away.

A file of tests has one campaign: each of its tests is one more kill of a run that is fed as its mark
rises, and the last one judges what all of them left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from tests.blackbox.harness import wait_for
from tests.crash.reader import RawReader
from tests.crash.scenario import FIRST, KILLED, RETENTION, Ended, Running, Scenario
from tidegate import effects
from tidegate.effects import EffectName
from tidegate.lake.table import CHECKPOINT_EVERY, LakeTable
from tidegate.testing import crash
from tidegate.testing.crash import Hit, Point

#: Effects that no run with Spark has: they are over before it starts, or no command has them yet.
WITHOUT_SPARK: Final = frozenset(
    {effects.LEDGER_SCHEMA, effects.LEDGER_DELETE, effects.LEDGER_PIN, effects.LAKE_REPAIR}
)
GAP: Final = FIRST + 4
#: What a reader must have seen before its word counts.
ENOUGH_MARKS: Final = 20
_AHEAD: Final = 4
#: A run takes its table over and prunes it before it has a JVM.
_COMMITS_UNTIL_SPARK: Final = 6
#: A run that got so many checkpoints and was not struck will never be.
_ENOUGH: Final = 60


def points(hit: Hit, nth: Mapping[EffectName, int]) -> list[Point]:
    """Both sides of every effect that a run has, the first time it is passed unless `nth` says another."""
    return [
        replace(point, nth=nth.get(point.effect, 1))
        for point in crash.points(hit=hit)
        if point.effect not in WITHOUT_SPARK
    ]


class Campaign:
    """The project, its reader, and what was seen on the way."""

    def __init__(self, root: Path, reader: RawReader, scenario: Scenario) -> None:
        self.root = root
        self.reader = reader
        self.scenario = scenario
        self.gap_was_seen = False

    def strike(self, point: Point) -> Ended:
        """Run without end, fed as the mark rises, until the point has struck and the run has ended."""
        if point.effect == effects.LAKE_CHECKPOINT:
            self._age()
        before = len(self.scenario.dropped)
        running = self.scenario.start("run", points=[point])
        try:
            wait_for(f"the end of the run by {point}", lambda: self._has_ended(running, before))
            ended = running.ended()
        finally:
            running.end()
        assert ended.was_struck(point), f"{point} was never reached; passed {dict(ended.counts)}\n{ended.text}"
        if point.hit is Hit.JVM:
            assert (ended.code, "TG-X001" in ended.text) == (1, True), ended.text
        else:
            assert ended.code == KILLED
        return ended

    def judge(self) -> list[str]:
        """Let it end in peace, and tell all that is wrong; nothing of it may be written outside of a point."""
        # A JVM that lost its Python goes on for seconds, and what it writes is nobody's effect.
        wait_for("the end of the JVMs of before", lambda: not self._jvms())
        written = self.root / "audit.log"
        ended = [self._run_in_peace(written)]
        ended += [self.scenario.run(*command, audit=written) for command in (["prune"], ["pause", "ledger"])]
        found = [f"it ended with {one.code}\n{one.text}" for one in ended if one.code != 0]
        # The loader drops files meanwhile, and is none of ours.
        outside = [line for line in written.read_text().splitlines() if " incoming" not in line]
        found += [f"outside of a point: {line}" for line in outside]
        return [*found, *self.scenario.problems(), *self.reader.problems]

    def _run_in_peace(self, written: Path) -> Ended:
        """One run that is fed until the reader has seen enough, and then told to stop."""
        running = self.scenario.start("run", audit=written)
        try:
            wait_for("enough marks", lambda: self._has_seen_enough() or self._feed())
            wait_for("the last mark", lambda: self.reader.marks[-1] == max(self.scenario.dropped))
            running.process.terminate()
            return running.ended()
        finally:
            running.end()

    def _has_seen_enough(self) -> bool:
        return self.gap_was_seen and self.reader.prunes > 0 and len(self.reader.marks) >= ENOUGH_MARKS

    def _has_ended(self, running: Running, before: int) -> bool:
        if running.process.poll() is not None:
            return True
        assert len(self.scenario.dropped) - before < _ENOUGH, (
            f"never reached; passed {running.passed()}\n{running.out.read_text()}"
        )
        self._feed()
        return False

    def _feed(self) -> None:
        """Keep a few checkpoints ahead of the mark, all but one: that comes when others wait behind it."""
        last = self.reader.marks[-1] if self.reader.marks else FIRST - 1
        is_held = GAP not in self.scenario.dropped
        if is_held and last == GAP - 1 and list(self.scenario.table.glob(f"data/*-{GAP + 1}-*/*/*.parquet")):
            self.gap_was_seen = True
            self.scenario.drop(GAP)
        while (highest := max(self.scenario.dropped, default=FIRST - 1)) < last + _AHEAD:
            self.scenario.drop(highest + (2 if highest + 1 == GAP else 1))

    def _age(self) -> None:
        """A log checkpoint, and commits that say nothing new until another one is due a few commits later."""
        table = LakeTable(str(self.scenario.table), "ledger")
        if not table.exists:  # everybody so far has died before anything was published
            self._feed()
            assert self.scenario.once().code == 0
        table.checkpoint()
        for _ in range(CHECKPOINT_EVERY - _COMMITS_UNTIL_SPARK):
            head = table.head()
            assert head is not None
            assert head.metadata is not None
            table.commit(head.metadata)

    def _jvms(self) -> list[int]:
        place = str(self.scenario.project.root)
        return [one.pid for one in psutil.process_iter() if any(place in argument for argument in _arguments(one))]


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def campaign(root: Path) -> Iterator[Campaign]:
    """A campaign in a folder, whose reader looks on until the end."""
    scenario = Scenario(root, retention=RETENTION)
    with RawReader(scenario.table, first=FIRST) as reader:
        yield Campaign(root, reader, scenario)
