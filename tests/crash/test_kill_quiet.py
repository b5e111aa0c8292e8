"""SIGKILL before and after the effects that no run with Spark has: there is no JVM that could die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.campaign import WITHOUT_SPARK
from tests.crash.scenario import RETENTION, Scenario
from tidegate import effects
from tidegate.effects import EffectName, Moment
from tidegate.ledger.sqlite import SqliteStore
from tidegate.pipelines.documents import state_key
from tidegate.testing import crash
from tidegate.testing.crash import Point

pytestmark = [pytest.mark.spark, pytest.mark.crash]

#: What no command does yet is done by a few lines, in a process that is as real.
STORE: Final = """\
import sys
from pathlib import Path
from tidegate.testing import crash

crash.install()
from tidegate.ledger.sqlite import SqliteStore

with SqliteStore(Path(sys.argv[1])) as store:
    store.{call}
"""
NOTE: Final = "notes/of-the-test"


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A project that has run once."""
    made = Scenario(tmp_path_factory.mktemp("quiet"), retention=RETENTION)
    made.drop(*made.next(3))
    assert made.once().code == 0
    return made


@pytest.fixture
def store(scenario: Scenario) -> Iterator[SqliteStore]:
    """The ledger of the project."""
    with SqliteStore(ledger_of(scenario)) as opened:
        yield opened


def ledger_of(scenario: Scenario) -> Path:
    return scenario.project.root / ".tidegate" / "ledger.db"


def kill_store(path: Path, call: str, point: Point) -> None:
    died = subprocess.run(
        [sys.executable, "-c", STORE.format(call=call), str(path)],
        env={**os.environ, crash.CRASH: str(point)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr


BOTH_SIDES: Final = (Moment.BEFORE, Moment.AFTER)


@pytest.mark.parametrize("moment", BOTH_SIDES)
def test_killed_while_the_ledger_is_made(tmp_path: Path, moment: Moment) -> None:
    """A ledger whose maker died is made by the next one."""
    fresh = Scenario(tmp_path)
    fresh.kill(Point(effect=effects.LEDGER_SCHEMA, moment=moment), "pause", "ledger")
    assert fresh.run("pause", "ledger").code == 0
    assert fresh.project.pipeline("ledger")["state"] == "paused"


@pytest.mark.parametrize("moment", BOTH_SIDES)
def test_killed_while_a_document_is_deleted(scenario: Scenario, store: SqliteStore, moment: Moment) -> None:
    """It is there, or it is not; everything else is as it was."""
    if store.get(NOTE) is None:
        store.put(NOTE, b"a note")
    kill_store(ledger_of(scenario), f"delete({NOTE!r})", Point(effect=effects.LEDGER_DELETE, moment=moment))
    assert (store.get(NOTE) is None) == (moment is Moment.AFTER)
    assert scenario.problems() == []


@pytest.mark.parametrize("moment", BOTH_SIDES)
def test_killed_while_a_version_is_pinned(scenario: Scenario, store: SqliteStore, moment: Moment) -> None:
    """It is pinned, or it is not; everything else is as it was."""
    key = state_key("ledger")
    newest = store.versions(key)[-1].version
    kill_store(ledger_of(scenario), f"pin({key!r}, {newest})", Point(effect=effects.LEDGER_PIN, moment=moment))
    assert store.versions(key)[-1].pinned == (moment is Moment.AFTER)
    assert scenario.problems() == []


@pytest.mark.parametrize("moment", BOTH_SIDES)
def test_killed_while_a_torn_log_entry_is_removed(scenario: Scenario, moment: Moment) -> None:
    """What a power cut left torn is removed by whoever comes next, however often he dies over it."""
    log = scenario.table / "_delta_log"
    torn = log / f"{max(int(one.stem) for one in log.glob('*.json')) + 1:020d}.json"
    torn.write_bytes(b'{"commitInfo":{"times')
    scenario.kill(Point(effect=effects.LAKE_REPAIR, moment=moment), "prune")
    assert torn.exists() == (moment is Moment.BEFORE)
    assert scenario.run("prune").code == 0
    assert scenario.problems() == []


def test_every_effect_is_reached_by_some_test() -> None:
    """An effect that is new in the registry is killed in a run, or is one of those above."""
    here: dict[EffectName, Callable[..., None]] = {
        effects.LEDGER_SCHEMA: test_killed_while_the_ledger_is_made,
        effects.LEDGER_DELETE: test_killed_while_a_document_is_deleted,
        effects.LEDGER_PIN: test_killed_while_a_version_is_pinned,
        effects.LAKE_REPAIR: test_killed_while_a_torn_log_entry_is_removed,
    }
    assert here.keys() == WITHOUT_SPARK
