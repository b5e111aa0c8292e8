"""What a runner holds of its pipeline, on a store that writes one document at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from obstore.store import MemoryStore as Bucket

from tidegate import effects, errors
from tidegate.ledger import leases
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.pipelines.documents import PipelineDocument, PlanDocument, SinkProgress
from tidegate.pipelines.memory import Memory
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sinks.contract import Delivery, Ownership, Receipt
from tidegate.testing.clock import ManualClock


class Killed(BaseException):
    """The process ended here."""


def memory_of(bucket: Bucket, clock: ManualClock) -> Memory:
    """A new runner's, once the lease of the last one is over."""
    clock.advance(leases.TTL_US + leases.MAX_SKEW_US)
    store = ObjectStoreLedger("test://bucket", clock, bucket=bucket)
    lease = leases.acquire(store, "pipelines/orders/lease", name="orders")
    return Memory(store, "orders", lease)


def plan(piece: Range) -> PlanDocument:
    return PlanDocument(range=piece, epoch=1, token=1, slices=(), source_identity="s", planned_us=0)


def receipt(piece: Range) -> Receipt:
    owner = Ownership(pipeline="orders", epoch=1, token=1)
    return Receipt(sink="lake", delivery=Delivery(owner=owner, range=piece, attempt=1), rows=1)


def moved(memory: Memory, piece: Range) -> None:
    """A plan and a receipt more, with the document that names them; the receipt before it is published."""
    document = memory.document or PipelineDocument(
        pipeline="orders", source="orders", source_identity="s",
        sinks={"lake": SinkProgress(type="delta", required=True, start=0)},
    )  # fmt: skip
    sink = document.sinks["lake"]
    before = Range(0, piece.lo)
    sink = replace(sink, delivered=sink.delivered | piece, published_end=before.hi)
    memory.document = replace(document, planned_end=piece.hi, sinks={"lake": sink})
    memory.add_plans([plan(piece)])
    memory.add_receipts([receipt(piece)])
    memory.forget()
    memory.save()


def seen(bucket: Bucket, clock: ManualClock) -> tuple[object, ...]:
    """What the next runner holds, and then has written."""
    memory = memory_of(bucket, clock)
    held = (
        None if memory.document is None else memory.document.sinks["lake"].delivered,
        [one.range for one in memory.plans],
        [one.range for one in memory.receipts("lake")],
    )
    if memory.document is not None:
        memory.save()
    return held


def test_a_save_in_steps_is_decided_by_the_document() -> None:
    """Killed at any of its writes, the next runner holds all that it said or nothing of it."""
    first, second = Range(0, 3), Range(3, 7)
    before = (RangeSet.of(first), [first], [first])
    after = (RangeSet.of(first) | second, [first, second], [second])
    outcomes = []
    for fatal in range(20):
        bucket, clock = Bucket(), ManualClock()
        memory = memory_of(bucket, clock)
        moved(memory, first)
        left = fatal

        def kill(name: effects.EffectName, moment: effects.Moment, facts: dict[str, object]) -> None:
            nonlocal left
            left -= moment is not effects.Moment.RAISED
            if left < 0:
                raise Killed

        stop = effects.observe(kill)
        try:
            moved(memory, second)
        except Killed:
            pass
        else:
            break
        finally:
            stop()
        outcomes.append(seen(bucket, clock))
        assert outcomes[-1][0] in (before[0], after[0])
        assert outcomes[-1][1] in ([first], [first, second])
        if outcomes[-1][0] == before[0]:
            assert outcomes[-1] == before
        else:
            # What was published meanwhile may still be there; the next publish lets it go.
            assert outcomes[-1][1:] in (([first, second], [first, second]), ([first, second], [second]))
        assert seen(bucket, clock)[0] == outcomes[-1][0]
    assert len(outcomes) >= 6
    assert {outcome[0] for outcome in outcomes} == {before[0], after[0]}


def test_another_runner_s_word_stops_a_save_in_steps() -> None:
    """The lease is looked at before each step, and the document is compared and swapped."""
    bucket, clock = Bucket(), ManualClock()
    memory = memory_of(bucket, clock)
    moved(memory, Range(0, 3))
    store = ObjectStoreLedger("test://bucket", clock, bucket=bucket)
    found = store.get("pipelines/orders/state")
    assert found is not None
    store.put("pipelines/orders/state", found.body, expect=found.version, token=2)
    with pytest.raises(errors.StaleWriter):
        moved(memory, Range(3, 7))
