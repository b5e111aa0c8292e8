"""What a sink may show: in order, whole deliveries, each promise by itself, and never a watermark before its rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipelines.builders import document_of, minute, receipt_of, shown
from tidegate.pipelines import publish
from tidegate.pipelines.documents import PipelineDocument, Standing, Step
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import Watermark
from tidegate.sinks.contract import Receipt
from tidegate.sources.specs import WatermarkKind

ADVANCED = WatermarkKind.TIMESTAMP


def complete(end: int, *steps: tuple[int, int], delivered: int | None = None, **sink: Any) -> PipelineDocument:
    """Complete below `end`; promised at a mark: so many minutes."""
    document = document_of(first=0)
    lake = replace(
        document.sinks["lake"], delivered=RangeSet.of(Range(0, end if delivered is None else delivered)), **sink
    )
    said = tuple(Step(end=at, watermark=minute(value), seq=seq) for seq, (at, value) in enumerate(steps, start=1))
    return replace(document, marks=document.marks.advanced(end), sinks={"lake": lake}, steps=said)


def found(document: PipelineDocument, receipts: list[Receipt], kind: WatermarkKind = ADVANCED) -> list[Any]:
    return [
        (one.end, [receipt.range for receipt in one.receipts], one.watermark)
        for one in publish.targets(document, "lake", receipts, kind)
    ]


def test_each_promise_gets_a_version_of_its_own() -> None:
    """Also two that were made of the same rows: who holds back by position needs both."""
    document = complete(4, (2, 5), (3, 6), (3, 7))
    receipts = [receipt_of(0, 2), receipt_of(2, 3), receipt_of(3, 4)]
    assert found(document, receipts) == [
        (2, [Range(0, 2)], minute(5)),
        (3, [Range(2, 3)], minute(6)),
        (3, [], minute(7)),
        (4, [Range(3, 4)], minute(7)),
    ]


def test_a_promise_without_new_rows_raises_only_the_claim() -> None:
    document = complete(4, (4, 5), published_end=4, watermark=minute(1))
    assert found(document, []) == [(4, [], minute(5))]
    assert found(complete(4, (4, 5), published_end=4, watermark=minute(5)), []) == []


def test_a_promise_of_an_empty_source_waits_for_the_first_rows() -> None:
    """There is no table yet that could say it."""
    assert found(complete(0, (0, 5)), []) == []
    assert found(complete(1, (0, 5)), [receipt_of(0, 1)]) == [(1, [Range(0, 1)], minute(5))]


def test_a_delivery_is_shown_whole_or_not_at_all() -> None:
    """The mark falls inside of it: nothing of it is shown, and no promise that needs it."""
    document = complete(3, (2, 5))
    assert found(document, [receipt_of(0, 1), receipt_of(1, 4)]) == [(1, [Range(0, 1)], None)]


def test_a_sink_that_is_behind_shows_its_own_prefix_and_that_watermark() -> None:
    document = complete(9, (2, 5), (6, 7), delivered=4)
    assert found(document, [receipt_of(0, 2), receipt_of(2, 4)]) == [
        (2, [Range(0, 2)], minute(5)),
        (4, [Range(2, 4)], minute(5)),
    ]


def test_a_broken_sink_shows_nothing_more() -> None:
    assert found(complete(1, standing=Standing.BROKEN), [receipt_of(0, 1)]) == []


def test_a_checkpoint_number_is_a_watermark_where_nothing_else_is() -> None:
    kind = WatermarkKind.CHECKPOINT
    assert found(complete(3), [receipt_of(0, 3)], kind) == [(3, [Range(0, 3)], Watermark.of_integer(2))]
    assert found(complete(3, published_end=3, watermark=Watermark.of_integer(2)), [], kind) == []


def test_event_times_make_no_versions_of_their_own() -> None:
    """Several checkpoints share one commit, with the watermark of the last."""
    document = complete(3)
    steps = tuple(Step(end=end, watermark=minute(end)) for end in (1, 2, 3))
    receipts = [receipt_of(n, n + 1) for n in range(3)]
    assert found(replace(document, steps=steps), receipts, WatermarkKind.EVENT_TIME) == [
        (3, [Range(0, 1), Range(1, 2), Range(2, 3)], minute(3))
    ]


@given(
    st.integers(0, 8),
    st.integers(0, 8),
    st.lists(st.integers(0, 10), max_size=4),
    st.sets(st.integers(1, 9), max_size=4),
)
def test_no_watermark_is_shown_before_its_rows(end: int, delivered: int, steps: list[int], cuts: set[int]) -> None:
    """However deliveries lie: what is shown grows, is below the mark, and claims only what it has."""
    edges = sorted({0, *cuts, 10})
    receipts = [receipt_of(lo, hi) for lo, hi in itertools.pairwise(edges) if hi <= delivered]
    promised = [(at, minutes) for minutes, at in enumerate(sorted(steps), start=1)]
    document = complete(end, *promised, delivered=delivered)
    at, watermark = 0, None
    for target in publish.targets(document, "lake", receipts, ADVANCED):
        assert target.end >= at
        assert target.end <= min(end, delivered)
        assert [n for one in target.receipts for n in one.range] == list(range(at, target.end))
        now = target.watermark
        needs = [mark for mark, minutes in promised if now is not None and minute(minutes) <= now]
        assert all(mark <= target.end for mark in needs)
        assert watermark is None or (target.watermark is not None and target.watermark >= watermark)
        at, watermark = target.end, target.watermark
        document = publish.published(document, "lake", target, shown(target.end))
    assert publish.targets(document, "lake", [one for one in receipts if one.range.lo >= at], ADVANCED) == []


def test_a_publication_tells_what_it_contains_and_from_where() -> None:
    document = replace(complete(3), committed_positions={"0": 9})
    target = publish.Target(end=3, receipts=(), watermark=minute(1))
    told = publish.publication(document, target)
    assert (told.end, told.reader_lo, told.positions, told.source_identity) == (3, 0, {"0": 9}, "it")
    assert told.vector == {"orders": minute(1)}
    assert publish.publication(document, replace(target, watermark=None)).vector == {}
