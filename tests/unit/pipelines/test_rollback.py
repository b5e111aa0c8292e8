"""The plan of a rollback: what would be delivered again, and what becomes of the rows that are out."""

from __future__ import annotations

import pytest

from tidegate import errors
from tidegate.pipelines.documents import PipelineDocument, SinkProgress, Standing
from tidegate.pipelines.rollback import SinkFate, plan_rollback
from tidegate.progress.marks import Marks
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import Watermark


def sink(type: str, *delivered: Range, standing: Standing = Standing.ACTIVE) -> SinkProgress:
    return SinkProgress(type=type, required=True, start=0, delivered=RangeSet.of(*delivered), standing=standing)


def document(**changes: object) -> PipelineDocument:
    given: dict[str, object] = {
        "pipeline": "orders",
        "source": "orders",
        "source_identity": "s",
        "epoch": 2,
        "marks": Marks(first=0, end=58, reader_lo=10),
        "planned_end": 58,
        "sinks": {"lake": sink("delta", Range(0, 58)), "events": sink("kafka", Range(0, 50), Range(55, 58))},
    }
    return PipelineDocument(**{**given, **changes})  # type: ignore[arg-type]  # the names above


def test_as_people_read_it() -> None:
    """What comes again, under which epoch, and what each sink makes of it."""
    plan = plan_rollback(document(), 40)
    assert plan.lines == (
        "checkpoints 41 to 57 of orders will be delivered again, as epoch 3",
        "sink lake (delta): retracted",
        "sink events (kafka): duplicates possible",
    )
    assert plan.again == Range(41, 58)
    assert [one.again for one in plan.sinks] == [Range(41, 58), Range(41, 58)]


def test_each_kind_of_sink_has_a_fate() -> None:
    """Whatever cannot take back or replace may send twice; a broken one stays, a retired one is not asked."""
    sinks = {kind: sink(kind, Range(0, 58)) for kind in ("delta", "parquet", "jdbc", "redis", "kafka", "http")}
    sinks["behind"] = sink("delta", Range(0, 41))
    sinks["broken"] = sink("delta", Range(0, 58), standing=Standing.BROKEN)
    sinks["retired"] = sink("delta", Range(0, 58), standing=Standing.RETIRED)
    fates = {one.name: one.fate for one in plan_rollback(document(sinks=sinks), 40).sinks}
    assert fates == {
        "delta": SinkFate.RETRACTED,
        "parquet": SinkFate.RETRACTED,
        "jdbc": SinkFate.REPLACED,
        "redis": SinkFate.REPLACED,
        "kafka": SinkFate.DUPLICATES,
        "http": SinkFate.DUPLICATES,
        "behind": SinkFate.NOTHING,
        "broken": SinkFate.BROKEN,
    }


def test_what_is_delivered_beyond_the_mark_comes_again_too() -> None:
    """Numbers ahead of a gap, skipped ones and the watermark are told."""
    ahead = document(
        marks=Marks(first=0, end=43, reader_lo=0),
        planned_end=50,
        sinks={"lake": sink("delta", Range(0, 43), Range(44, 60))},
        skipped=RangeSet.of(Range(42, 43)),
        watermark=Watermark.of_integer(42),
    )
    plan = plan_rollback(ahead, 41)
    assert plan.again == Range(42, 60)
    assert plan.lines[2:] == (
        "checkpoint 42 was skipped, and will not be",
        "its watermark, 42 now, goes back with it; tables that read it wait",
    )


@pytest.mark.parametrize("to", [8, 0, -1])
def test_what_was_given_up_for_pruning_cannot_come_again(to: int) -> None:
    """The lowest that works is told."""
    assert plan_rollback(document(), 9).again == Range(10, 58)
    with pytest.raises(errors.BelowReaderLo) as refused:
        plan_rollback(document(), to)
    assert "from 9" in refused.value.message


def test_there_is_nothing_beyond_it() -> None:
    """At the end, and before the first run."""
    for nothing, to in ((document(), 57), (document(), 99), (document(marks=Marks(), planned_end=None, sinks={}), 0)):
        with pytest.raises(errors.LedgerError, match="nothing beyond"):
            plan_rollback(nothing, to)
