"""The suite is put to the test: builds that are broken on purpose, and one that is not.

Each goes through the same: a gap, a driver that dies before it stages and one that dies before it has
flushed what it staged, then a run in peace. The build as it is passes; each broken one is caught.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.builds import BROKEN, WRITES_OUTSIDE_OF_A_POINT, Broken
from tests.crash.reader import RawReader
from tests.crash.scenario import FIRST, Scenario
from tidegate import effects
from tidegate.effects import Moment
from tidegate.testing.crash import Point

pytestmark = [pytest.mark.spark, pytest.mark.crash]

GAP = FIRST + 2


def problems_of(root: Path, source: Path | None) -> list[str]:
    """What the suite finds wrong with a build."""
    scenario = Scenario(root, source=source)
    with RawReader(scenario.table, first=FIRST) as reader:
        scenario.drop(FIRST, FIRST + 1, GAP + 1)
        scenario.kill(Point(effect=effects.LAKE_STAGE, moment=Moment.BEFORE))
        scenario.drop(GAP + 2)
        scenario.kill(Point(effect=effects.LAKE_SYNC, moment=Moment.BEFORE))
        ends = [scenario.once()]
        scenario.drop(GAP)
        ends.append(scenario.once())
    failed = [f"a quiet run ended with {one.code}\n{one.text}" for one in ends if one.code != 0]
    return [*failed, *scenario.problems(), *reader.problems]


def test_the_build_as_it_is_passes(tmp_path: Path) -> None:
    """The control: what catches the broken ones says nothing of the good one."""
    assert problems_of(tmp_path, None) == []


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: one.name)
def test_a_broken_build_is_caught(tmp_path: Path, broken: Broken) -> None:
    """It is caught, and for its own fault."""
    found = problems_of(tmp_path / "project", broken.build(tmp_path / "builds"))
    assert any(word in problem for problem in found for word in broken.shows), found


def test_a_build_that_writes_outside_of_a_point_is_caught(tmp_path: Path) -> None:
    """The audit of the suite hears of it, and of nothing in the build as it is."""
    for broken in (None, WRITES_OUTSIDE_OF_A_POINT):
        source = None if broken is None else broken.build(tmp_path / "builds")
        scenario = Scenario(tmp_path / ("good" if broken is None else broken.name), source=source)
        written = scenario.root / "audit.log"
        for command in ("pause", "resume"):
            assert scenario.run(command, "ledger", audit=written).code == 0
        found = written.read_text()
        assert found == "" if broken is None else any(word in found for word in broken.shows), found
