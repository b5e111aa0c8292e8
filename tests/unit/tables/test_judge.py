"""The verdict on a table, and whether its schedule asks for a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.tables.lakes import n, vector
from tests.unit.tables.shop import PAIR, shop
from tidegate.lake.log import Kind, Metadata, Version
from tidegate.progress.cut import Choice, InputState, Problem, Standing
from tidegate.progress.groups import AtLeast, Group, WhenStuck
from tidegate.progress.watermarks import Watermark
from tidegate.tables import graph, queries
from tidegate.tables.judge import Facts, is_current, is_due, judge, newest

MINUTE = 60_000_000
JOIN = "SELECT * FROM orders JOIN order_lines USING (id)"


def facts_of(query: str = JOIN, *groups: Group, **more: Any) -> Facts:
    declared = shop(*groups, t=query)
    node = graph.build(declared, queries.references, strict=False).nodes["t"]
    return Facts(spec=declared.tables["t"], node=node, groups=groups, **{"inputs": (), "now_us": 100 * MINUTE, **more})


def at(name: str, *versions: tuple[int, int | None], reader_lo: int | None = None) -> InputState:
    """An input with versions that are complete to a value, or to nothing."""
    return InputState(
        name=name,
        roots=frozenset({name}),
        choices=tuple(
            Choice(version=version, vector=vector() if w is None else vector(**{name: w}), reader_lo=reader_lo)
            for version, w in versions
        ),
    )


def shown(facts: Facts, **more: Any) -> Facts:
    """The facts once the table shows what they allow now."""
    verdict = judge(facts)
    said = {
        "frontier": {name: one.version for name, one in verdict.cut.items()},
        "vector": verdict.vector,
        "effective": verdict.effective,
        "definition": facts.spec.definition,
        "extra": {"in_use": list(verdict.effective)},
        **more,
    }
    own = Metadata(kind=Kind.REFRESH, table="t", owner="t", epoch=1, token=1, **said)
    return replace(facts, own=Version(version=0, at_us=0, metadata=own))


@pytest.mark.parametrize(
    ("gating", "standing", "read"),
    [
        ("none", Standing.OPEN, {"orders": 2, "order_lines": 5}),
        ("gate", Standing.CLOSED, {}),
        ("hold_back", Standing.CAPPED, {"orders": 1, "order_lines": 5}),
    ],
)
def test_each_mode_over_sources_that_are_apart(gating: str, standing: Standing, read: Mapping[str, int]) -> None:
    inputs = (at("orders", (1, 10), (2, 20)), at("order_lines", (5, 10)))
    verdict = judge(facts_of(f"-- gating: {gating}\n{JOIN}", PAIR, inputs=inputs))
    assert verdict.standing is standing
    assert {name: one.version for name, one in verdict.cut.items()} == read
    if gating != "none":
        assert verdict.blocked_by == ("order_lines",)
        assert verdict.reason == "order_lines is 10 behind orders in group order_pipeline (tolerance 0)"


def test_the_tables_own_tolerance_wins() -> None:
    inputs = (at("orders", (2, 20)), at("order_lines", (5, 10)))
    assert judge(facts_of(f"-- tolerance: 10\n{JOIN}", PAIR, inputs=inputs)).standing is Standing.OPEN
    loose = replace(PAIR, tolerance=10)
    assert judge(facts_of(f"-- tolerance: 9\n{JOIN}", loose, inputs=inputs)).standing is Standing.CLOSED


def test_a_floor_closes_a_group_of_one() -> None:
    rates = Group(name="rates", sources=("fx_rates",), at_least=AtLeast(value=n(5)))
    verdict = judge(facts_of("SELECT * FROM fx_rates", rates, inputs=(at("fx_rates", (0, 4)),)))
    assert verdict.reason == "fx_rates is complete to 4, 1 short of group rates (at least 5)"
    assert judge(facts_of("SELECT * FROM fx_rates", rates, inputs=(at("fx_rates", (0, 5)),))).standing is Standing.OPEN


def test_a_floor_that_goes_with_the_clock_closes_again() -> None:
    rates = Group(name="rates", sources=("fx_rates",), at_least=AtLeast(now_minus_us=60 * MINUTE))
    fresh = Choice(version=0, vector=type(vector())({"fx_rates": Watermark.of_micros(40 * MINUTE)}))
    inputs = (InputState(name="fx_rates", roots=frozenset({"fx_rates"}), choices=(fresh,)),)
    facts = facts_of("SELECT * FROM fx_rates", rates, inputs=inputs)
    assert judge(facts).standing is Standing.OPEN
    assert judge(replace(facts, now_us=101 * MINUTE)).standing is Standing.CLOSED


# errors close


def test_a_table_whose_own_log_cannot_be_read_is_closed() -> None:
    facts = facts_of(
        JOIN, inputs=(at("orders", (1, 1)), at("order_lines", (1, 1))), problem=Problem(code="X", text="no")
    )
    assert (judge(facts).standing, judge(facts).reason, judge(facts).code) == (Standing.CLOSED, "no", "X")


@pytest.mark.parametrize("gating", ["none", "gate", "hold_back"])
def test_an_input_with_a_problem_closes_every_mode(gating: str) -> None:
    broken = InputState(name="orders", roots=frozenset({"orders"}), problem=Problem(code="X", text="gone"))
    verdict = judge(facts_of(f"-- gating: {gating}\n{JOIN}", PAIR, inputs=(broken, at("order_lines", (1, 1)))))
    assert (verdict.standing, verdict.reason, verdict.blocked_by) == (Standing.CLOSED, "gone", ("orders",))


def test_watermarks_that_cannot_be_compared_close_the_gate() -> None:
    times = Choice(version=0, vector=type(vector())({"orders": Watermark.of_micros(1)}))
    inputs = (InputState(name="orders", roots=frozenset({"orders"}), choices=(times,)), at("order_lines", (1, 1)))
    verdict = judge(facts_of(JOIN, PAIR, inputs=inputs))
    assert verdict.standing is Standing.CLOSED
    assert verdict.code == "TG-W006"


# stuck


@pytest.mark.parametrize(
    ("when_stuck", "heard", "standing"),
    [
        (WhenStuck.WARN, 1, Standing.OPEN),
        (WhenStuck.PAUSE, 1, Standing.CLOSED),
        (WhenStuck.PAUSE, 80, Standing.OPEN),
        (WhenStuck.PAUSE, None, Standing.OPEN),  # one that never spoke is missing, which is for `bootstrap` to say
    ],
)
def test_a_silent_source_pauses_its_tables_only_when_told_to(
    when_stuck: WhenStuck, heard: int | None, standing: Standing
) -> None:
    group = replace(PAIR, stuck_after_us=30 * MINUTE, when_stuck=when_stuck)
    inputs = (at("orders", (1, 1)), at("order_lines", (1, 1)))
    heard_us = {"orders": None if heard is None else heard * MINUTE, "order_lines": 99 * MINUTE}
    verdict = judge(facts_of(JOIN, group, inputs=inputs, heard_us=heard_us))
    assert verdict.standing is standing
    if standing is Standing.CLOSED:
        assert verdict.blocked_by == ("orders",)
        assert "orders has said nothing for" in (verdict.reason or "")


def test_only_sources_that_are_in_the_table_can_pause_it() -> None:
    group = replace(PAIR, stuck_after_us=30 * MINUTE, when_stuck=WhenStuck.PAUSE)
    facts = facts_of("SELECT * FROM order_lines", group, inputs=(at("order_lines", (1, 1)),), heard_us={"orders": 0})
    assert judge(facts).standing is Standing.OPEN


# not rebuildable


@pytest.mark.parametrize(("over", "standing"), [("history", Standing.CLOSED), ("retained", Standing.OPEN)])
def test_rows_that_retention_took_are_not_lost_by_computing_again(over: str, standing: Standing) -> None:
    query = f"-- over: {over}\nSELECT * FROM orders"
    facts = shown(facts_of(query, inputs=(at("orders", (1, 1)),)), extra={"reader_lo": {"orders": 3}})
    pruned = replace(facts, inputs=(at("orders", (2, 2), reader_lo=5),))
    verdict = judge(pruned)
    assert verdict.standing is standing
    if over == "history":
        assert verdict.code == "TG-T003"
        assert verdict.blocked_by == ("orders",)
        assert "orders was pruned below 5, and t counts rows from 3 on" in (verdict.reason or "")
        assert not newest(pruned).is_closed  # which `--force` reads
    assert judge(replace(facts, inputs=(at("orders", (2, 2), reader_lo=3),))).standing is Standing.OPEN


# current


def test_a_table_that_shows_the_cut_is_current() -> None:
    facts = shown(facts_of(JOIN, PAIR, inputs=(at("orders", (1, 1)), at("order_lines", (1, 1)))))
    assert is_current(facts, judge(facts))


def test_a_table_that_was_never_refreshed_is_not_current() -> None:
    facts = facts_of(JOIN, inputs=(at("orders", (1, 1)), at("order_lines", (1, 1))))
    assert not is_current(facts, judge(facts))


@pytest.mark.parametrize(
    "change",
    [
        {"frontier": {"orders": 0, "order_lines": 1}},
        {"vector": vector(orders=0, order_lines=1)},  # its loader said more of the same version since
        {"effective": {}},  # a group was declared since
        {"ungated": True},  # the missing source has reported since
        {"extra": {"holds_more": True}},  # rows that were beyond the watermark are not any more
        {"definition": "another query"},
    ],
)
def test_a_table_is_not_current_when_other_rows_or_claims_are_due(change: dict[str, Any]) -> None:
    facts = shown(facts_of(JOIN, PAIR, inputs=(at("orders", (1, 1)), at("order_lines", (1, 1)))), **change)
    assert not is_current(facts, judge(facts))


# bootstrap


def test_until_every_member_has_reported_a_new_table_runs_ungated() -> None:
    facts = facts_of(JOIN, PAIR, inputs=(at("orders", (1, 1)), at("order_lines", (1, None))))
    assert (judge(facts).standing, judge(facts).ungated) == (Standing.OPEN, ("order_pipeline",))
    closed = replace(facts, groups=(replace(PAIR, bootstrap_open=False),))
    assert judge(closed).reason == "order_lines has not reported a watermark yet in group order_pipeline"


def test_a_member_that_is_added_to_a_group_in_use_is_waited_for() -> None:
    facts = shown(
        facts_of(JOIN, replace(PAIR, sources=("orders",)), inputs=(at("orders", (1, 1)), at("order_lines", (1, None))))
    )
    assert facts.metadata is not None
    assert facts.metadata.extra["in_use"] == ["order_pipeline"]
    joined = replace(facts, groups=(PAIR,), node=replace(facts.node, mode=facts_of(JOIN, PAIR).node.mode))
    assert judge(joined).standing is Standing.CLOSED
    assert judge(joined).blocked_by == ("order_lines",)


# forced


def test_a_forced_refresh_reads_the_newest_and_is_counted_ungated() -> None:
    facts = facts_of(JOIN, PAIR, inputs=(at("orders", (1, 10), (2, 20)), at("order_lines", (5, 10))))
    verdict = newest(facts)
    assert {name: one.version for name, one in verdict.cut.items()} == {"orders": 2, "order_lines": 5}
    assert verdict.ungated == ("order_pipeline",)


def test_nothing_can_be_forced_out_of_an_input_that_is_not_there() -> None:
    assert newest(facts_of(JOIN, PAIR, inputs=(at("orders"), at("order_lines", (5, 10))))).is_closed


# due


@pytest.mark.parametrize(
    ("schedule", "never", "just_now", "long_ago"),
    [
        ("on_advance", True, True, True),
        ("every 30m", True, False, True),
        ("cron 0 * * * *", True, False, True),
        ("downstream", False, False, False),
        ("manual", False, False, False),
    ],
)
def test_when_a_schedule_asks(schedule: str, never: bool, just_now: bool, long_ago: bool) -> None:
    facts = facts_of(f"-- schedule: {schedule}\nSELECT * FROM orders", inputs=(at("orders", (1, 1)),))
    found = [is_due(facts)]
    found += [is_due(shown(facts, extra={"refreshed_us": minute * MINUTE})) for minute in (99, 1)]
    assert found == [never, just_now, long_ago]
    assert is_due(facts, wanted_below=True) is (schedule == "downstream" or never)
