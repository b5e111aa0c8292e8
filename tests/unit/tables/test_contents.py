"""What a refresh says in its commit, and what of the versions before it may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tables.lakes import World, n, vector
from tests.unit.tables.shop import PAIR, Shop, shop
from tidegate import errors
from tidegate.lake.log import Metadata
from tidegate.progress.cut import Verdict
from tidegate.project import outputs
from tidegate.tables.contents import How, Made, is_same_place, kept_from, metadata_of, rows_moved, versions_of
from tidegate.tables.judge import judge, newest

JOIN = "SELECT * FROM orders JOIN order_lines USING (id)"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def said(world: World, declared: Shop, verdict: Verdict | None = None) -> Metadata:
    facts = world.facts(declared, "t")
    made = Made(rows=7, schema_fp="x")
    return metadata_of(facts, verdict or judge(facts), token=3, how=How.FULL, made=made)


def test_contents_and_claim_are_one_commit(world: World) -> None:
    """Versions, what they are complete to, and what was counted of a table that gives rows up."""
    world.publish("orders", 5, reader_lo=2)
    world.publish("order_lines", 5)
    declared = shop(PAIR, t=JOIN)
    metadata = said(world, declared)
    assert (metadata.frontier, metadata.vector) == ({"orders": 0, "order_lines": 0}, vector(orders=5, order_lines=5))
    assert (metadata.effective, metadata.ungated, metadata.token, metadata.rows) == ({PAIR.name: n(5)}, False, 3, 7)
    assert metadata.definition == declared.tables["t"].definition
    assert metadata.extra["reader_lo"] == {"orders": 2}
    assert metadata.extra["in_use"] == [PAIR.name]


def test_a_group_is_in_use_once_a_refresh_was_gated_by_it_and_stays_so(world: World) -> None:
    """An ungated refresh and a forced one do not count."""
    declared = shop(PAIR, t=JOIN)
    world.publish("orders", 5)
    world.publish("order_lines", None)
    assert (said(world, declared).ungated, said(world, declared).extra["in_use"]) == (True, [])
    world.publish("order_lines", 9)
    forced = said(world, declared, newest(world.facts(declared, "t")))
    assert (forced.ungated, forced.extra["in_use"], forced.effective) == (True, [], {PAIR.name: n(5)})
    world.publish("orders", 9)
    world.show(declared, "t")
    world.publish("orders", 10)
    forced = said(world, declared, newest(world.facts(declared, "t")))
    assert (forced.ungated, forced.extra["in_use"]) == (True, [PAIR.name])


def test_only_who_is_held_back_and_has_nothing_yet_keeps_older_versions(world: World) -> None:
    world.publish("orders", 1)
    world.publish("orders", 2)
    world.publish("order_lines", 1)
    for gating, kept in (("none", {}), ("gate", {}), ("hold_back", {"orders": 0, "order_lines": 0})):
        declared = shop(PAIR, t=f"-- gating: {gating}\n{JOIN}")
        assert kept_from(world.facts(declared, "t")) == kept
    world.show(declared, "t")
    assert kept_from(world.facts(declared, "t")) == {}
    assert versions_of(judge(world.facts(declared, "t"))) == {"orders": 0, "order_lines": 0}


def test_what_is_new_is_told_by_the_commits_in_between(world: World) -> None:
    for value in (1, 2):
        world.publish("orders", value)
    entries = [world.lake("orders").entry(number) for number in (0, 1)]
    assert rows_moved(entries)
    assert not rows_moved([])
    assert is_same_place({"orders": 1}, {"orders": 4})
    assert not is_same_place({"orders": 1}, {"orders": 4, "lines": 1})


def test_a_version_whose_files_were_cleaned_is_refused_and_one_to_come_is_waited_for() -> None:
    assert outputs.checked(4, "t", 3, 5) == 4
    with pytest.raises(errors.BelowReaderLo, match="version 3"):
        outputs.checked(2, "t", 3, 5)
    with pytest.raises(errors.NotComplete, match="version 6"):
        outputs.checked(6, "t", 3, 5)
