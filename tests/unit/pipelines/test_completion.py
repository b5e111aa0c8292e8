"""The laws of completion: receipts in any order, from several sinks, make the same marks and never show a gap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.pipelines import commit, publish
from tidegate.pipelines.commit import Intake, Rules
from tidegate.pipelines.documents import PipelineDocument, SinkProgress
from tidegate.pipelines.intent import started
from tidegate.progress.policies import CommitPolicy
from tidegate.progress.ranges import Range
from tidegate.sinks.contract import Delivery, Ownership, Receipt, SinkState
from tidegate.sources.specs import WatermarkKind

FIRST = 1000
OWNER = Ownership(pipeline="orders", epoch=1, token=1)
POLICIES = {
    "all": CommitPolicy.all(),
    "required": CommitPolicy.required(),
    "quorum": CommitPolicy.quorum(2),
}
REQUIRED = {"a": True, "b": False, "c": False}


def document() -> PipelineDocument:
    sinks = {name: SinkProgress(type="delta", required=required, start=0) for name, required in REQUIRED.items()}
    fresh = PipelineDocument(pipeline="orders", source="orders", source_identity="orders", sinks=sinks)
    return started(fresh, FIRST)


def receipt(sink: str, piece: Range) -> Receipt:
    return Receipt(sink=sink, delivery=Delivery(owner=OWNER, range=piece, attempt=1), rows=len(piece))


def rules(policy: str) -> Rules:
    return Rules(policy=POLICIES[policy], kind=WatermarkKind.CHECKPOINT)


def delivered(doc: PipelineDocument, sink: str, piece: Range) -> PipelineDocument:
    """The document after one try: its receipt, and the intake of what nobody had counted before."""
    taken = doc.taken | Range(0, doc.marks.end or 0)
    for span in taken.gaps(piece):
        doc = commit.record(doc, span, [], Intake(rows=len(span), late=len(span)))
    return commit.record(doc, piece, [receipt(sink, piece)], None)


def numbers_of(deliveries: Iterable[tuple[str, Range]]) -> dict[str, set[int]]:
    """The obvious model: a set of numbers for each sink."""
    had: dict[str, set[int]] = {name: set() for name in REQUIRED}
    for sink, piece in deliveries:
        had[sink] |= set(piece)
    return had


def passes(policy: str, had: dict[str, set[int]], number: int) -> bool:
    match policy:
        case "all":
            return all(number in numbers for numbers in had.values())
        case "required":
            return all(number in had[name] for name, required in REQUIRED.items() if required)
        case _:
            return sum(number in numbers for numbers in had.values()) >= 2


def model_end(policy: str, had: dict[str, set[int]]) -> int:
    end = FIRST
    while passes(policy, had, end):
        end += 1
    return end


@st.composite
def deliveries(draw: st.DrawFn) -> list[tuple[str, Range]]:
    """For each sink its own cut of the same numbers into pieces, some left out, all in one random order."""
    found: list[tuple[str, Range]] = []
    for sink in REQUIRED:
        at = FIRST
        while at < FIRST + 12:
            size = draw(st.integers(1, 4))
            if draw(st.integers(0, 5)):
                found.append((sink, Range(at, at + size)))
            at += size
    return draw(st.permutations(found))


@given(deliveries(), st.sampled_from(sorted(POLICIES)))
def test_the_mark_is_the_unbroken_run_of_what_the_policy_lets_pass(steps: list[tuple[str, Range]], policy: str) -> None:
    """After every receipt, in whatever order, hi and what is ahead of it are those of the model."""
    doc = document()
    for done, (sink, piece) in enumerate(steps, start=1):
        doc = commit.settle(delivered(doc, sink, piece), rules(policy), now_us=done)
        had = numbers_of(steps[:done])
        end = model_end(policy, had)
        ahead = {n for n in range(end, FIRST + 20) if passes(policy, had, n)}
        assert doc.marks.end == end
        assert set(doc.committed.numbers()) == ahead


@given(deliveries(), st.sampled_from(sorted(POLICIES)), st.randoms(use_true_random=False))
def test_a_sink_shows_an_unbroken_run_up_to_the_mark_and_each_receipt_once(
    steps: list[tuple[str, Range]], policy: str, random: object
) -> None:
    """Whenever a sink is published, what it shows has no gap, is its own, and is not beyond hi."""
    doc = document()
    shown: dict[str, list[Range]] = {name: [] for name in REQUIRED}
    waiting: dict[str, list[Receipt]] = {name: [] for name in REQUIRED}
    for now_us, (sink, piece) in enumerate(steps):
        doc = delivered(doc, sink, piece)
        waiting[sink].append(receipt(sink, piece))
        doc = commit.settle(doc, rules(policy), now_us=now_us)
        for name in REQUIRED:
            left = sorted(waiting[name], key=lambda one: one.range.lo)
            for target in publish.targets(doc, name, left, WatermarkKind.CHECKPOINT):
                doc = publish.published(doc, name, target, SinkState(epoch=1, token=1, end=target.end, version=1))
                shown[name] += [one.range for one in target.receipts]
                waiting[name] = [one for one in waiting[name] if one not in target.receipts]
            end = doc.sinks[name].published_end or FIRST
            assert [n for span in shown[name] for n in span] == list(range(FIRST, end))
            assert end <= (doc.marks.end or 0)


@given(deliveries())
def test_a_receipt_that_comes_twice_changes_nothing(steps: list[tuple[str, Range]]) -> None:
    """A replayed receipt is harmless: rows are counted once and the marks stay."""
    doc = document()
    for now_us, (sink, piece) in enumerate(steps):
        doc = commit.settle(delivered(doc, sink, piece), rules("all"), now_us=now_us)
        again = commit.record(doc, piece, [receipt(sink, piece)], Intake(rows=len(piece), late=len(piece)))
        assert commit.settle(again, rules("all"), now_us=now_us) == doc
    assert doc.late_rows == len(set().union(*numbers_of(steps).values()))


def test_a_checkpoint_whose_rows_nobody_counted_is_not_committed() -> None:
    """Event time and dead letters belong to the checkpoint: without the intake it waits."""
    doc = commit.record(document(), Range(FIRST, FIRST + 1), [receipt("a", Range(FIRST, FIRST + 1))], None)
    assert commit.settle(doc, rules("required"), now_us=1).marks.end == FIRST


def test_an_optional_sink_that_is_behind_for_too_long_is_broken_and_holds_nothing() -> None:
    """Past its `max_lag` an optional sink is broken; a required one never is."""
    piece = Range(FIRST, FIRST + 1)
    doc = commit.record(document(), piece, [receipt("a", piece)], Intake(rows=1))
    lagging = replace(rules("required"), max_lag_us={"b": 10, "a": 10})
    doc = commit.settle(doc, lagging, now_us=1)
    assert doc.sinks["b"].standing.value == "active"
    doc = commit.settle(doc, lagging, now_us=12)
    assert {name: sink.standing.value for name, sink in doc.sinks.items()} == {
        "a": "active",
        "b": "broken",
        "c": "active",
    }
