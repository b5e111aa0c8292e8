"""Keeping tables fresh, as far as that needs no Spark: one verdict for everybody, and what is remembered."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tables.lakes import SHAPE, World, n, vector
from tests.unit.tables.shop import PAIR, shop
from tidegate import errors
from tidegate.lake.log import Kind, Metadata
from tidegate.ledger import leases
from tidegate.project import loading
from tidegate.service import Service
from tidegate.tables.contents import superseded
from tidegate.tables.documents import Happening, TableDocument, lease_key, state_key
from tidegate.tables.graph import Declared
from tidegate.tables.judge import judge
from tidegate.views.tables import table_status

JOIN = "SELECT * FROM orders JOIN order_lines USING (id)"
RATES = "-- gating: gate\nSELECT * FROM fx_rates"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_closed_gate_is_noted_once_and_counted_when_there_is_more_to_read(world: World) -> None:
    """A look a second is not a row a second."""
    declared = shop(PAIR, t=JOIN)
    world.publish("orders", 2)
    world.publish("order_lines", 1)
    maintainer = world.maintainer(declared)
    for _ in range(3):
        assert maintainer.step() == []
    assert maintainer.waiting == {"t"}
    assert [(one.happening, one.count) for one in world.document("t").history] == [(Happening.WAITED, 1)]
    world.publish("orders", 3)
    maintainer.step()
    [row] = world.document("t").history
    assert (row.count, row.blocked_by) == (2, ("order_lines",))
    assert row.reason == "order_lines is 2 behind orders in group order_pipeline (tolerance 0)"
    assert [event for event, _ in world.said] == ["table_waits", "table_waits"]


def test_what_a_query_reads_is_remembered_for_those_who_have_no_parser(world: World) -> None:
    """`status` reads it from the ledger; of a query that a glance misreads, too."""
    declared = shop(PAIR, t="WITH orders AS (SELECT * FROM orders) SELECT * FROM orders JOIN order_lines USING (id)")
    world.publish("orders", 2)
    assert [one.name for one in world.facts(declared, "t").node.inputs] == ["order_lines"]
    world.maintainer(declared).step()
    assert [one.name for one in world.facts(declared, "t").node.inputs] == ["orders", "order_lines"]


def test_a_value_that_a_loader_raised_without_new_rows_reaches_the_tables_without_spark(world: World) -> None:
    """The contents stay, and say more of themselves: else a table above would wait for ever."""
    declared = shop(rates=RATES)
    world.append("fx_rates")
    world.advance("fx_rates", 1, 0)
    world.show(declared, "rates")
    maintainer = world.maintainer(declared)
    assert maintainer.step() == []
    world.advance("fx_rates", 2, 0)
    [done] = maintainer.step()
    assert (done.how.value, done.version, done.rows) == ("unchanged", 1, 1)
    assert world.facts(declared, "rates").metadata.vector == vector(fx_rates=2)  # type: ignore[union-attr]
    assert maintainer.step() == []


def test_an_ungated_table_is_gated_once_the_missing_source_has_reported(world: World) -> None:
    """Also when it reports of the version that was read already."""
    group = replace(PAIR, sources=("fx_rates",))
    declared = shop(group, rates=RATES)
    world.append("fx_rates")
    world.show(declared, "rates")
    assert table_status(world.facts(declared, "rates")).ungated
    world.advance("fx_rates", 2, 0)
    world.maintainer(declared).step()
    status = table_status(world.facts(declared, "rates"))
    assert (status.ungated, status.effective_watermarks, status.problems) == (False, {group.name: n(2)}, ())


def test_a_table_without_a_group_is_complete_to_what_it_was_made_from(world: World) -> None:
    """So that `wait` returns when `read --complete-to` would; of what one source says nothing, nothing is complete."""
    declared = shop(rates=RATES, both="SELECT * FROM fx_rates, orders")
    world.append("fx_rates")
    world.advance("fx_rates", 3, 0)
    world.publish("orders", None)
    for name, reached in (("rates", n(3)), ("both", None)):
        assert table_status(world.facts(declared, name)).complete_to is None
        world.show(declared, name)
        status = table_status(world.facts(declared, name))
        assert (status.complete_to, status.effective_watermark) == (reached, None)


def test_a_table_that_is_held_back_over_one_that_is_not_is_warned(tmp_path: Path) -> None:
    """What is in between reads the newest, and may never have been at a version that agrees with the others."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tidegate.yml").write_text(YAML)
    for name, query in {
        "free": "SELECT * FROM orders",
        "held": "-- gating: hold_back\nSELECT * FROM orders",
        "over_free": "-- gating: hold_back\nSELECT * FROM free, order_lines",
        "over_held": "-- gating: hold_back\nSELECT * FROM held, order_lines",
    }.items():
        (tmp_path / "tables" / f"{name}.sql").write_text(query)
    with Service.open(tmp_path) as service:
        warned = "free reads its newest inputs and may have skipped a version that over_free could be cut at"
        assert service.explain("over_free").facts["warning"] == warned
        assert service.explain("over_held").facts["warning"] is None


def test_a_load_that_died_before_it_told_is_heard_before_tables_are_judged(world: World) -> None:
    declared = shop(rates=RATES)
    world.load("fx_rates", 1)
    world.show(declared, "rates")
    world.maintainer(declared).step()
    assert world.facts(declared, "rates").metadata.vector == vector(fx_rates=1)  # type: ignore[union-attr]


def test_a_document_of_a_source_that_cannot_be_read_closes_the_gate_of_who_reads_it_alone(world: World) -> None:
    declared = shop(rates=RATES, sums="SELECT * FROM orders")
    world.append("fx_rates")
    world.advance("fx_rates", 1, 0)
    world.publish("orders", 1)
    sealed = world.shelf.documents["sources/fx_rates/watermark"]
    for version, kept in list(sealed.items()):
        sealed[version] = replace(kept, sealed=kept.sealed[:-1] + b"?")
    closed = judge(world.facts(declared, "rates"))
    assert closed.is_closed
    assert closed.code == errors.CorruptCheckpoint.code
    assert not judge(world.facts(declared, "sums")).is_closed


def test_a_table_that_another_runner_refreshes_is_left_to_it(world: World) -> None:
    declared = shop(sums="SELECT * FROM orders")
    world.publish("orders", 1)
    leases.acquire(world.store, lease_key("sums"), name="sums")
    maintainer = world.maintainer(declared)
    assert maintainer.step() == []
    assert maintainer.waiting == {"sums"}
    with pytest.raises(errors.LeaseHeld):
        maintainer.refresh("sums")


def test_a_refresh_that_failed_rests_and_is_not_tried_again_over_the_same_in_one_go(world: World) -> None:
    """A run of `--once` goes round until nothing changes, and what cannot be is computed once in it."""
    declared = shop(sums="SELECT * FROM orders")
    world.publish("orders", 1)
    strange = Metadata(kind=Kind.REFRESH, table="sums", owner="somebody else", epoch=1, token=1)
    world.lake("sums").commit(strange, shape=SHAPE)
    maintainer = world.maintainer(declared)

    def failures(*, again: bool) -> int:
        assert maintainer.step(again=again) == []
        assert maintainer.failed == {"sums"}
        return sum(event == "table_failed" for event, _ in world.said)

    assert [failures(again=True), failures(again=True), failures(again=False)] == [1, 1, 1]
    world.clock.advance(1_000_000)
    assert [failures(again=False), failures(again=True)] == [1, 2]
    world.clock.advance(1_000_000)
    assert failures(again=True) == 2  # the rest is longer each time
    world.publish("orders", 2)
    assert failures(again=False) == 3  # other rows may work out
    assert world.document("sums").failure is not None


def test_a_circle_and_a_name_that_is_nothing_are_refused_before_anything_is_done(world: World) -> None:
    for declared in (shop(a="SELECT * FROM b", b="SELECT * FROM a"), shop(a="SELECT * FROM nothing")):
        with pytest.raises(errors.ConfigError, match=r"tables/[ab].sql:1: "):
            world.maintainer(declared)
    assert list(world.store.list("")) == []


def test_downstream_tables_are_computed_when_one_above_is_due(world: World) -> None:
    declared = shop(
        low="-- schedule: downstream\nSELECT * FROM orders",
        mid="-- schedule: downstream\nSELECT * FROM low",
        top="-- schedule: every 1h\nSELECT * FROM mid",
        idle="-- schedule: downstream\nSELECT * FROM orders",
        hand="-- schedule: manual\nSELECT * FROM idle",
    )
    world.publish("orders", 1)
    maintainer = world.maintainer(declared)
    with pytest.raises(errors.SparkUnavailable):
        maintainer.step()  # low is computed for top
    for name in ("low", "mid", "top"):
        world.show(declared, name)
    world.publish("orders", 2)
    assert maintainer.step() == []
    world.clock.advance(3_600_000_000)
    with pytest.raises(errors.SparkUnavailable):
        maintainer.step()


# what is kept


def test_who_is_held_back_before_its_first_refresh_keeps_what_it_may_read(world: World) -> None:
    """Orders are always ahead of the lines: without the old versions of both there would never be a first cut."""
    declared = shop(PAIR, t=f"-- gating: hold_back\n{JOIN}")
    world.publish("orders", 1)
    world.publish("orders", 2)
    maintainer = world.maintainer(declared)
    maintainer.step()
    assert world.document("t").kept_from == {"orders": 0}
    world.publish("order_lines", 0)
    world.prune("orders", "data/0.parquet", reader_lo=1)
    world.publish("orders", 3)
    maintainer.step()
    assert world.document("t").kept_from == {"orders": 0, "order_lines": 0}
    world.publish("order_lines", 1)
    read = {name: one.version for name, one in judge(world.facts(declared, "t")).cut.items()}
    assert read == {"orders": 0, "order_lines": 1}


def test_the_versions_of_a_table_that_were_cleaned_are_not_read_by_a_new_one_above(world: World) -> None:
    declared = shop(sums="SELECT * FROM orders", top="-- gating: hold_back\nSELECT * FROM sums")
    for value in (1, 2, 3):
        world.publish("orders", value)
        world.show(declared, "sums")
    assert len(world.facts(declared, "top").inputs[0].choices) == 3
    cleaned = TableDocument(table="sums", readable_from=2)
    world.store.put(state_key("sums"), cleaned.to_body(), expect=None)
    assert [one.version for one in world.facts(declared, "top").inputs[0].choices] == [2]


def test_files_of_replaced_versions_go_when_nobody_needs_them_and_the_delay_is_over(world: World) -> None:
    table = world.lake("sums")
    for number in range(4):
        removed = (f"data/{number - 1}.parquet",) if number else ()
        world.commit("sums", Kind.REFRESH, removed=removed)
        world.clock.advance(10)
    at_us = [one.at_us for one in table.versions()]

    def left(needed_from: int | None, before_us: int) -> tuple[int, tuple[str, ...]]:
        found = superseded(table.removals(), readable_from=0, needed_from=needed_from, before_us=before_us)
        return found.readable_from, tuple(sorted(found.paths))

    every = ("data/0.parquet", "data/1.parquet", "data/2.parquet")
    assert left(None, at_us[3]) == (3, every)
    assert left(None, at_us[2]) == (2, every[:2])
    assert left(1, at_us[3]) == (1, every[:1])
    assert left(3, at_us[3]) == (3, every)
    assert left(0, at_us[3]) == (0, ())


# one verdict for everybody

YAML = """\
name: shop
ledger: "memory:"
sources:
  orders: {type: landing, path: in/orders, format: json, schema: "id BIGINT", watermark: integer}
  order_lines: {type: landing, path: in/order_lines, format: json, schema: "id BIGINT", watermark: integer}
  fx_rates: {type: external, table: lake/fx_rates, watermark: integer}
pipelines:
  orders: {source: orders, sinks: [{name: lake, type: delta}]}
  order_lines: {source: order_lines, sinks: [{name: lake, type: delta}]}
groups:
  pair: {sources: [orders, order_lines, fx_rates], tolerance: 1, bootstrap: closed}
"""
TABLES = {
    "gated": f"-- gating: gate\n{JOIN}",
    "held": f"-- gating: hold_back\n{JOIN}",
    "free": f"-- gating: none\n{JOIN}",
    "rated": "-- gating: gate\nSELECT * FROM orders, fx_rates",
    "above": "-- gating: hold_back\nSELECT * FROM gated JOIN held USING (id)",
}
STEPS = st.lists(
    st.tuples(st.sampled_from(["orders", "order_lines", "fx_rates", "prune", "refresh"]), st.integers(0, 2)),
    max_size=10,
)


@settings(max_examples=8, deadline=None)
@given(steps=STEPS, act=st.sampled_from(["refresh", "scheduler"]))
def test_status_explain_refresh_and_the_scheduler_give_one_verdict(steps: list[tuple[str, int]], act: str) -> None:
    """What `status` calls closed nobody refreshes, for that reason; what it does not, everybody would."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tables").mkdir()
        (root / "tidegate.yml").write_text(YAML)
        for name, query in TABLES.items():
            (root / "tables" / f"{name}.sql").write_text(query)
        world = World(root / "lake")
        declared = loading.load(root)
        with Service(declared, clock=world.clock) as service:
            world.store = service.store
            reached: dict[str, int] = {}
            for what, by in steps:
                world.clock.advance(1)
                if what == "refresh":
                    for name in TABLES:
                        if not judge(world.facts(declared, name)).is_closed:
                            world.show(declared, name)
                elif what == "prune":
                    if world.lake("orders").head() is not None:
                        world.prune("orders", reader_lo=by)
                elif what == "fx_rates":
                    reached[what] = reached.get(what, 0) + by
                    world.advance(what, reached[what], world.append(what))
                else:
                    reached[what] = reached.get(what, 0) + by
                    world.publish(what, reached[what])
            for name in TABLES:
                status, told = service.status().tables[name], service.explain(name)
                verdict = judge(world.facts(declared, name))
                assert told.standing == status.verdict == verdict.standing.value
                acted = (_asked if act == "refresh" else _scheduled)(world, declared, name)
                assert acted == (status.reason if verdict.is_closed else status.next_refresh["mode"])


def _asked(world: World, declared: Declared, name: str) -> str | None:
    """What a refresh on demand comes to: its mode, None for nothing, or the reason why not."""
    try:
        done = world.maintainer(declared).refresh(name)
    except errors.GateClosed as closed:
        return str(closed.fields["reason"])
    except errors.SparkUnavailable:
        return "full"
    return None if done is None else done.how.value


def _scheduled(world: World, declared: Declared, name: str) -> str | None:
    """The same of a run that looks at the table."""
    maintainer = world.maintainer(declared, name)
    try:
        done = maintainer.step()
    except errors.SparkUnavailable:
        return "full"
    if maintainer.waiting:
        return str(world.said[-1][1]["reason"])
    return done[0].how.value if done else None
