"""What a pipeline means to do next: which numbers, cut how, up to where, and what it has learned of its source."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pipelines.builders import document_of, minute, rules_of, spec_of
from tidegate.clock import to_micros
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.pipelines.declare import Batching, Keeping, PipelineMode, PipelineSpec
from tidegate.pipelines.documents import PipelineDocument, PlanDocument
from tidegate.pipelines.intent import Intent, Planner, View, started, tracker_of
from tidegate.progress.event_time import AllIdle
from tidegate.progress.partition_state import PartState, TrackerState
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.retention import Retention
from tidegate.progress.watermarks import ValueKind
from tidegate.sinks.specs import From
from tidegate.sources import advances
from tidegate.sources.contract import Source
from tidegate.sources.generator import GeneratorSource
from tidegate.sources.landing import LandingSource
from tidegate.sources.numbered import NumberedSource
from tidegate.sources.specs import (
    EventTime,
    FileFormat,
    GeneratorSpec,
    LandingSpec,
    NumberedSpec,
    Reading,
    WatermarkKind,
)
from tidegate.testing.clock import ManualClock

READING = Reading(format=FileFormat.JSON, schema="id BIGINT")
SECOND_US = 1_000_000


class Bench:
    """A source in a folder, and a planner that remembers what it planned, as a run would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.store: Store = MemoryStore(self.clock)
        self.document: PipelineDocument = document_of()
        self.plans: list[PlanDocument] = []
        self.busy = 0
        self.is_throttled = False

    def numbered(self, **options: Any) -> NumberedSource:
        spec = NumberedSpec(
            name="orders", watermark=WatermarkKind.CHECKPOINT, path="in/{number}.json", reading=READING, **options
        )
        return NumberedSource(spec, root=self.root, clock=self.clock)

    def landing(self) -> LandingSource:
        spec = LandingSpec(name="orders", watermark=WatermarkKind.TIMESTAMP, path="in", reading=READING)
        return LandingSource(spec, root=self.root, store=self.store)

    def generator(self, **options: Any) -> GeneratorSource:
        given = {"rows_per_checkpoint": 100, "checkpoints": 10} | options
        spec = GeneratorSpec(
            name="orders", watermark=WatermarkKind.EVENT_TIME, event_time=EventTime(column="at"), **given
        )
        return GeneratorSource(spec, store=self.store, clock=self.clock)

    def land(self, *names: object, size: int = 10, at_s: int = 0) -> None:
        for place, name in enumerate(names):
            path = self.root / "in" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)
            os.utime(path, (at_s + place, at_s + place))

    def advance(self, source: Source, value: int) -> None:
        """What a loader says now, as the service records it."""
        ends = source.ends().ends  # type: ignore[attr-defined]
        advances.advance(self.store, "orders", ValueKind.TIMESTAMP, minute(value), by="me", ends=ends)

    def planner(self, source: Source, spec: PipelineSpec | None = None, *, once: bool = True, **rules: Any) -> Planner:
        kind = rules.pop("kind", source.spec.watermark)
        return Planner(
            spec=spec or spec_of(), source=source, store=self.store, rules=rules_of(kind, **rules), once=once
        )

    def plan(self, planner: Planner) -> list[Range]:
        """One step; the batches that it planned."""
        intent = self.intent(planner)
        self.document = intent.document
        self.plans += intent.plans
        return [plan.range for plan in intent.plans]

    def intent(self, planner: Planner) -> Intent:
        now_us = to_micros(self.clock.now())
        view = View(
            document=self.document,
            plans=self.plans,
            busy=self.busy,
            now_us=now_us,
            token=7,
            is_throttled=self.is_throttled,
        )
        return planner.plan(view)

    def complete(self, *, published: bool = True) -> None:
        """All that is planned is delivered and published."""
        end = max((plan.range.hi for plan in self.plans), default=self.document.marks.end or 0)
        lake = replace(self.document.sinks["lake"], delivered=RangeSet.of(Range(0, end)))
        if published:
            self.plans, lake = [], replace(lake, published_end=end)
        self.document = replace(self.document, marks=self.document.marks.advanced(end), sinks={"lake": lake})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def inflight(number: int, **options: Any) -> PipelineSpec:
    return spec_of(batch=Batching(max_inflight=number, **options))


# sources with numbers of their own


def test_the_lowest_number_that_is_there_at_the_first_plan_is_the_first_for_ever(bench: Bench) -> None:
    """Lower ones that come later are counted and ignored."""
    bench.land(20_005, 20_006)
    planner = bench.planner(bench.numbered(), inflight(1), once=False)
    assert bench.plan(planner) == [Range(20_005, 20_007)]
    bench.land(3, 20_004)
    bench.clock.advance(SECOND_US)
    assert bench.plan(planner) == []
    assert (bench.document.marks.first, bench.document.below_first) == (20_005, 2)


@pytest.mark.parametrize("number", [2**53 - 1, 2**53 + 1, 2**62 - 1])
def test_numbers_may_be_as_large_as_they_like(bench: Bench, number: int) -> None:
    bench.land(number)
    assert bench.plan(bench.planner(bench.numbered())) == [Range(number, number + 1)]


@pytest.mark.parametrize("number", [1, 3])
def test_all_that_is_in_flight_together_is_a_thousand_checkpoints(bench: Bench, number: int) -> None:
    """The batches may all end at once, and the mark steps over them."""
    planner = bench.planner(bench.generator(rows_per_checkpoint=1, checkpoints=5000), inflight(number))
    assert [len(one) for one in bench.plan(planner)] == [1000 // number] * number


def test_an_empty_source_has_no_first_number_yet(bench: Bench) -> None:
    planner = bench.planner(bench.numbered(), once=False)
    assert bench.plan(planner) == []
    assert bench.document.marks.first is None
    bench.land(7)
    assert bench.plan(planner) == [Range(7, 8)]


def test_from_now_begins_behind_what_is_there(bench: Bench) -> None:
    bench.land(0, 1, 2)
    planner = bench.planner(bench.numbered(), spec_of(from_=From.NOW), once=False)
    assert bench.plan(planner) == []
    bench.land(3)
    assert bench.plan(planner) == [Range(3, 4)]


@pytest.mark.parametrize("options", [{}, {"first_checkpoint": 5}])
def test_from_now_over_an_empty_source_takes_all_that_comes(bench: Bench, options: dict[str, Any]) -> None:
    """Nothing was there, so nothing is left out; also when another run sees the first file."""
    spec = spec_of(from_=From.NOW)
    assert bench.plan(bench.planner(bench.numbered(**options), spec)) == []
    bench.land(5, 6)
    assert bench.plan(bench.planner(bench.numbered(**options), replace(spec, batch=Batching(max_inflight=1)))) == [
        Range(5, 7)
    ]


def test_from_a_number_begins_there_and_not_below_the_declared_first(bench: Bench) -> None:
    bench.land(*range(5, 10))
    assert bench.plan(bench.planner(bench.numbered(), replace(inflight(1), from_=7))) == [Range(7, 10)]
    bench.document, bench.plans = document_of(), []
    assert bench.plan(bench.planner(bench.numbered(first_checkpoint=8), replace(inflight(1), from_=2))) == [
        Range(8, 10)
    ]


def test_planning_runs_ahead_of_a_gap_but_only_so_far(bench: Bench) -> None:
    bench.land(0, *range(2, 30))
    planner = bench.planner(bench.numbered(max_ahead=10), inflight(4))
    assert RangeSet(bench.plan(planner)) == RangeSet([Range(0, 1), Range(2, 10)])
    assert bench.plan(planner) == []
    assert bench.document.highest_seen == 29


def test_a_run_of_once_sees_the_end_of_its_beginning(bench: Bench) -> None:
    bench.land(0, 1)
    once, on = bench.planner(bench.numbered(), inflight(1)), bench.planner(bench.numbered(), inflight(1), once=False)
    assert bench.plan(once) == [Range(0, 2)]
    bench.land(2)
    assert bench.plan(once) == []
    assert bench.plan(on) == [Range(2, 3)]


def test_the_free_places_share_what_is_there(bench: Bench) -> None:
    """Four may be under way and one is: three batches of a fourth of it each."""
    bench.busy = 1
    planner = bench.planner(bench.generator(checkpoints=40), inflight(4))
    assert bench.plan(planner) == [Range(0, 10), Range(10, 20), Range(20, 30)]
    bench.busy = 4
    assert bench.plan(planner) == []


def test_a_sequential_pipeline_has_one_batch_under_way(bench: Bench) -> None:
    spec = replace(inflight(8), mode=PipelineMode.SEQUENTIAL)
    planner = bench.planner(bench.generator(), spec)
    assert bench.plan(planner) == [Range(0, 10)]
    bench.busy = 1
    assert bench.plan(planner) == []


@pytest.mark.parametrize(
    ("spec", "batches"),
    [
        (inflight(2, max_events=250), [Range(0, 2), Range(2, 4)]),
        (inflight(2, max_events=50), [Range(0, 1), Range(1, 2)]),
        (inflight(2, max_bytes=48 * 300), [Range(0, 3), Range(3, 6)]),
        (spec_of(retention=Keeping(keep=Retention(checkpoints=32))), [Range(0, 2), Range(2, 4)]),
        (spec_of(retention=Keeping(keep=Retention(checkpoints=4))), [Range(0, 1), Range(1, 2)]),
    ],
)
def test_a_batch_is_within_its_limits_and_a_sixteenth_of_what_is_retained(
    bench: Bench, spec: PipelineSpec, batches: list[Range]
) -> None:
    """Checkpoints of 100 rows of 48 bytes; one that is larger than the limits is a batch of its own."""
    assert bench.plan(bench.planner(bench.generator(), spec)) == batches


def test_a_plan_says_by_what_the_rows_will_be_judged(bench: Bench) -> None:
    """Late below the watermark of now, and too far in the future beyond now and the skew: the same at every try."""
    timed = EventTime(column="at", max_skew_us=5)
    bench.document = replace(document_of(epoch=3), tracker=TrackerState(parts={}, combined_us=77))
    intent = bench.intent(bench.planner(bench.generator(), inflight(1), event_time=timed))
    (plan,) = intent.plans
    assert (plan.late_before_us, plan.future_after_us) == (77, to_micros(bench.clock.now()) + 5)
    assert (plan.epoch, plan.token, plan.source_identity) == (3, 7, "it")
    assert PlanDocument.from_body(plan.to_body()) == plan


# sources that are cut


def test_files_become_checkpoints_that_follow_each_other(bench: Bench) -> None:
    bench.land("a", "b", size=60)
    spec = inflight(4, max_bytes=100)
    planner = bench.planner(bench.landing(), spec, once=False)
    assert bench.plan(planner) == [Range(0, 1), Range(1, 2)]
    bench.land("c")
    assert bench.plan(planner) == [Range(2, 3)]
    assert bench.document.positions == {"0": 3}


def test_the_ends_of_a_run_of_once_are_those_of_its_first_look(bench: Bench) -> None:
    bench.land("a")
    planner = bench.planner(bench.landing())
    assert bench.plan(planner) == [Range(0, 1)]
    bench.land("b")
    assert bench.plan(planner) == []
    assert bench.document.positions == {"0": 1}


def test_from_now_leaves_out_the_files_that_are_there(bench: Bench) -> None:
    bench.land("a", "b")
    planner = bench.planner(bench.landing(), spec_of(from_=From.NOW), once=False)
    assert bench.plan(planner) == []
    bench.land("c")
    assert bench.plan(planner) == [Range(0, 1)]
    assert bench.plans[0].slices[0].parts == {"0": Range(2, 3)}


def test_a_batch_waits_for_more_as_long_as_it_may(bench: Bench) -> None:
    """`max_ms`, counted from when the first file was seen; a run of `--once` does not wait."""
    bench.land("a")
    spec = inflight(1, max_us=SECOND_US)
    planner = bench.planner(bench.landing(), spec, once=False)
    assert bench.plan(planner) == []
    bench.clock.advance(SECOND_US // 2)
    bench.land("b")
    assert bench.plan(planner) == []
    bench.clock.advance(SECOND_US // 2)
    assert bench.plan(planner) == [Range(0, 1)]
    assert bench.plans[0].slices[0].parts == {"0": Range(0, 2)}
    bench.land("c")
    assert bench.plan(bench.planner(bench.landing(), spec)) == [Range(1, 2)]


def test_what_changed_is_counted(bench: Bench) -> None:
    bench.land("a", "b")
    planner = bench.planner(bench.landing())
    bench.plan(planner)
    bench.land("a", size=11)
    bench.plan(planner)
    assert bench.document.changed_files == 1


# advances


def said(document: PipelineDocument) -> list[tuple[int, Any]]:
    return [(step.end, step.watermark) for step in document.steps]


def test_a_batch_ends_where_a_loader_has_promised_something(bench: Bench) -> None:
    """Three files, promised after two: two checkpoints, and the promise holds behind the first."""
    source = bench.landing()
    bench.land("a", "b")
    bench.advance(source, 5)
    bench.land("c", at_s=10)
    assert bench.plan(bench.planner(source)) == [Range(0, 1), Range(1, 2)]
    assert said(bench.document) == [(1, minute(5))]


def test_a_promise_waits_until_all_that_was_there_is_planned(bench: Bench) -> None:
    """One free place at a time: the promise of the second file is not kept by the first."""
    source = bench.landing()
    bench.land("a", "b", size=60)
    bench.advance(source, 5)
    planner = bench.planner(source, inflight(1, max_bytes=100))
    assert bench.plan(planner) == [Range(0, 1)]
    assert (said(bench.document), bench.document.resolved_seq) == ([], 0)
    assert bench.plan(planner) == [Range(1, 2)]
    assert (said(bench.document), bench.document.resolved_seq) == ([(2, minute(5))], 1)


def test_promises_without_new_files_hold_where_the_plans_end(bench: Bench) -> None:
    """Each of them, in order; also one that was made before anything was there."""
    source = bench.landing()
    planner = bench.planner(source, once=False)
    bench.advance(source, 1)
    bench.plan(planner)
    bench.land("a")
    bench.plan(planner)
    bench.advance(source, 2)
    bench.advance(source, 3)
    bench.plan(planner)
    assert said(bench.document) == [(0, minute(1)), (1, minute(2)), (1, minute(3))]


def test_a_promise_that_was_recorded_before_a_file_landed_is_seen_with_it(bench: Bench) -> None:
    """The source is looked at first: else the file would be taken together with what was promised."""
    source = bench.landing()
    bench.land("a")
    planner = bench.planner(source, inflight(1), once=False)
    bench.advance(source, 1)
    bench.land("b", at_s=5)
    assert bench.plan(planner) == [Range(0, 1)]
    assert bench.plans[0].slices[0].parts == {"0": Range(0, 1)}


# parts that are silent


TIMED = EventTime(column="at", idle_timeout_us=60 * SECOND_US)


def silent(bench: Bench, **options: Any) -> tuple[GeneratorSource, Planner]:
    """Part 1 says nothing any more after the second checkpoint; the first have been completed."""
    source = bench.generator(parts=2, silent={1: 2}, checkpoints=None, rate_per_s=100.0, **options)
    assert source.discover(Range(0, 1)).highest is None
    planner = bench.planner(source, inflight(1), once=False, event_time=TIMED)
    bench.document = replace(bench.document, tracker=tracker_of(source, None))
    bench.clock.advance(4 * SECOND_US)
    assert bench.plan(planner) == [Range(0, 4)]
    bench.complete()
    return source, planner


def idle(bench: Bench) -> list[str]:
    assert bench.document.tracker is not None
    return [name for name, part in bench.document.tracker.parts.items() if part.idle]


def test_a_part_is_idle_once_it_is_known_to_have_been_silent_for_the_timeout(bench: Bench) -> None:
    """Also while the others go on: the silent one is idle, those that speak are not."""
    _, planner = silent(bench)
    for second in range(70):
        bench.plan(planner)
        assert idle(bench) == ([] if second < 60 else ["1"]), second
        bench.complete()
        bench.clock.advance(SECOND_US)


def test_what_is_planned_and_not_published_is_not_silent(bench: Bench) -> None:
    """The part that speaks holds the watermark as long as its rows are under way."""
    _, planner = silent(bench)
    bench.clock.advance(SECOND_US)
    assert bench.plan(planner) == [Range(4, 5)]
    for _ in range(3):
        bench.complete(published=False)
        bench.clock.advance(100 * SECOND_US)
        bench.busy = 1
        bench.plan(planner)
    assert "0" not in idle(bench)


def test_nobody_is_known_to_be_silent_while_something_is_left_to_plan(bench: Bench) -> None:
    """Behind a backlog, or a gap, the rows of any part may be."""
    _, planner = silent(bench)
    bench.clock.advance(100 * SECOND_US)
    bench.busy = 1
    bench.plan(planner)
    bench.clock.advance(100 * SECOND_US)
    bench.plan(planner)
    assert idle(bench) == []


def test_a_throttled_source_plans_nothing_and_is_not_idle_and_goes_on_where_it_was(bench: Bench) -> None:
    """It waits for the others of its group; that it does is no silence of its own."""
    _, planner = silent(bench)
    bench.is_throttled = True
    for _ in range(3):
        bench.clock.advance(100 * SECOND_US)
        assert bench.plan(planner) == []
    assert idle(bench) == []
    bench.is_throttled = False
    assert bench.plan(planner)[0].lo == 4


def test_a_throttled_source_that_is_cut_keeps_its_place(bench: Bench) -> None:
    bench.land("a", "b")
    planner = bench.planner(bench.landing(), once=False)
    bench.is_throttled = True
    assert (bench.plan(planner), dict(bench.document.positions)) == ([], {})
    bench.is_throttled = False
    assert bench.plan(planner)[0].lo == 0


def test_silence_is_remembered_across_runs(bench: Bench) -> None:
    """Runs from cron: the ends have not moved in between, so the silence is known."""
    source = bench.generator(parts=2, silent={1: 2})
    bench.document = replace(bench.document, tracker=tracker_of(source, None))
    bench.plan(bench.planner(source, event_time=TIMED))
    bench.complete()
    bench.plan(bench.planner(source, event_time=TIMED))
    bench.document = PipelineDocument.from_body(bench.document.to_body())
    bench.clock.advance(61 * SECOND_US)
    bench.plan(bench.planner(source, event_time=TIMED))
    assert idle(bench) == ["0", "1"]


@pytest.mark.parametrize(("all_idle", "value"), [("max", 9), ("hold", 5)])
def test_when_all_are_silent_the_watermark_goes_to_the_newest_or_stays(
    bench: Bench, all_idle: AllIdle, value: int
) -> None:
    """As the source says."""
    source = bench.generator(parts=2)
    known = {"0": PartState(watermark_us=9), "1": PartState(watermark_us=5)}
    bench.document = replace(bench.document, tracker=TrackerState(parts=known, combined_us=5))
    planner = bench.planner(source, event_time=replace(TIMED, all_idle=all_idle))
    bench.plan(planner)
    bench.complete()
    bench.plan(planner)
    bench.clock.advance(61 * SECOND_US)
    bench.plan(planner)
    assert idle(bench) == ["0", "1"]
    assert bench.document.tracker is not None
    assert bench.document.tracker.combined_us == value


def test_a_document_that_has_begun_stays_at_its_first_number() -> None:
    begun = started(document_of(), 5)
    assert (begun.marks.end, begun.marks.reader_lo, begun.planned_end, begun.sinks["lake"].start) == (5, 5, 5, 5)
