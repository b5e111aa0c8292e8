"""Receipts become marks, and event times enter the watermark only when the unbroken prefix has passed them."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.pipelines.builders import document_of, minute, receipt_of, rules_of
from tidegate.pipelines import commit
from tidegate.pipelines.commit import Intake, Rules
from tidegate.pipelines.documents import Failure, Maxima, PipelineDocument, PlanDocument, Step
from tidegate.pipelines.intent import started
from tidegate.progress.partition_state import PartState, TrackerState
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sinks.specs import ParquetSinkSpec
from tidegate.sources.contract import Slice
from tidegate.sources.specs import EventTime, WatermarkKind

MINUTE_US = 60_000_000


def timed_rules(**options: int) -> Rules:
    return rules_of(WatermarkKind.EVENT_TIME, event_time=EventTime(column="at", **options))


def timed_document(*parts: str) -> PipelineDocument:
    tracker = TrackerState(parts={name: PartState() for name in parts}, combined_us=None)
    return started(document_of(tracker=tracker), 0)


def tried(document: PipelineDocument, lo: int, hi: int, rules: Rules, **counts: object) -> PipelineDocument:
    """The document after the lake has taken [lo, hi), with what was counted."""
    intake = Intake(rows=10, **counts)  # type: ignore[arg-type]
    return commit.settle(commit.record(document, Range(lo, hi), [receipt_of(lo, hi)], intake), rules, now_us=1)


def at(number: int) -> int:
    return minute(number).value


def test_the_event_times_of_a_checkpoint_beyond_a_gap_say_nothing_yet() -> None:
    """A watermark never speaks for data beyond a gap; they are kept with the document until the gap heals."""
    rules = timed_rules()
    ahead = tried(timed_document("0"), 1, 2, rules, maxima={"0": at(9)})
    assert (ahead.marks.end, ahead.steps, ahead.maxima) == (0, (), (Maxima(range=Range(1, 2), parts={"0": at(9)}),))
    healed = tried(PipelineDocument.from_body(ahead.to_body()), 0, 1, rules, maxima={"0": at(3)})
    assert (healed.marks.end, healed.maxima) == (2, ())
    assert commit.watermark_at(healed.steps, 2) == replace(minute(9), value=at(9) - 1)


def test_the_watermark_is_that_of_the_slowest_part_less_the_lateness() -> None:
    """And complete through the microsecond before: late is below it."""
    rules = timed_rules(max_lateness_us=MINUTE_US)
    document = tried(timed_document("a", "b"), 0, 1, rules, maxima={"a": at(9)})
    assert document.steps == ()
    document = tried(document, 1, 2, rules, maxima={"b": at(5)})
    assert [(step.end, step.watermark.value) for step in document.steps] == [(2, at(4) - 1)]
    assert document.tracker is not None
    assert document.tracker.combined_us == at(4)


def test_the_watermark_never_falls() -> None:
    rules = timed_rules()
    document = tried(timed_document("0"), 0, 1, rules, maxima={"0": at(9)})
    document = tried(document, 1, 2, rules, maxima={"0": at(2)})
    assert commit.watermark_at(document.steps, 2) == commit.watermark_at(document.steps, 1)


def test_a_checkpoint_without_event_times_moves_the_mark_and_no_watermark() -> None:
    """All of its times were null, or it had no rows."""
    document = tried(timed_document("0"), 0, 1, timed_rules())
    assert (document.marks.end, document.steps) == (1, ())


def test_where_loaders_speak_event_times_do_not() -> None:
    document = tried(document_of(first=0), 0, 1, rules_of(WatermarkKind.TIMESTAMP), maxima={"0": at(9)})
    assert document.steps == ()


def test_a_second_sinks_receipt_for_counted_rows_counts_nothing_twice() -> None:
    """The rows of a checkpoint are counted by whoever tries it first, whole."""
    rules = rules_of()
    document = tried(document_of(first=0), 0, 2, rules, late=3, dead=2, skewed=1, size_bytes=500)
    again = tried(document, 0, 2, rules, late=3, dead=2, skewed=1, size_bytes=500)
    assert (again.late_rows, again.dead_letters, again.skewed_rows, again.row_bytes) == (3, 2, 1, 50.0)


def test_the_weight_of_a_row_follows_what_comes() -> None:
    document = tried(document_of(first=0), 0, 1, rules_of(), size_bytes=1000)
    document = tried(document, 1, 2, rules_of(), size_bytes=2000)
    assert document.row_bytes is not None
    assert 100 < document.row_bytes < 200
    empty = commit.record(document, Range(2, 3), [receipt_of(2, 3)], Intake(rows=0))
    assert empty.row_bytes == document.row_bytes


def test_a_failure_stands_until_its_piece_is_delivered_there() -> None:
    """Of one sink, or of the source before any sink was reached."""
    failure = Failure(range=Range(0, 1), sink="lake", code="TG-D003", message="no", at_us=1)
    document = commit.failed(
        commit.failed(document_of(first=0), failure), replace(failure, attempts=2, message="still no")
    )
    assert [(one.attempts, one.message) for one in document.failures] == [(2, "still no")]
    assert document.sinks["lake"].error == "still no"
    elsewhere = tried(document, 1, 2, rules_of())
    assert len(elsewhere.failures) == 1
    healed = tried(elsewhere, 0, 1, rules_of())
    assert (healed.failures, healed.sinks["lake"].error, healed.marks.end) == ((), None, 2)
    source = commit.failed(document_of(first=0), replace(failure, sink=None))
    assert tried(source, 0, 1, rules_of()).failures == ()


def test_a_gap_is_as_old_as_its_first_sight_and_begins_anew_when_the_mark_moves() -> None:
    rules = rules_of()
    ahead = replace(document_of(first=0), highest_seen=5)
    for now_us in (10, 20):
        ahead = commit.settle(ahead, rules, now_us=now_us)
    assert ahead.gap_since_us == 10
    moved = commit.record(ahead, Range(0, 1), [receipt_of(0, 1)], Intake(rows=1))
    assert commit.settle(moved, rules, now_us=30).gap_since_us == 30
    done = commit.record(moved, Range(1, 6), [receipt_of(1, 6)], Intake(rows=1))
    assert commit.settle(done, rules, now_us=40).gap_since_us is None


def test_below_its_start_a_sink_owes_nothing() -> None:
    """A required sink that joined at 5 does not hold what was planned before."""
    files = ParquetSinkSpec(name="files", path="out")
    document = document_of(first=0, sinks=(files,))
    late = replace(document, sinks={"files": replace(document.sinks["files"], start=5)})
    late = commit.record(late, Range(5, 6), [receipt_of(5, 6, sink="files")], Intake(rows=1))
    late = replace(late, taken=late.taken | Range(0, 5))
    assert commit.settle(late, rules_of(), now_us=1).marks.end == 6


def test_a_step_that_says_nothing_new_is_not_noted() -> None:
    document = commit.stepped(document_of(first=0), Step(end=3, watermark=minute(5)))
    assert commit.stepped(document, Step(end=4, watermark=minute(5))) == document
    assert commit.stepped(document, Step(end=4, watermark=minute(4), seq=1)) == document


def test_steps_are_forgotten_once_every_sink_has_shown_them() -> None:
    """But not the newest, and no advance that a sink has not shown: each gets a version of its own."""
    document = document_of(first=0)
    lake = replace(document.sinks["lake"], published_end=4, watermark=minute(2))
    document = replace(document, sinks={"lake": lake})
    for seq, (end, value) in enumerate([(1, 1), (3, 2), (4, 3), (4, 4), (6, 5)], start=1):
        document = commit.stepped(document, Step(end=end, watermark=minute(value), seq=seq))
    assert [step.watermark for step in document.steps] == [minute(3), minute(4), minute(5)]


def test_positions_follow_the_unbroken_prefix() -> None:
    """Of half a batch only the slices that are complete count."""

    def piece(number: int, lo: int, hi: int) -> Slice:
        return Slice(number=number, parts={"0": Range(lo, hi)})

    plan = PlanDocument(
        range=Range(1, 3), epoch=1, token=1, slices=(piece(1, 0, 5), piece(2, 5, 9)), source_identity="", planned_us=0
    )
    assert commit.positions_after({}, [plan], Range(0, 2)) == {"0": 5}
    assert commit.positions_after({"0": 5}, [plan], Range(2, 4)) == {"0": 9}
    assert commit.positions_after({"0": 7}, [plan], Range(3, 3)) == {"0": 7}


def test_what_is_kept_beyond_the_mark_is_forgotten_below_it() -> None:
    """The document stays small however many checkpoints have passed."""
    document = document_of(first=0)
    for number in (2, 1, 0, 3):
        document = tried(document, number, number + 1, rules_of())
    assert (document.marks.end, document.committed, document.taken) == (4, RangeSet(), RangeSet())
