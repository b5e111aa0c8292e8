"""What pg_trickle's watermarks are tested with, and what it does not test, with our value where ours differs, and why.

★: theirs is another. The W, G, P and E rows of the table, and L1, by its names. The rows about what a refresh computes
(C, X) are no rules of completeness: `REFRESHED` names the tests of tables that have them. C1 to C4, C7, C8 and C10 are
about keeping a result up to date by its changes: every table is computed in full here, so it is what its query says by
construction. There is no fuse (F): how many rows came says nothing of whether they are complete.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.progress import cut
from tidegate.progress.board import Board, Gated
from tidegate.progress.cut import Choice, InputState, Mode, Problem, Standing, Verdict, decide
from tidegate.progress.groups import AtLeast, Group, WhenStuck, alignment
from tidegate.progress.ranges import Range
from tidegate.progress.retention import Hold, Pruning, lowered
from tidegate.progress.retries import GiveUp, RetryBudget, RetryIn, Severity, decide_retry
from tidegate.progress.watermarks import ValueKind, Vector, Watermark, parse_watermark
from tidegate.sources import advances
from tidegate.tables.documents import Happening, Row, TableDocument
from tidegate.testing.clock import ManualClock
from tidegate.testing.interleaving import Order, explore

MINUTE_US = 60_000_000
PAIR = Group(name="pair", sources=("a", "b"), bootstrap_open=False)


def at(clock: str) -> Watermark:
    """A time of one day."""
    return parse_watermark(f"2026-03-01T{clock}Z")


NOON_US = at("12:00:00").value


def table(source: str, *times: str, name: str | None = None) -> InputState:
    """A lake table with a version for each time through which its source was complete."""
    choices = tuple(Choice(version=n, vector=Vector({source: at(time)})) for n, time in enumerate(times))
    return InputState(name=name or source, roots=frozenset((source,)), choices=choices)


def gate(*inputs: InputState, groups: Sequence[Group] = (PAIR,), mode: Mode = Mode.GATE, **more: object) -> Verdict:
    """The verdict on a table over these."""
    return decide(mode, inputs, groups, now_us=NOON_US, **more)  # type: ignore[arg-type]


def advance(store: Store, source: str, clock: str) -> advances.SourceDocument:
    """Somebody says how far the source is complete."""
    return advances.advance(store, source, ValueKind.TIMESTAMP, at(clock), by="etl")


def test_w1_a_watermark_does_not_go_back() -> None:
    """An error, and nothing has changed."""
    store = MemoryStore()
    advance(store, "a", "12:00:00")
    with pytest.raises(errors.WatermarkBackwards):
        advance(store, "a", "11:00:00")
    assert advances.watermark(advances.read(store, "a")) == at("12:00:00")


def test_w2_saying_the_same_again_is_no_error() -> None:
    """★ Theirs touches nothing by it; ours is a heartbeat, and the log has one entry for each value."""
    store = MemoryStore()
    for clock in ("12:00:00", "12:00:00", "13:00:00"):
        document = advance(store, "a", clock)
    assert [one.value for one in document.log] == [at("12:00:00"), at("13:00:00")]


def test_w3_groups_that_cannot_be_are_refused_and_a_group_of_one_can() -> None:
    """★ Theirs refuses one member; ours waits there for `at_least`. Unknown names are refused when a project loads."""
    assert Group(name="one", sources=("a",)).sources == ("a",)
    for wrong in ({"sources": ()}, {"sources": ("a", "a")}, {"sources": ("a", "b"), "tolerance": -5}):
        with pytest.raises(ValueError, match="group g"):
            Group(name="g", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "tolerance_s", "is_aligned", "lag_s"),
    [
        ((None, None), 0, False, None),
        (("12:00:00", None), 0, False, None),
        (("12:05:00", "11:55:00"), 0, False, 600),
        (("12:00:30", "12:00:00"), 60, True, 30),
    ],
)
def test_w4_the_status_of_a_group(
    values: tuple[str | None, str | None], tolerance_s: int, is_aligned: bool, lag_s: int | None
) -> None:
    """★ With less than two values theirs reports aligned with lag 0; ours is bootstrapping and has no lag."""
    known = {name: None if clock is None else at(clock) for name, clock in zip("ab", values, strict=True)}
    told = alignment(replace(PAIR, tolerance=tolerance_s * 1_000_000), known, NOON_US)
    assert (told.aligned, told.lag) == (is_aligned, None if lag_s is None else lag_s * 1_000_000)
    assert bool(told.missing) is (None in values)


def test_w5_w6_a_join_waits_until_its_sources_agree() -> None:
    """The reason names the group; once they do, it is refreshed from what is newest."""
    blocked = gate(table("a", "12:05:00"), table("b", "11:55:00"))
    assert (blocked.standing, blocked.code, blocked.blocked_by) == (Standing.CLOSED, cut.APART, ("b",))
    assert blocked.reason == "b is 10m behind a in group pair (tolerance 0s)"
    assert not gate(table("a", "12:05:00"), table("b", "11:55:00", "12:05:00")).is_closed


def test_w7_within_the_tolerance_it_is_refreshed() -> None:
    """120 seconds, one minute apart."""
    group = replace(PAIR, tolerance=2 * MINUTE_US)
    assert not gate(table("a", "12:01:00"), table("b", "12:00:00"), groups=[group]).is_closed


def test_w8_a_manual_refresh_obeys_unless_it_is_forced() -> None:
    """★ Theirs never gates it. Forced is mode `none` over the same versions, and the groups are named as ungated."""
    inputs = table("a", "12:05:00"), table("b", "11:55:00")
    assert gate(*inputs).is_closed
    assert gate(*inputs, mode=Mode.NONE).standing is Standing.OPEN


def test_w9_a_table_over_one_member_does_not_wait_for_the_other() -> None:
    """Only what meets in a table must agree there."""
    assert not gate(table("a", "12:05:00")).is_closed


def test_w10_w11_a_stuck_source_pauses_and_goes_on_when_it_is_heard_of() -> None:
    """Pausing is what the group asked for; otherwise it warns. Without a timeout nobody is ever stuck."""
    inputs = table("a", "12:00:00"), table("b", "12:00:00")
    group = replace(PAIR, stuck_after_us=1_000_000, when_stuck=WhenStuck.PAUSE)
    silent: Mapping[str, int | None] = dict.fromkeys("ab", NOON_US - 1_500_000)
    stuck = gate(*inputs, groups=[group], heard_us=silent)
    assert (stuck.code, stuck.blocked_by, stuck.stuck) == (cut.STUCK, ("a", "b"), ("a", "b"))
    assert not gate(*inputs, groups=[group], heard_us=dict.fromkeys("ab", NOON_US)).is_closed
    assert not gate(*inputs, groups=[replace(group, stuck_after_us=None)], heard_us=silent).stuck


def summaries() -> tuple[InputState, InputState]:
    """A fresh summary of a, and one of b that has not been refreshed since 11:55."""
    return table("a", "11:55:00", "12:05:00", name="a_summary"), table("b", "11:55:00", name="b_summary")


def test_g1_a_report_over_summaries_waits_though_each_summary_is_refreshed() -> None:
    """★ Theirs looks at direct sources only, and refreshes the report."""
    a, b = summaries()
    assert not gate(a).is_closed
    assert not gate(b).is_closed
    assert gate(a, b).blocked_by == ("b",)


def test_g2_hold_back_reads_the_versions_that_agree() -> None:
    """Both up to 11:55; no later order is visible."""
    held = gate(*summaries(), mode=Mode.HOLD_BACK)
    assert (held.standing, {name: one.version for name, one in held.cut.items()}) == (
        Standing.CAPPED,
        {"a_summary": 0, "b_summary": 0},
    )
    assert held.effective == {"pair": at("11:55:00")}


def test_g3_a_day_of_unequal_steps() -> None:
    """Orders every 5 minutes and 5 late, lines every 10 and 15 late, tolerance 0.

    A gate never opens; hold_back gives every common time of the day.
    """
    orders = [Watermark.of_micros(minute * MINUTE_US) for minute in range(5, 1500, 5)]
    lines = [Watermark.of_micros(minute * MINUTE_US) for minute in range(10, 1500, 10)]
    opened, cuts = 0, []
    for now in range(5, 1456, 5):
        inputs = [
            InputState(
                name=name,
                roots=frozenset((name,)),
                choices=tuple(
                    Choice(version=n, vector=Vector({name: value}))
                    for n, value in enumerate(values)
                    if value.value <= (now - lag) * MINUTE_US
                )[-6:],
            )
            for name, values, lag in (("a", orders, 5), ("b", lines, 15))
        ]
        opened += decide(Mode.GATE, inputs, [PAIR], now_us=0).standing is Standing.OPEN
        held = decide(Mode.HOLD_BACK, inputs, [PAIR], now_us=0)
        if not held.is_closed and held.effective["pair"] not in cuts:
            cuts.append(held.effective["pair"])
    assert opened == 0
    assert (len(cuts), cuts[-1]) == (144, Watermark.of_micros(1440 * MINUTE_US))


def test_g4_of_two_that_advance_at_once_the_higher_one_stays() -> None:
    """★ Theirs reads, compares and writes without a lock, and can end at 11:00. Ours in every order there is."""

    def race(order: Order) -> None:
        store = MemoryStore()
        advance(store, "a", "10:00:00")
        watched = order.watched(store)
        order.run(noon=lambda: advance(watched, "a", "12:00:00"), eleven=lambda: advance(watched, "a", "11:00:00"))
        assert advances.watermark(advances.read(store, "a")) == at("12:00:00")

    assert explore(race) > 5


def test_g5_what_was_not_committed_is_not_known() -> None:
    """A transaction that fails leaves the gate as it was; rows and watermark come together, in one version."""
    before = table("a", "11:55:00"), table("b", "11:55:00")
    assert gate(*before).effective == {"pair": at("11:55:00")}
    after = table("a", "11:55:00", "12:00:00"), table("b", "11:55:00", "12:00:00")
    assert gate(*after).vector == Vector({"a": at("12:00:00"), "b": at("12:00:00")})


def test_g6_every_group_must_hold_and_the_reason_names_the_one_that_does_not() -> None:
    """Groups (a, b) and (b, c); only the second is misaligned."""
    second = Group(name="g2", sources=("b", "c"), bootstrap_open=False)
    verdict = gate(table("a", "12:00:00"), table("b", "12:00:00"), table("c", "11:00:00"), groups=[PAIR, second])
    assert verdict.reason == "c is 1h behind b in group g2 (tolerance 0s)"


def test_g7_bootstrap_is_closed_or_runs_ungated_and_says_so() -> None:
    """c never reported."""
    c = InputState(name="c", roots=frozenset("c"), choices=(Choice(version=0),))
    inputs = table("a", "12:00:00"), table("b", "12:00:00"), c
    three = Group(name="three", sources=("a", "b", "c"), bootstrap_open=False)
    closed = gate(*inputs, groups=[three])
    assert (closed.code, closed.blocked_by) == (cut.NOT_REPORTED, ("c",))
    opened = gate(*inputs, groups=[replace(three, bootstrap_open=True)])
    assert (opened.standing, opened.ungated, opened.effective) == (Standing.OPEN, ("three",), {})
    later = gate(*inputs, groups=[replace(three, bootstrap_open=True)], in_use=frozenset({"three"}))
    assert later.blocked_by == ("c",)


def test_g8_one_watermarked_source_must_have_come_far_enough() -> None:
    """Rates joined to plain orders: closed at 08:59, open at 09:00. ★ Theirs has no group of one."""
    rates = Group(name="rates", sources=("fx_rates",), at_least=AtLeast(value=at("09:00:00")))
    plain = InputState(name="orders", roots=frozenset(("orders",)), choices=(Choice(version=3),))
    assert gate(table("fx_rates", "08:59:00"), plain, groups=[rates]).blocked_by == ("fx_rates",)
    assert not gate(table("fx_rates", "09:00:00"), plain, groups=[rates]).is_closed


def test_g9_a_quiet_source_that_says_so_is_not_stuck() -> None:
    """★ Theirs takes the same value for silence. One heartbeat a minute, ten allowed."""
    clock = ManualClock()
    store = MemoryStore(clock)
    group = replace(PAIR, stuck_after_us=10 * MINUTE_US)
    for _ in range(30):
        document = advance(store, "a", "12:00:00")
        clock.advance(MINUTE_US)
    assert not group.is_stuck(document.heard_at_us, document.heard_at_us + MINUTE_US)
    assert group.is_stuck(document.heard_at_us, document.heard_at_us + 11 * MINUTE_US)


def test_g10_a_tolerance_that_is_altered_counts_at_once() -> None:
    """Raised: open without new data. Lowered while in use: what the table shows stays, and it waits for a cut at or
    above it."""
    inputs = table("a", "12:05:00"), table("b", "11:55:00")
    wide = replace(PAIR, tolerance=10 * MINUTE_US)
    assert gate(*inputs).is_closed
    assert not gate(*inputs, groups=[wide]).is_closed
    shown = replace(inputs[0], choices=inputs[0].choices[-1:])
    lowered_again = gate(shown, inputs[1], mode=Mode.HOLD_BACK)
    assert (lowered_again.standing, lowered_again.blocked_by) == (Standing.CLOSED, ("b",))
    caught_up = gate(shown, table("b", "11:55:00", "12:05:00"), mode=Mode.HOLD_BACK)
    assert caught_up.effective == {"pair": at("12:05:00")}


def test_g11_what_is_known_of_a_source_goes_by_its_name() -> None:
    """★ Theirs goes by a table's internal number, which a restore changes; groups and watermarks come loose."""
    store = MemoryStore()
    advance(store, "a", "12:00:00")
    assert advances.watermark(advances.read(store, "a")) == at("12:00:00")
    assert PAIR.sources == ("a", "b")


def test_g12_whatever_cannot_be_read_closes_the_gate() -> None:
    """★ Theirs warns, and refreshes. The error is the reason."""
    broken = InputState(name="b", roots=frozenset("b"), problem=Problem(code="TG-K003", text="lake table b: torn"))
    for mode in Mode:
        verdict = gate(table("a", "12:00:00"), broken, mode=mode)
        assert (verdict.standing, verdict.code, verdict.reason) == (Standing.CLOSED, "TG-K003", "lake table b: torn")


def test_g13_members_of_a_diamond_that_read_different_versions_do_not_meet() -> None:
    """★ Theirs publishes a mixed one. Two tables over a, one refreshed later: what reads both waits, or goes back."""
    left, right = table("a", "11:00:00", "12:00:00", name="left"), table("a", "11:00:00", name="right")
    closed = gate(left, right, groups=[])
    assert (closed.code, closed.blocked_by) == (cut.INPUTS_APART, ("a",))
    held = gate(left, right, groups=[], mode=Mode.HOLD_BACK)
    assert held.vector == Vector({"a": at("11:00:00")})


def test_g14_whoever_asks_gets_the_same_verdict() -> None:
    """★ Theirs has six copies of the check. The scheduler's board and a single question are one rule."""
    inputs = {"a": table("a", "12:05:00"), "b": table("b", "11:55:00")}
    tables = [Gated(name=mode.value, mode=mode, inputs=("a", "b"), groups=(PAIR,)) for mode in Mode]
    board = Board(tables, inputs.values())
    for one in tables:
        alone = decide(one.mode, list(inputs.values()), one.groups, now_us=NOON_US)
        assert board.standing(one.name, now_us=NOON_US) is alone.standing
        assert board.verdict(one.name, now_us=NOON_US) == alone


def test_g15_an_hour_of_waiting_is_one_row_of_history() -> None:
    """★ Theirs writes one for each second. The count and the interval are exact."""
    waiting = gate(table("a", "12:05:00"), table("b", "11:55:00"))
    document = TableDocument(table="report")
    for second in range(3600):
        at_us = NOON_US + second * 1_000_000
        document = document.told(
            Row(
                happening=Happening.WAITED,
                at_us=at_us,
                until_us=at_us,
                reason=waiting.reason,
                code=waiting.code,
                blocked_by=waiting.blocked_by,
            )
        )
    [row] = document.history
    assert (row.count, row.at_us, row.until_us) == (3600, NOON_US, NOON_US + 3599 * 1_000_000)


def test_l1_rows_that_come_before_the_word_about_them_are_not_read_back() -> None:
    """What a version may hold beyond its watermark waits, or is read up to the watermark only."""
    open_rows = Choice(version=1, vector=Vector({"a": at("11:55:00")}), holds_more=True)
    a = InputState(name="a", roots=frozenset("a"), choices=(*table("a", "11:55:00").choices, open_rows))
    b = table("b", "11:55:00")
    assert gate(a, b, mode=Mode.HOLD_BACK).cut["a"].version == 0
    by_row = gate(replace(a, by_row=True), b, mode=Mode.HOLD_BACK)
    assert (by_row.cut["a"].version, by_row.cut["a"].bound) == (1, at("11:55:00"))


def test_p1_nothing_that_a_slow_reader_needs_is_pruned() -> None:
    """And it is named."""
    floor = lowered(100, [Hold(holder="table fast", number=90), Hold(holder="table slow", number=10)])
    assert (floor.number, floor.held_by[0].holder) == (10, "table slow")


def test_p2_what_arrives_after_the_pruner_decided_survives() -> None:
    """A decision is a range of numbers; what is written later has another number, or waits behind the hold."""
    pruning = Pruning(start=0)
    decided = pruning.chunks(10, 4)
    assert decided == [Range(0, 4), Range(4, 8), Range(8, 10)]
    late = 11
    assert not any(late in chunk for chunk in decided)


def test_e1_three_transient_errors_use_the_budget_up_and_a_permanent_one_at_once() -> None:
    """A sibling has a budget of its own."""
    budget, rng = RetryBudget(attempts=3), random.Random(1)
    answers = [decide_retry(budget, attempt, Severity.TRANSIENT, rng) for attempt in (1, 2, 3)]
    assert [type(one) for one in answers] == [RetryIn, RetryIn, GiveUp]
    assert isinstance(decide_retry(budget, 1, Severity.PERMANENT, rng), GiveUp)
    assert isinstance(decide_retry(budget, 1, Severity.TRANSIENT, rng), RetryIn)


REFRESHED = {
    # ★ Theirs leaves the timestamp as it was; ours is complete to more, and Spark is not started for that.
    "c5": "unit/tables/test_maintainer.py::test_a_value_that_a_loader_raised_without_new_rows_reaches_the_tables",
    "c6": "spark/tables/test_tables.py::test_tables_over_tables_are_complete_to_what_they_were_made_from",
    "c6_in_one_go": "unit/tables/test_maintainer.py::test_downstream_tables_are_computed_when_one_above_is_due",
    "c9": "spark/tables/test_tables.py::test_an_equal_value_with_another_version_binds_again",
    "x1": "spark/tables/test_queries.py::test_queries_are_read_as_spark_reads_them",
    "x2": "crash/test_broken_builds.py::test_",
}


@pytest.mark.parametrize("place", REFRESHED.values(), ids=REFRESHED)
def test_what_belongs_to_the_refresh_is_tested_with_it(place: str) -> None:
    """There is a test of that name."""
    path, name = place.split("::")
    assert f"\ndef {name}" in (Path(__file__).parents[2] / path).read_text(encoding="utf-8")
