"""Documents of a pipeline: what a newer Tidegate added stays, and what it changed is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidegate import errors
from tidegate.pipelines.documents import (
    Failure,
    PipelineDocument,
    PlanDocument,
    SinkProgress,
    receipt_from_body,
    receipt_to_body,
)
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sinks.contract import Delivery, Ownership, Receipt

DOCUMENT = PipelineDocument(
    pipeline="orders",
    source="orders",
    source_identity="s",
    sinks={"lake": SinkProgress(type="delta", required=True, start=0, delivered=RangeSet.of(Range(0, 3)))},
    failures=(Failure(range=Range(4, 5), sink="lake", code="TG-D003", message="no", at_us=1),),
)
PLAN = PlanDocument(range=Range(0, 3), epoch=1, token=1, slices=(), source_identity="s", planned_us=0)
RECEIPT = Receipt(
    sink="lake",
    delivery=Delivery(owner=Ownership(pipeline="orders", epoch=1, token=1), range=Range(0, 3), attempt=1),
    rows=1,
)


def test_what_a_newer_tidegate_added_survives_a_round_trip() -> None:
    """In the document, in its sinks and failures, and in a plan."""
    read: dict[str, Any] = json.loads(DOCUMENT.to_body())
    for place in (read, read["sinks"]["lake"], read["failures"][0]):
        place["colour"] = "red"
    again = PipelineDocument.from_body(json.dumps(read).encode())
    assert json.loads(again.to_body()) == read
    assert again.sinks["lake"].delivered == DOCUMENT.sinks["lake"].delivered
    plan: dict[str, Any] = {**json.loads(PLAN.to_body()), "colour": "red"}
    assert json.loads(PlanDocument.from_body(json.dumps(plan).encode()).to_body()) == plan


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (DOCUMENT.to_body(), PipelineDocument.from_body),
        (PLAN.to_body(), PlanDocument.from_body),
        (receipt_to_body(RECEIPT), receipt_from_body),
    ],
)
def test_a_newer_format_is_refused(body: bytes, read: Callable[[bytes], object]) -> None:
    """By name, with what to do; the old one is read as it was written."""
    assert read(body) in (DOCUMENT, PLAN, RECEIPT)
    newer = json.dumps({**json.loads(body), "format": 2}).encode()
    with pytest.raises(errors.LedgerError, match="format 2, this Tidegate reads up to 1") as refused:
        read(newer)
    assert "install" in refused.value.hint
