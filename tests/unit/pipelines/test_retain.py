"""Retention: the lower mark rises to the edge of a file and past nobody who lags; the pruner comes a delay later."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.unit.pipelines.builders import LAKE, OWNER, document_of, receipt_of, spec_of
from tidegate.pipelines import retain
from tidegate.pipelines.declare import Keeping, PipelineSpec
from tidegate.pipelines.documents import PipelineDocument, SinkProgress, Standing
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.retention import Retention
from tidegate.sinks.contract import Publication
from tidegate.testing.clock import ManualClock
from tidegate.testing.sinks import RecordingSink, Rows

DELAY_US = 1000


def keeping(**keep: int) -> PipelineSpec:
    return spec_of(retention=Keeping(keep=Retention(**keep), interval_us=10, delay_us=DELAY_US))


def sink_with(*edges: int) -> RecordingSink:
    """A sink that shows batches between these edges."""
    sink = RecordingSink(spec=LAKE, clock=ManualClock())
    sink.open(OWNER)
    for lo, hi in itertools.pairwise(edges):
        receipt = receipt_of(lo, hi)
        sink.deliver(Rows([{"id": n} for n in range(lo, hi)]), receipt.delivery)  # type: ignore[arg-type]
        sink.publish([receipt], Publication(end=hi))
    return sink


def document_to(end: int, *, first: int = 0) -> PipelineDocument:
    document = document_of(first=first)
    lake = replace(document.sinks["lake"], delivered=RangeSet.of(Range(first, end)), published_end=end)
    return replace(document, marks=document.marks.advanced(end), sinks={"lake": lake})


def numbers(sink: RecordingSink) -> list[int]:
    return [row["id"] for row in sink.place.visible()]


def test_the_mark_rises_to_what_is_kept() -> None:
    """Seed 1: retention 4 and hi 1003 make reader_lo 1000."""
    sink = sink_with(*range(998, 1005))
    document = retain.raise_reader_lo(document_to(1004, first=998), keeping(checkpoints=4), {"lake": sink}, now_us=5)
    assert (document.marks.reader_lo, document.retention_at_us) == (1000, 5)
    assert numbers(sink) == [1000, 1001, 1002, 1003]


def test_it_stops_at_the_edge_of_a_file() -> None:
    """A batch is given up whole or not at all."""
    sink = sink_with(0, 3, 6, 9)
    document = retain.raise_reader_lo(document_to(9), keeping(checkpoints=4), {"lake": sink}, now_us=0)
    assert (document.marks.reader_lo, numbers(sink)) == (3, list(range(3, 9)))


def test_what_a_lagging_sink_lacks_is_not_given_up() -> None:
    """And it is named; a broken or retired one holds nobody."""
    behind = SinkProgress(type="parquet", required=False, start=0, delivered=RangeSet.of(Range(0, 2)))
    document = document_to(9)
    document = replace(document, sinks={**document.sinks, "files": behind})
    sink = sink_with(*range(10))
    floor = retain.floor(document, keeping(checkpoints=4), sink, now_us=0)
    assert (floor.reader_lo, [one.holder for one in floor.held_by]) == (2, ["sink files"])
    for standing in (Standing.BROKEN, Standing.RETIRED):
        gone = replace(document, sinks={**document.sinks, "files": replace(behind, standing=standing)})
        assert retain.floor(gone, keeping(checkpoints=4), sink, now_us=0) == retain.Floor(reader_lo=5)


def test_nothing_is_given_up_that_is_not_shown_yet() -> None:
    """Complete, and not published: a reader would see nothing of either."""
    document = document_to(9)
    unshown = replace(document.sinks["lake"], published_end=3)
    document = replace(document, sinks={"lake": unshown})
    assert retain.floor(document, keeping(checkpoints=1), sink_with(0, 1, 2, 3), now_us=0).reader_lo == 3


def test_the_mark_never_falls() -> None:
    """A retention that was made longer keeps what there still is."""
    sink = sink_with(*range(10))
    document = retain.raise_reader_lo(document_to(9), keeping(checkpoints=2), {"lake": sink}, now_us=0)
    assert retain.raise_reader_lo(document, keeping(checkpoints=8), {"lake": sink}, now_us=1).marks.reader_lo == 7


def test_the_pruner_deletes_a_delay_after_the_rise_and_again_without_harm() -> None:
    sink = sink_with(*range(10))
    sinks = {"lake": sink}
    document = retain.raise_reader_lo(document_to(9), keeping(checkpoints=4), sinks, now_us=0)
    early = retain.delete_due(document, sinks, {}, now_us=DELAY_US - 1)
    assert (early.document, early.due.is_empty, early.files) == (document, True, 0)
    done = retain.delete_due(document, sinks, {}, now_us=DELAY_US)
    assert (done.document.marks.pruner_hi, done.due) == (4, Range(0, 5))
    again = retain.delete_due(document, sinks, {}, now_us=DELAY_US)
    assert again.document.marks == done.document.marks


def test_the_pruner_waits_for_a_table_that_reads_an_older_version() -> None:
    """And says which checkpoints are held."""
    sink = sink_with(*range(10))
    pinned = sink.state().version
    assert pinned is not None
    document = retain.raise_reader_lo(document_to(9), keeping(checkpoints=4), {"lake": sink}, now_us=0)
    held = retain.delete_due(document, {"lake": sink}, {"orders": pinned}, now_us=DELAY_US)
    assert (held.document.marks.pruner_hi, held.files) == (None, 0)
    assert RangeSet(held.held) == RangeSet([Range(0, 5)])
    assert retain.delete_due(document, {"lake": sink}, {"other": pinned}, now_us=DELAY_US).document.marks.pruner_hi == 4


@pytest.mark.parametrize(
    ("last_us", "is_start", "due"), [(None, False, True), (0, False, False), (-5, False, True), (0, True, True)]
)
def test_a_step_is_due_at_the_start_of_a_run_and_then_each_interval(
    last_us: int | None, is_start: bool, due: bool
) -> None:
    document = replace(document_to(9), retention_at_us=last_us)
    assert retain.is_step_due(document, keeping(checkpoints=4), 5, is_start=is_start) is due
    assert not retain.is_step_due(document, spec_of(), 5, is_start=True)
    assert not retain.is_step_due(replace(document_of(), retention_at_us=None), keeping(checkpoints=4), 5)


def test_a_batch_holds_a_sixteenth_of_what_is_retained() -> None:
    """So that marks step finely; at least one checkpoint, and any number where nothing is given up."""
    wanted = {1600: 100, 31: 1, 1: 1}
    assert {kept: keeping(checkpoints=kept).max_batch_checkpoints for kept in wanted} == wanted
    assert spec_of().max_batch_checkpoints is None
