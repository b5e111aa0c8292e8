"""A runner that was stopped past its lease and woken after another took over: nobody listens to it any more."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.blackbox.harness import wait_for
from tests.crash.scenario import Running, Scenario
from tidegate import effects
from tidegate.effects import EffectName, Moment
from tidegate.ledger import leases
from tidegate.ledger.sqlite import SqliteStore
from tidegate.pipelines.documents import lease_key
from tidegate.testing.crash import Hit, Point

pytestmark = [pytest.mark.spark, pytest.mark.crash]


def stopped(scenario: Scenario, effect: EffectName, nth: int) -> Running:
    """A run that sleeps right before an effect, with rows staged, and whose lease is over."""
    zombie = scenario.start("run", points=[Point(effect=effect, moment=Moment.BEFORE, nth=nth, hit=Hit.STOP)])
    zombie.wait_stopped()
    assert any(line.startswith(f"{effects.LAKE_SYNC}:after") for line in zombie.passed()), zombie.passed()
    with SqliteStore(scenario.project.root / ".tidegate" / "ledger.db") as store:
        wait_for("the end of its lease", lambda: not alive(store))
    return zombie


def alive(store: SqliteStore) -> bool:
    lease = leases.view(store, lease_key("ledger"))
    return lease is not None and lease.alive


def contents(scenario: Scenario) -> Mapping[str, str]:
    """Everything that counts: published files, logs and manifests, with what is in them."""
    log = list((scenario.table / "_delta_log").glob("*.json"))
    manifest = list((scenario.files / "_tidegate").iterdir())
    rows = [one for root in (scenario.table, scenario.files) for one in root.rglob("part-*.parquet")]
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in (*log, *manifest, *rows)}


@pytest.mark.parametrize(
    ("effect", "nth"),
    [
        pytest.param(effects.LEDGER_PUT, 12, id="before its put"),
        pytest.param(effects.LAKE_COMMIT, 3, id="before its publish"),
    ],
)
def test_a_zombie_is_refused(tmp_path: Path, effect: EffectName, nth: int) -> None:
    """The other works on; the first ends with exit 4, and of what is published not a byte is another."""
    scenario = Scenario(tmp_path)
    scenario.drop(*scenario.next(8))
    zombie = stopped(scenario, effect, nth)
    try:
        scenario.drop(*scenario.next(2))
        assert scenario.once().code == 0
        assert scenario.problems() == []
        published = contents(scenario)

        zombie.process.send_signal(signal.SIGCONT)
        ended = zombie.ended()
    finally:
        zombie.end()
    assert (ended.code, "TG-R003" in ended.text) == (4, True), ended.text
    now = contents(scenario)
    assert {path: now.get(path) for path in published} == published
    assert [path for path in now if path not in published and not path.endswith(".parquet")] == []
    assert scenario.problems() == []
