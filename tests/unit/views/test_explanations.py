"""Explanations name who is really in the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.cli import samples
from tidegate.progress.cut import NOT_PUBLISHED
from tidegate.progress.groups import Group
from tidegate.progress.ranges import EMPTY, Range, RangeSet
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.views.explanations import Scene, explain_pipeline, explain_source, explain_table
from tidegate.views.values import PipelineStatus, SourceStatus, State

SCENE = Scene(status=samples.STATUS, groups={}, documents={})
AHEAD = RangeSet.of(1005, 1006, Range(1010, 1020), 1030)
GAP = replace(samples.FAILED, failures=(), reason=None, state=samples.NEW.state, ahead=AHEAD)


@pytest.mark.parametrize(
    ("pipeline", "blocked_by"),
    [
        (samples.FAILED, ("lake",)),
        (GAP, ("orders",)),
        (replace(GAP, orphaned=GAP.gaps), ()),
        (replace(GAP, gaps=EMPTY), ()),
    ],
    ids=["a sink failed", "a number has not arrived", "a runner died", "no gap"],
)
def test_a_pipeline_names_who_holds_its_mark(pipeline: PipelineStatus, blocked_by: tuple[str, ...]) -> None:
    """A sink that works is not in the way of a number that is not there: the source is."""
    assert explain_pipeline(SCENE, pipeline).blocked_by == blocked_by


def test_a_missing_number_says_what_moves_the_mark() -> None:
    """The reader learns that nothing above it is lost."""
    told = explain_pipeline(SCENE, replace(GAP, gaps=RangeSet.of(1004)))
    assert told.reason == "checkpoint 1004 has not arrived"
    assert told.remedy == "checkpoint 1004 must arrive; what lies above is delivered and waits"


def test_numbers_that_are_there_and_not_planned_are_not_called_missing() -> None:
    """Plans are made in order: above all of them nobody has looked yet."""
    backlog = replace(GAP, gaps=RangeSet.of(Range(1004, 1010)), ahead=EMPTY)
    told = explain_pipeline(SCENE, replace(backlog, state=State.RUNNING))
    assert (told.reason, told.blocked_by) == ("checkpoints 1004 to 1009 are not planned yet", ())
    assert told.remedy is None or "must arrive" not in told.remedy
    stopped = explain_pipeline(SCENE, replace(backlog, state=State.IDLE))
    assert stopped.remedy == f"tidegate run {GAP.name}"
    both = explain_pipeline(SCENE, replace(backlog, ahead=RangeSet.of(1005), gaps=RangeSet.of(1004, 1006)))
    assert both.reason == "checkpoint 1004 has not arrived"


def test_an_external_table_that_is_not_there_is_the_loaders_to_load() -> None:
    """No run of ours can publish it."""
    fx = SourceStatus(name="fx", watermark=None, kind=ValueKind.INTEGER, type="external")
    sources = {**samples.STATUS.sources, "fx": fx}
    scene = replace(SCENE, status=replace(samples.STATUS, sources=sources))
    waiting = replace(samples.WAITING, code=NOT_PUBLISHED)
    assert explain_table(scene, replace(waiting, blocked_by=("fx",))).remedy == (
        "its loader must load fx, then: tidegate advance fx VALUE"
    )
    both = explain_table(scene, replace(waiting, blocked_by=("fx", "orders"))).remedy
    assert both is not None
    assert both.endswith("tidegate run --once publishes it, when its rows are there")


@pytest.mark.parametrize(
    ("max_drift", "throttled"), [(59, "orders is 60 ahead of rates in group pair (at most 59)"), (60, None)]
)
def test_a_source_that_is_too_far_ahead_says_whom_it_waits_for(max_drift: int, throttled: str | None) -> None:
    """As the runner decides it: beyond the bound, not at it."""
    sources = {
        name: SourceStatus(name=name, watermark=Watermark.of_integer(value), kind=ValueKind.INTEGER, type="external")
        for name, value in (("orders", 160), ("rates", 100))
    }
    pair = Group(name="pair", sources=("orders", "rates"), max_drift=max_drift)
    scene = replace(SCENE, status=replace(samples.STATUS, sources=sources), groups={"pair": pair})
    assert explain_source(scene, sources["orders"]).facts["throttled"] == throttled
    assert explain_source(scene, sources["rates"]).facts["throttled"] is None
    waiting = explain_pipeline(scene, replace(GAP, source="orders"))
    told = (
        (throttled, ("rates",))
        if throttled
        else ("checkpoints 1004, 1007 to 1009, 1020 to 1029 have not arrived", ("orders",))
    )
    assert (waiting.reason, waiting.blocked_by) == told
    assert waiting.remedy is not None
    assert ("rates" in waiting.remedy) is (throttled is not None)
    assert explain_pipeline(scene, replace(samples.FAILED, source="orders")).blocked_by == ("lake",)
