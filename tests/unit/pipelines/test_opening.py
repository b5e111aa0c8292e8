"""How a run takes its pipeline over: the same source, the sinks of now, and what these say is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.pipelines.builders import LAKE, document_of, minute, shown, spec_of
from tidegate import errors
from tidegate.pipelines import opening
from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import Failure, Phase, PipelineDocument, Standing
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import Vector
from tidegate.sinks.specs import From, ParquetSinkSpec
from tidegate.testing.sources import Script, ScriptedSource

SCHEMA = "id BIGINT"


def files(**options: Any) -> ParquetSinkSpec:
    return ParquetSinkSpec(name="files", path="out", **options)


def opened(known: PipelineDocument | None, spec: PipelineSpec, *, schema: str = SCHEMA) -> PipelineDocument:
    source = ScriptedSource(Script([[{"id": 1}]]), schema)
    return opening.opened_document(known, spec, source, token=9, now_us=1)


def run_to(end: int, spec: PipelineSpec) -> PipelineDocument:
    """A pipeline that has delivered and planned everything below the end."""
    document = opened(None, spec)
    return replace(document, marks=document_of(first=0).marks.advanced(end), planned_end=end)


def test_a_new_pipeline_knows_its_source_and_its_sinks() -> None:
    document = opened(None, spec_of(LAKE, files(required=False)))
    assert (document.phase, document.token, document.marks.first) == (Phase.RUNNING, 9, None)
    assert {name: (sink.start, sink.required) for name, sink in document.sinks.items()} == {
        "lake": (0, True),
        "files": (0, False),
    }


def test_a_new_run_forgets_the_failures_of_the_last() -> None:
    failure = Failure(range=Range(0, 1), sink="lake", code="TG-D003", message="no", at_us=1)
    known = replace(run_to(3, spec_of()), failures=(failure,), phase=Phase.FAILED, reason="no", token=3)
    document = opened(known, spec_of())
    assert (document.failures, document.reason, document.token) == ((), None, 9)


def test_the_same_pipeline_cannot_read_another_source() -> None:
    """Its numbers would mean something else; also under the same name, and the same place under another."""
    known = run_to(3, spec_of())
    with pytest.raises(errors.ConfigError, match="another source"):
        opened(known, spec_of(), schema="id BIGINT, more STRING")
    with pytest.raises(errors.ConfigError, match=r"orders, scripted.* now it is purchases"):
        opened(known, replace(spec_of(), source="purchases"))


def test_a_sink_joins_where_its_owner_says() -> None:
    known = run_to(7, spec_of())
    assert opened(known, spec_of(LAKE, files(from_=From.NOW))).sinks["files"].start == 7
    assert opened(known, spec_of(LAKE, files(from_=9))).sinks["files"].start == 9
    assert opened(replace(known, planned_end=8), spec_of(LAKE, files(from_=From.NOW))).sinks["files"].start == 8


@pytest.mark.parametrize("start", [From.START, 3])
def test_a_sink_cannot_join_below_what_is_planned(start: Any) -> None:
    """Its history would be missing without a word."""
    with pytest.raises(errors.ConfigError, match="has delivered up to 6") as refused:
        opened(run_to(7, spec_of()), spec_of(LAKE, files(from_=start)))
    assert "`from: 7`" in str(refused.value.hint)


def test_before_the_first_checkpoint_any_start_is_fine() -> None:
    known = opened(None, spec_of())
    assert opened(known, spec_of(LAKE, files())).sinks["files"].start == 0
    assert opened(known, spec_of(LAKE, files(from_=12))).sinks["files"].start == 12


def test_a_sink_that_was_taken_out_is_retired_and_holds_nobody() -> None:
    """It stays in the document; put back, it begins anew."""
    both = run_to(7, spec_of(LAKE, files()))
    without = opened(both, spec_of())
    assert without.sinks["files"].standing is Standing.RETIRED
    again = opened(without, spec_of(LAKE, files(from_=From.NOW)))
    assert (again.sinks["files"].standing, again.sinks["files"].start) == (Standing.ACTIVE, 7)


def test_a_broken_sink_stays_broken() -> None:
    """What it lacks is no longer planned anywhere."""
    known = run_to(7, spec_of(LAKE, files(required=False)))
    broken = replace(known.sinks["files"], standing=Standing.BROKEN)
    document = opened(replace(known, sinks={**known.sinks, "files": broken}), spec_of(LAKE, files(required=False)))
    assert document.sinks["files"].standing is Standing.BROKEN


def test_what_a_sink_shows_beyond_the_ledger_is_adopted() -> None:
    """A crash came between the publication and the put: the higher mark wins, with its watermark."""
    document = run_to(3, spec_of())
    state = replace(shown(5, version=8), vector=Vector({"orders": minute(4)}))
    adopted = opening.adopted(document, "lake", state)
    lake = adopted.sinks["lake"]
    assert (lake.delivered, lake.published_end, lake.version, lake.watermark) == (
        RangeSet.of(Range(0, 5)), 5, 8, minute(4),
    )  # fmt: skip
    assert adopted.taken.covers(Range(0, 5))


def test_what_the_ledger_knows_already_changes_nothing() -> None:
    document = opening.adopted(run_to(3, spec_of()), "lake", shown(5))
    assert opening.adopted(document, "lake", shown(5)) == document
    assert opening.adopted(document, "lake", shown(None)) == document


@pytest.mark.parametrize("end", [None, 4])
def test_a_sink_that_lost_what_was_published_in_it_is_refused(end: int | None) -> None:
    """Its folder was emptied, or its `table:` renamed: to go on would show a gap as if it were complete."""
    lake = opening.adopted(run_to(3, spec_of()), "lake", shown(5)).sinks["lake"]
    with pytest.raises(errors.SinkRejected, match="though checkpoint 4 was published"):
        opening.check_kept("lake", lake, shown(end))
    opening.check_kept("lake", lake, shown(5))
    opening.check_kept("lake", lake, shown(6))
    opening.check_kept("lake", replace(lake, published_end=None), shown(end))
    opening.check_kept("lake", replace(lake, standing=Standing.BROKEN), shown(end))


def test_only_failures_that_hold_the_mark_fail_the_pipeline() -> None:
    """Those of sinks that may lag, and those of checkpoints that passed, do not."""
    failure = Failure(range=Range(3, 5), sink="files", code="TG-D002", message="down", at_us=1)
    document = replace(run_to(3, spec_of()), failures=(failure,))
    assert opening.blocking_failures(document) == [failure]
    assert opening.blocking_failures(replace(document, committed=RangeSet.of(Range(3, 5)))) == []
    assert opening.blocking_failures(replace(document, marks=document.marks.advanced(5))) == []
