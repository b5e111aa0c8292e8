"""What Sui's indexer is tested with, scenario by scenario, with our value where ours differs, and why.

Its marks are `checkpoint_hi_inclusive`, `reader_lo` and an exclusive `pruner_hi`; ours keep half-open ends inside and
report the seed's inclusive `pruner_hi`. Its counts of rows that landed are ranges of rows here, so that a part
that comes twice counts once. Numbers in the names follow the research table.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, cast

import pytest

from tidegate import errors
from tidegate.ledger.contract import Put
from tidegate.ledger.memory import MemoryStore
from tidegate.pipelines import commit, plan
from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import PipelineDocument
from tidegate.pipelines.intent import started
from tidegate.pipelines.opening import opened_document
from tidegate.pipelines.plan import BatchLimits
from tidegate.progress.commits import CommitTracker
from tidegate.progress.cut import Choice, InputState, Mode, decide
from tidegate.progress.groups import Group
from tidegate.progress.marks import Marks
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.retention import Pruning, Retention, retention_floor
from tidegate.progress.retries import RetryBudget, RetryIn, Severity, decide_retry
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.sinks.contract import Delivery, Ownership, Publication, Receipt
from tidegate.sinks.specs import DeltaSinkSpec
from tidegate.sources.contract import ONLY_PART, Slice
from tidegate.testing.sinks import Place, RecordingSink, Rows
from tidegate.testing.sources import PAUSE, Script, ScriptedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECOND_US = 1_000_000
OWNER = Ownership(pipeline="orders", epoch=1, token=1)


def hi(tracker: CommitTracker) -> int | None:
    """The highest number up to which everything is complete."""
    return tracker.end - 1 if tracker.end > tracker.start else None


def after(start: int, *numbers: int) -> CommitTracker:
    """A tracker to which these completions came."""
    tracker = CommitTracker(start)
    for number in numbers:
        tracker.complete_one(number)
    return tracker


def delivered(sink: RecordingSink, number: int, attempt: int = 0) -> Receipt:
    """One checkpoint of one row, delivered."""
    batch = Delivery(owner=OWNER, range=Range.one(number), attempt=attempt)
    return sink.deliver(cast("DataFrame", Rows([{"id": number}])), batch)


def sliced(number: int, rows: int = 1, size_bytes: int = 0) -> Slice:
    """A slice of a source that numbers its checkpoints."""
    return Slice(number=number, parts={ONLY_PART: Range.one(number)}, rows=rows, size_bytes=size_bytes)


def test_01_a_gap_holds_the_mark() -> None:
    """Also in the seed's own numbers: 1000, 1001 and 1003 are complete to 1001; with 1002, to 1003."""
    tracker = after(0, 0, 1, 3, 4)
    assert hi(tracker) == 1
    tracker.complete_one(2)
    assert hi(tracker) == 4
    seed = after(1000, 1000, 1001, 1003)
    assert hi(seed) == 1001
    seed.complete_one(1002)
    assert hi(seed) == 1003


def test_02_completions_come_in_any_order() -> None:
    """One message with three of them, and every order of five."""
    tracker = CommitTracker(1)
    tracker.complete_many([4, 2, 1])
    assert hi(tracker) == 2
    tracker.complete_one(3)
    assert hi(tracker) == 4
    assert {hi(after(0, *order)) for order in permutations(range(5))} == {4}


def test_03_a_checkpoint_in_parts_is_complete_with_its_last_row() -> None:
    """Theirs adds counts; ours joins ranges of rows, so a part that comes twice does not complete it too early."""
    tracker = CommitTracker(1)
    for rows in (Range(0, 1), Range(0, 1), Range(2, 3)):
        tracker.complete_part(1, rows, 3)
        assert hi(tracker) is None
    tracker.complete_part(1, Range(1, 2), 3)
    assert hi(tracker) == 1
    later = CommitTracker(5)
    later.complete_one(6)
    later.complete_part(5, Range(0, 3), 5)
    assert hi(later) is None
    later.complete_part(5, Range(3, 5), 5)
    assert hi(later) == 6


def test_04_an_empty_checkpoint_is_complete_at_once() -> None:
    """So a sparse pipeline still advances."""
    tracker = CommitTracker(0)
    for number in (0, 1):
        tracker.complete_part(number, Range(0, 0), 0)
    assert hi(tracker) == 1


def test_05_nothing_is_complete_before_the_first() -> None:
    """Checkpoint 1 before checkpoint 0."""
    tracker = after(0, 1)
    assert hi(tracker) is None
    tracker.complete_one(0)
    assert hi(tracker) == 1


def test_06_stale_deliveries_are_counted_and_change_nothing() -> None:
    """Theirs panics where a checkpoint that waits behind a gap comes twice; here it is one more duplicate."""
    tracker = after(11, 6, 7)
    assert (hi(tracker), tracker.duplicates) == (None, 2)
    tracker.complete_one(12)
    tracker.complete_one(12)
    assert (hi(tracker), tracker.duplicates) == (None, 3)
    tracker.complete_one(11)
    assert hi(tracker) == 12


def test_07_a_mark_that_could_not_be_written_is_superseded_by_the_next() -> None:
    """One write of 11, and none of 10: the value in memory is the truth until it is stored."""
    store, marks, fails = MemoryStore(), Marks.starting(10), [True, False]
    written: list[int | None] = []
    for number, fail in zip((10, 11), fails, strict=True):
        marks = marks.advanced(number + 1)
        if not fail:
            store.put("marks", str(marks.end).encode(), expect=None)
            written.append(marks.checkpoint_hi_inclusive)
    found = store.get("marks")
    assert found is not None
    assert (written, found.body) == ([11], b"12")


def test_08_a_delivery_that_fails_twice_is_shown_once_and_never_before() -> None:
    """The budget says when; the receipt of the third try completes it."""
    down = errors.SinkUnavailable(sink="recording", what="down")
    sink = RecordingSink(fail=lambda call, delivery: down if delivery is not None and delivery.attempt < 2 else None)
    sink.open(OWNER)
    tracker, rng = CommitTracker(0), random.Random(1)
    for attempt in (0, 1):
        with pytest.raises(errors.SinkUnavailable):
            delivered(sink, 0, attempt)
        assert isinstance(decide_retry(RetryBudget(), attempt + 1, Severity.TRANSIENT, rng), RetryIn)
        assert (hi(tracker), sink.place.visible()) == (None, [])
    receipt = delivered(sink, 0, 2)
    tracker.complete(receipt.range)
    sink.publish([receipt], Publication(end=tracker.end))
    assert (hi(tracker), sink.place.visible()) == (0, [{"id": 0}])


@pytest.mark.parametrize(
    ("first", "high", "kept", "reader_lo", "expected"),
    [
        (0, 10, 5, 0, 6),
        (0, 10, 5, 7, 7),
        (0, 4, 5, 0, 0),
        (0, 5, 5, 0, 1),
        (900, 1003, 4, 900, 1000),
        (900, 1004, 4, 1000, 1001),
    ],
)
def test_09_reader_lo_is_hi_minus_retention_plus_one_and_never_falls(
    first: int, high: int, kept: int, reader_lo: int, expected: int
) -> None:
    """A step that failed is taken whole by the next: the floor is a function of the marks alone."""
    marks = Marks.starting(first).advanced(high + 1).raised(reader_lo, now_us=0, delay_us=0)
    for _ in range(2):
        assert retention_floor(marks, Retention(checkpoints=kept)) == expected


def test_10_nothing_is_deleted_before_the_delay_since_reader_lo_rose() -> None:
    """An elapsed delay is due at once, however long ago it ended."""
    marks = Marks.starting(1).advanced(4).raised(3, now_us=0, delay_us=2 * SECOND_US)
    assert marks.due(SECOND_US // 5).is_empty
    assert marks.due(2_200_000) == Range(1, 3)
    gone = marks.pruned(3)
    assert (gone.pruner_hi, gone.due(10**15).is_empty) == (2, True)
    long_past = Marks.starting(1).advanced(4).raised(3, now_us=-(10**15), delay_us=20 * SECOND_US)
    assert long_past.due(0) == Range(1, 3)


def test_11_what_is_due_is_deleted_in_chunks() -> None:
    """Half-open; the seed's `pruner_hi` is the last one deleted, theirs the first that is not."""
    assert Pruning(start=100).chunks(1000, 100)[:2] == [Range(100, 200), Range(200, 300)]
    assert Pruning(start=500).chunks(1000, 2000) == [Range(500, 1000)]
    assert Pruning(start=1000).chunks(1000, 100) == []
    assert Pruning(start=1000).chunks(1001, 100) == [Range(1000, 1001)]
    marks = Marks.starting(998).advanced(1005).raised(1000, now_us=0, delay_us=0).pruned(1000)
    assert marks.pruner_hi == 999
    assert marks.raised(1001, now_us=0, delay_us=0).pruned(1001).pruner_hi == 1000


def test_12_a_chunk_that_failed_is_tried_again_alone() -> None:
    """Those above it are deleted meanwhile, and not again when the target has risen before the retry."""
    pruning = Pruning(start=1)
    for chunk in pruning.chunks(4, 1)[1:]:
        pruning = pruning.done(chunk)
    assert (pruning.pruned_end, pruning.deleted) == (1, RangeSet.of(Range(2, 4)))
    assert pruning.chunks(6, 1) == [Range(1, 2), Range(4, 5), Range(5, 6)]
    assert pruning.done(Range(1, 2)).pruned_end == 4


def test_13_overlapping_work_is_not_done_twice() -> None:
    """And the mark follows the lowest chunk that is still there."""
    pruning = Pruning(start=1).done(Range(1, 5))
    assert pruning.chunks(7, 100) == [Range(5, 7)]
    assert pruning.chunks(4, 100) == []
    pending = replace(Pruning(start=1), deleted=RangeSet.of(Range(5, 10), Range(15, 20)))
    ends = []
    for chunk in (Range(10, 15), Range(1, 5), Range(20, 25)):
        pending = pending.done(chunk)
        ends.append(pending.pruned_end)
    assert ends == [1, 20, 25]


def test_14_from_retention_to_deletion() -> None:
    """Six checkpoints, three kept. A prune of two that fails deletes nothing; the next deletes both."""
    data, marks = set(range(6)), Marks.starting(0).advanced(6)
    marks = marks.raised(retention_floor(marks, Retention(checkpoints=3)), now_us=0, delay_us=0)
    data -= set(marks.due(0))
    marks = marks.pruned(marks.due(0).hi)
    assert (data, marks.reader_lo, marks.pruner_hi) == ({3, 4, 5}, 3, 2)
    failing = Marks.starting(0).advanced(4).raised(2, now_us=0, delay_us=0)
    assert failing.due(0) == Range(0, 2)
    assert failing.due(0) == Range(0, 2)
    assert failing.pruned(2).due(0).is_empty
    without = Marks.starting(0).advanced(10)
    assert (without.checkpoint_hi_inclusive, len(without.readable)) == (9, 10)


def test_15_no_mark_is_set_back() -> None:
    """Equal or lower values change nothing at all, and a pipeline that has begun keeps its marks."""
    marks = Marks.starting(0).advanced(201).raised(123, now_us=5, delay_us=9).pruned(78)
    assert marks.advanced(101) is marks
    assert marks.advanced(201) is marks
    assert marks.raised(123, now_us=99, delay_us=0) is marks
    assert marks.raised(122, now_us=99, delay_us=0) is marks
    assert marks.pruned(78) is marks
    assert marks.pruned(77) is marks
    assert Marks.starting(5).checkpoint_hi_inclusive is None


def test_16_a_pipeline_starts_where_it_says_and_goes_on_where_it_was() -> None:
    """Theirs starts a pruned pipeline at the tip less its retention; ours says `from:`, and never guesses.

    Nothing is ever stored as complete that was not: a pipeline that begins at 1 is complete to nothing.
    """
    fresh = started(_document(), 1)
    assert (fresh.marks.first, fresh.marks.checkpoint_hi_inclusive, fresh.marks.reader_lo) == (1, None, 1)
    resumed = started(_document(), 0).marks.advanced(6)
    assert resumed.end == 6


def _document() -> PipelineDocument:
    return PipelineDocument(pipeline="orders", source="orders", source_identity="orders")


def test_17_each_of_many_pipelines_resumes_at_its_own_mark() -> None:
    """Theirs reads once for all, from the lowest; ours read each for itself, so a new one delays nobody."""
    ends = {name: after(0, *range(high + 1)).end for name, high in {"a": 100, "b": 10, "c": 1, "d": 50}.items()}
    assert ends == {"a": 101, "b": 11, "c": 2, "d": 51}
    assert CommitTracker(5).end == 5


def test_18_a_pipeline_that_is_ahead_gets_only_what_it_lacks() -> None:
    """At 5 and at 20, to 29: 24 and 9 checkpoints, nothing twice, nothing out of order."""
    there = RangeSet.of(Range(0, 30))
    planned = {
        high: plan.candidates(there, window=Range(high + 1, 1000), planned=RangeSet(), done=RangeSet())
        for high in (5, 20)
    }
    assert {high: numbers.size for high, numbers in planned.items()} == {5: 24, 20: 9}
    assert planned[20] == RangeSet.of(Range(21, 30))


def test_19_nobody_is_put_in_a_cohort() -> None:
    """Theirs groups pipelines by distance, to share a stream; ours share none, so any distance is as good."""
    for distance in (0, 25_000, 40_001, 200_000):
        ahead = after(distance, *range(distance, distance + 3))
        assert hi(ahead) == distance + 2


def test_20_a_pipeline_that_is_stuck_holds_no_other() -> None:
    """Near and far have nothing in common but their source."""
    far, near = after(10), after(95, *range(95, 101))
    assert (hi(far), hi(near)) == (None, 100)


def test_21_a_backfill_beside_the_live_run_moves_no_mark_of_its_readers() -> None:
    """Theirs keeps a row of its own for a task; ours merges into the complete range where it meets it."""
    live = Marks.starting(9).advanced(11).raised(10, now_us=0, delay_us=7)
    joined = live.backfilled(Range(0, 9))
    assert (joined.first, joined.end, joined.reader_lo, joined.pruner_hi) == (0, 11, 10, None)
    assert (joined.prune_to, joined.prune_due_us) == (live.prune_to, live.prune_due_us)
    with pytest.raises(ValueError, match="does not meet"):
        live.backfilled(Range(0, 8))


def test_22_a_backfill_below_readers_is_the_pruners() -> None:
    """What it adds below `reader_lo` is complete, unreadable, and deleted in its turn."""
    live = Marks.starting(250).advanced(500).raised(300, now_us=0, delay_us=0)
    joined = live.backfilled(Range(100, 250))
    assert (joined.readable, joined.due(0)) == (Range(300, 500), Range(100, 300))


def test_23_an_ordered_sink_takes_rows_in_order_whatever_order_they_come_in() -> None:
    """A contiguous batch at a time: from 5 on, five old ones change nothing."""
    published = []
    tracker = CommitTracker(0)
    for number in (1, 0, 2):
        before = tracker.end
        published += list(Range(before, tracker.complete_one(number)))
    assert published == [0, 1, 2]
    later = after(5, 0, 1, 2, 3, 4)
    assert hi(later) is None
    later.complete_many([5, 6, 7])
    assert hi(later) == 7
    runs = plan.batches([sliced(n) for n in range(4)], BatchLimits(max_checkpoints=3))
    assert [[one.number for one in run] for run in runs] == [[0, 1, 2], [3]]


def test_24_a_transaction_that_fails_leaves_everything() -> None:
    """All puts or none."""
    store = MemoryStore()
    at = store.put("marks", b"200", expect=None)
    with pytest.raises(errors.VersionConflict):
        store.transaction([Put(key="marks", body=b"201", expect=at), Put(key="other", body=b"x", expect=7)])
    found = store.get("marks")
    assert found is not None
    assert found.body == b"200"
    assert store.get("other") is None


def test_25_work_runs_ahead_of_a_gap_to_a_bound() -> None:
    """Theirs fills channels and pending rows, in numbers that differ by run; ours is a window over the mark."""
    tracker = after(0, *range(1, 15))
    assert tracker.room(15) == Range(0, 15)
    there = RangeSet.of(Range(0, 100))
    assert not plan.candidates(there, window=tracker.room(15), planned=RangeSet.of(0), done=tracker.ahead)
    tracker.complete_one(0)
    assert tracker.room(15) == Range(15, 30)


def test_26_a_batch_is_cut_by_its_limits() -> None:
    """By rows: 512 + 511 + 2 under 1,024 are two batches, and one that is too large goes alone."""
    made = plan.batches([sliced(n, rows) for n, rows in enumerate((512, 511, 2))], BatchLimits(max_events=1024))
    assert [[one.rows for one in batch] for batch in made] == [[512, 511], [2]]
    large = plan.batches([sliced(n, rows) for n, rows in enumerate((1, 5000, 1))], BatchLimits(max_events=1024))
    assert [[one.rows for one in batch] for batch in large] == [[1], [5000], [1]]


def test_27_batches_follow_the_weight_of_rows_and_not_a_controller() -> None:
    """Theirs cuts concurrency as channels fill; ours knows what a row weighs, and no batch outgrows its bytes."""
    rows = [Slice(number=n, parts={ONLY_PART: Range.one(n)}, rows=None, size_bytes=100) for n in range(10)]
    made = plan.batches(rows, BatchLimits(max_bytes=250))
    assert [len(batch) for batch in made] == [2] * 5
    assert [len(batch) for batch in plan.batches(rows, BatchLimits(max_events=30, row_bytes=10.0))] == [3, 3, 3, 1]
    assert plan.fair_share(10, 4, 100) == 3


def test_28_a_hole_in_the_source_is_filled_when_it_arrives() -> None:
    """0 to 2, then 6 to 9 while 3 is due: planning goes on, each is delivered once, the mark waits."""
    script = Script([[{"id": n}] for n in range(3)] + [PAUSE] + [[{"id": n}] for n in range(3, 10)])
    script.missing = RangeSet.of(3, 4, 5)
    source, tracker, seen = ScriptedSource(script, "id BIGINT"), CommitTracker(0), list[int]()

    def take() -> None:
        there = source.discover(tracker.room(100)).numbers - tracker.committed
        seen.extend(there.numbers())
        for span in there:
            tracker.complete(span)

    take()
    script.resume()
    take()
    assert (hi(tracker), tracker.gaps) == (2, RangeSet.of(3, 4, 5))
    script.arrive(3, 4, 5)
    take()
    assert (hi(tracker), sorted(seen), tracker.duplicates) == (9, list(range(10)), 0)


def test_29_a_snapshot_over_two_pipelines_waits_for_both() -> None:
    """Theirs is a barrier with a stride; ours is a group of two integer sources, and the cut of a table over them."""
    pair = Group(name="snapshot", sources=("a", "b"), bootstrap_open=False)

    def cut(a: Sequence[int], b: Sequence[int]) -> dict[str, int]:
        inputs = [
            InputState(
                name=name,
                roots=frozenset((name,)),
                choices=tuple(
                    Choice(version=n, vector=Vector({name: Watermark.of_integer(value)}))
                    for n, value in enumerate(values)
                ),
            )
            for name, values in (("a", a), ("b", b))
        ]
        return {name: value.value for name, value in decide(Mode.HOLD_BACK, inputs, [pair], now_us=0).vector.items()}

    assert cut([0], []) == {}
    assert cut([0], [0]) == {"a": 0, "b": 0}
    assert cut([0], [0, 1]) == {"a": 0, "b": 0}
    assert cut([0, 1], [0, 1]) == {"a": 1, "b": 1}
    assert cut([2, 5, 8], [2, 5]) == {"a": 5, "b": 5}


def test_30_a_query_over_two_tables_reads_what_both_have() -> None:
    """Retentions of 5 and 10: the floor of the first counts."""
    floors = []
    for end in (5, 6, 11):
        marks = Marks.starting(0).advanced(end)
        ranges = [
            marks.raised(retention_floor(marks, Retention(checkpoints=kept)), now_us=0, delay_us=0).readable
            for kept in (5, 10)
        ]
        floors.append([one.lo for one in (*ranges, ranges[0].intersect(ranges[1]))])
    assert floors == [[0, 0, 0], [1, 0, 1], [6, 1, 6]]


def test_31_a_pipeline_refuses_another_source_than_it_has_read() -> None:
    """By the identity that it stored first; the one of before is still accepted."""
    spec = PipelineSpec(name="orders", source="scripted", sinks=(DeltaSinkSpec(name="lake", table="orders"),))
    one = ScriptedSource(Script([[]]), "id BIGINT")
    other = ScriptedSource(Script([[]]), "id BIGINT, more STRING")
    known = opened_document(None, spec, one, token=1, now_us=0)
    assert opened_document(known, spec, one, token=2, now_us=0).source_identity == one.identity()
    with pytest.raises(errors.ConfigError, match="has read another source"):
        opened_document(known, spec, other, token=2, now_us=0)


def test_32_receipts_come_late_twice_and_in_any_order() -> None:
    """Not in the table, and the reason for half of it: the same receipts make the same marks, in any order."""
    spec = PipelineSpec(name="orders", source="scripted", sinks=(DeltaSinkSpec(name="lake", table="orders"),))
    source = ScriptedSource(Script([[], [], []]), "id BIGINT")
    document = started(opened_document(None, spec, source, token=1, now_us=0), 0)
    receipts = [
        Receipt(sink="lake", delivery=Delivery(owner=OWNER, range=Range.one(n), attempt=0), rows=1) for n in (0, 1, 2)
    ]
    ends = set()
    for order in permutations(range(3)):
        known = document
        for at in (*order, order[0]):
            known = commit.record(known, receipts[at].range, [receipts[at]], commit.Intake(rows=1))
        settled = commit.settle(known, commit.Rules(policy=spec.policy, kind=source.spec.watermark), now_us=0)
        ends.add((settled.marks.end, settled.sinks["lake"].rows, settled.sinks["lake"].delivered))
    assert ends == {(3, 3, RangeSet.of(Range(0, 3)))}


def test_33_a_place_that_two_runs_share_shows_each_row_once() -> None:
    """Not in the table: a restart delivers again under its own name, and publishes one of the two."""
    place = Place()
    first, second = RecordingSink(place), RecordingSink(place)
    first.open(OWNER)
    delivered(first, 0)
    second.open(replace(OWNER, token=2))
    batch = Delivery(owner=replace(OWNER, token=2), range=Range.one(0), attempt=0)
    receipt = second.deliver(cast("DataFrame", Rows([{"id": 0}])), batch)
    second.publish([receipt], Publication(end=1))
    assert place.visible() == [{"id": 0}]
