"""Explanations name who is really in the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.cli import samples
from tidegate.progress.ranges import EMPTY, RangeSet
from tidegate.views.explanations import Scene, explain_pipeline
from tidegate.views.values import PipelineStatus

SCENE = Scene(status=samples.STATUS, groups={}, documents={})
GAP = replace(samples.FAILED, failures=(), reason=None, state=samples.NEW.state)


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
