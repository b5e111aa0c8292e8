"""A pipeline at work: one control loop that plans, hands out pieces, commits, publishes and retains.

The loop is the pipeline's one committer. Workers only try pieces and answer; all decisions are those
of `plan`, `work`, `commit`, `publish` and `retain`, which are pure, and all that they change is
written in one put before anything that depends on it is done.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate import errors
from tidegate.clock import Clock, to_micros
from tidegate.ledger import leases
from tidegate.ledger.contract import Store
from tidegate.pipelines import commit, opening, publish, retain, work
from tidegate.pipelines.declare import PipelineSpec, Transform
from tidegate.pipelines.documents import Failure, Phase, PipelineDocument, Standing, Wanted, read_control
from tidegate.pipelines.faults import Fault, fault_of
from tidegate.pipelines.intent import Planner, View
from tidegate.pipelines.memory import Memory
from tidegate.pipelines.worker import Bench, Order, Outcome, Outlet, carry_out
from tidegate.progress.drift import Drift
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.retries import RetryIn, decide_retry
from tidegate.sinks.contract import Delivery, Ownership, Sink, SinkState
from tidegate.sources.contract import Source
from tidegate.spark.session import Spark

Tell = Callable[[str, Mapping[str, object]], None]

POLL_S: Final = 0.2
CONTROL_POLL_US: Final = 400_000
DRAIN_S: Final = 60.0
SWEEP_AFTER_US: Final = 120_000_000


def _nobody_to_wait_for() -> None:
    """Of a source that no group binds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What a run is given: the pipeline as declared, and the rooms it works with."""

    spec: PipelineSpec
    store: Store
    spark: Spark
    source: Source
    sinks: Sequence[Sink]
    side: Mapping[str, Sink]
    clock: Clock
    tell: Tell
    pins: Callable[[], Mapping[str, int]] = dict
    drift: Callable[[], Drift | None] = _nobody_to_wait_for
    rng: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a run of a pipeline ended."""

    pipeline: str
    phase: Phase
    reason: str | None = None
    skipped: bool = False

    @property
    def has_failed(self) -> bool:
        return self.phase is Phase.FAILED


class PipelineRun:
    """One run of one pipeline, from taking its lease to letting it go."""

    def __init__(self, equipment: Equipment, *, once: bool, stop: threading.Event) -> None:
        self._with = equipment
        self._spec = equipment.spec
        self._once = once
        self._stop = stop
        self._outcomes: queue.Queue[Outcome] = queue.Queue()
        self._running: dict[Range, Order] = {}
        self._tries = work.Tries()
        self._attempts = 0
        self._caught_up = False
        self._control_read_us = 0
        self._wanted = Wanted.RUN
        self._published_at = float("-inf")
        self._publish_faults: dict[str, Fault] = {}
        self._lost_error: Exception | None = None
        self._source_fault: Fault | None = None
        self._source_tries = 0
        self._draining_since: float | None = None
        self._found_nothing = False
        self._throttled_by: tuple[str, ...] = ()

    def run(self) -> Finished:
        """Work until there is no more to do (`once`), or until told to stop; give the lease back.

        A pipeline that was paused or stopped is left alone; a run that goes on takes it up when it is resumed.
        """
        try:
            while True:
                held_back = self._held_back()
                if held_back is None:
                    finished = self._leased()
                    if self._once or self._stop.is_set() or finished.phase not in (Phase.PAUSED, Phase.STOPPED):
                        return finished
                    continue
                self._tell("pipeline_skipped", state=held_back.value)
                if self._once or not self._wait_for_resume():
                    return Finished(pipeline=self._spec.name, phase=held_back, skipped=True)
        finally:
            self._with.source.close()
            for sink in (*self._with.sinks, *self._with.side.values()):
                sink.close()

    def _held_back(self) -> Phase | None:
        """Whether a person wants it not to run now."""
        control = read_control(self._with.store, self._spec.name)
        self._wanted = Wanted.RUN if control is None else control.wanted
        return {Wanted.RUN: None, Wanted.PAUSE: Phase.PAUSED, Wanted.STOP: Phase.STOPPED}[self._wanted]

    def _wait_for_resume(self) -> bool:
        """Wait until it may run again; false when the whole run is told to stop first."""
        while not self._stop.is_set():
            if self._held_back() is None:
                return True
            self._with.clock.wait(self._stop, CONTROL_POLL_US / 1_000_000)
        return False

    def _leased(self) -> Finished:
        lease = opening.take_lease(self._with.store, self._spec.name, stop=self._stop, tell=self._with.tell)
        with leases.Keeper(self._lost, self._with.clock) as keeper:
            keeper.add(lease)
            try:
                return self._owned(lease)
            finally:
                self._pool_down()
                keeper.drop(lease)
                lease.release()

    def _lost(self, lease: leases.Lease, error: Exception) -> None:
        self._lost_error = error

    # taking over

    def _owned(self, lease: leases.Lease) -> Finished:
        self._lease = lease
        self._memory = Memory(self._with.store, self._spec.name, lease)
        transform = self._load_transform()
        if self._memory.document is not None:
            self._mend(self._memory.document)
        document = opening.opened_document(
            self._memory.document, self._spec, self._with.source, token=lease.token, now_us=self._now_us()
        )
        owner = Ownership(pipeline=self._spec.name, epoch=document.epoch, token=lease.token)
        self._rules = opening.rules_of(self._spec, self._with.source.spec)
        self._bench = Bench(
            pipeline=self._spec.name,
            spark=self._with.spark,
            source=self._with.source,
            transform=transform,
            late=self._spec.late,
            owner=owner,
            outlets={sink.spec.name: Outlet(sink, owner, self._check_of(sink)) for sink in self._with.sinks},
            side={name: Outlet(sink, owner) for name, sink in self._with.side.items()},
        )
        self._doc = document
        self._planner = Planner(
            spec=self._spec, source=self._with.source, store=self._with.store, rules=self._rules, once=self._once
        )
        self._pool = ThreadPoolExecutor(
            max_workers=self._spec.max_inflight + 1, thread_name_prefix=f"tidegate-{self._spec.name}"
        )
        self._draining_since = None
        try:
            self._doc = self._take_over_sinks(document)
            self._save()
            self._tell("pipeline_started", end=self._doc.marks.end, open_plans=len(self._memory.plans))
            return self._loop()
        except errors.StaleWriter:
            raise
        except (errors.SinkError, errors.LakeError) as failed:
            self._tell("pipeline_failed", code=failed.code, message=failed.message, hint=failed.hint)
            return self._ended(Phase.FAILED, failed.message)
        except errors.TidegateError as failed:
            self._ended(Phase.FAILED, failed.message)
            raise

    def _check_of(self, sink: Sink) -> Callable[[SinkState], None]:
        name = sink.spec.name
        return lambda state: opening.check_kept(name, self._doc.sinks[name], state)

    def _load_transform(self) -> Transform | None:
        return None if self._spec.transform is None else self._spec.transform.load()

    def _take_over_sinks(self, document: PipelineDocument) -> PipelineDocument:
        for name, outlet in self._bench.outlets.items():
            try:
                document = opening.adopted(document, name, outlet.open())
            except errors.StaleWriter:
                raise
            except (errors.SinkError, errors.LakeError, OSError) as exc:
                fault = fault_of(exc, sink=name)
                if document.sinks[name].required and not fault.is_transient:
                    raise
                sinks = {**document.sinks, name: replace(document.sinks[name], error=fault.message)}
                document = replace(document, sinks=sinks)
        for name in self._bench.side:
            if self._memory.receipts(name):
                self._bench.side[name].open()
        self._sweep(document)
        return document

    def _sweep(self, document: PipelineDocument) -> None:
        older = self._now_us() - SWEEP_AFTER_US
        outlets = [*self._bench.outlets.values(), *self._bench.side.values()]
        for outlet in (one for one in outlets if one.is_open):
            keep: list[Delivery] = [receipt.delivery for receipt in self._memory.receipts(outlet.name)]
            outlet.sink.sweep(keep, older_than_us=older)

    # the loop

    def _loop(self) -> Finished:
        self._publish(force=True)
        # A step at the start of every run; of `--once` then one at its end, over all that it has delivered.
        self._retain(steps=True, is_start=True)
        while True:
            self._collect()
            self._commit()
            self._publish(force=not self._running)
            draining = self._is_draining()
            if draining and not self._running:
                break
            if draining:
                self._hurry()
            if not draining:
                self._plan()
            self._retain(steps=not self._once)
            self._memory.forget(side=tuple(self._bench.side))
            self._save()
            if not draining and self._hand_out() == 0 and self._once and self._is_done():
                break
        return self._finish()

    def _is_draining(self) -> bool:
        now_us = self._now_us()
        if now_us - self._control_read_us >= CONTROL_POLL_US:
            self._control_read_us = now_us
            control = read_control(self._with.store, self._spec.name)
            self._wanted = Wanted.RUN if control is None else control.wanted
        return self._stop.is_set() or self._wanted is not Wanted.RUN

    def _hurry(self) -> None:
        """Cancel what is in flight once the deadline of a drain has passed: it will be done again."""
        now = self._with.clock.monotonic()
        if self._draining_since is None:
            self._draining_since = now
        if now - self._draining_since > DRAIN_S:
            for order in self._running.values():
                self._with.spark.cancel(order.tag)

    def _collect(self) -> None:
        """Wait a moment for an answer, then take all that are there."""
        if self._lost_error is not None:
            raise self._lost_error
        try:
            self._take(self._outcomes.get(timeout=self._patience_s()))
            while True:
                self._take(self._outcomes.get_nowait())
        except queue.Empty:
            return

    def _patience_s(self) -> float:
        if self._running:
            return POLL_S
        return 0.0 if self._once or self._stop.is_set() else POLL_S

    def _take(self, outcome: Outcome) -> None:
        order = outcome.order
        self._running.pop(order.range, None)
        if outcome.fatal is not None:
            raise outcome.fatal
        for name, state in outcome.opened.items():
            self._doc = opening.adopted(self._doc, name, state)
        if outcome.receipts:
            self._memory.add_receipts(outcome.receipts)
            self._doc = commit.record(self._doc, order.range, outcome.receipts, outcome.intake)
        for receipt in outcome.receipts:
            self._tries = self._tries.succeeded(receipt.sink, order.range)
            self._tell_range("batch_delivered", order.range, sink=receipt.sink, rows=receipt.rows)
        for fault in outcome.faults:
            self._note(order, fault)

    def _note(self, order: Order, fault: Fault) -> None:
        """Decide about a failed try: again later, again in halves, or given up for now."""
        sinks = order.sinks if fault.sink is None else (fault.sink,)
        if not fault.is_transient and len(order.range) > 1:
            for sink in sinks:
                self._tries = self._tries.split(sink, order.range)
            return
        now_us = self._now_us()
        attempt = max(self._tries.attempts(sink, order.range) for sink in sinks) + 1
        decision = decide_retry(self._spec.retry, attempt, fault.severity, self._with.rng)
        if isinstance(decision, RetryIn):
            retry_at_us: int | None = now_us + decision.wait_us
        elif self._once:
            retry_at_us = None
        else:
            retry_at_us = now_us + self._spec.retry.max_us
        for sink in sinks:
            self._tries = self._tries.noted(sink, order.range, retry_at_us)
        if not isinstance(decision, RetryIn):
            failure = Failure(
                range=order.range,
                sink=fault.sink,
                code=fault.code,
                message=fault.message,
                at_us=now_us,
                attempts=attempt,
            )
            self._doc = commit.failed(self._doc, failure)
            self._tell_range("batch_failed", order.range, sink=fault.sink, code=fault.code, message=fault.message)

    def _commit(self) -> None:
        before = self._doc.marks.end
        settled = commit.settle(self._doc, self._rules, self._now_us())
        if before is not None and settled.marks.end is not None and settled.marks.end > before:
            passed = Range(before, settled.marks.end)
            positions = commit.positions_after(settled.committed_positions, self._memory.plans, passed)
            settled = replace(settled, committed_positions=positions)
        self._doc = settled
        self._save()
        if settled.marks.end is not None and settled.marks.end != before:
            self._tell("checkpoint_committed", end=settled.marks.end)

    # publishing

    def _publish(self, *, force: bool) -> None:
        now = self._with.clock.monotonic()
        if not force and (now - self._published_at) * 1_000_000 < self._spec.publish_every_us:
            return
        self._published_at = now
        for name, outlet in self._bench.outlets.items():
            if outlet.is_open:
                self._publish_sink(name, outlet)
        self._publish_side()
        self._doc = replace(self._doc, watermark=self._doc.sinks[self._spec.main_sink.name].watermark)
        self._memory.forget(side=tuple(self._bench.side))
        self._save()

    def _publish_sink(self, name: str, outlet: Outlet) -> None:
        receipts = self._memory.receipts(name)
        try:
            for target in publish.targets(self._doc, name, receipts, self._rules.kind):
                state = outlet.sink.publish(target.receipts, publish.publication(self._doc, target))
                self._doc = publish.published(self._doc, name, target, state)
                self._tell("published", sink=name, end=target.end, version=state.version)
            self._publish_faults.pop(name, None)
        except errors.StaleWriter:
            raise
        except (errors.SinkError, errors.LakeError, OSError) as exc:
            self._publish_faults[name] = fault_of(exc, sink=name)
            self._tell("publish_failed", sink=name, message=self._publish_faults[name].message)

    def _publish_side(self) -> None:
        """Side tables follow the pipeline's own mark."""
        end = self._doc.sinks[self._spec.main_sink.name].published_end
        if end is None:
            return
        for name, outlet in self._bench.side.items():
            receipts = [one for one in self._memory.receipts(name) if one.range.hi <= end]
            if receipts:
                outlet.open()
                target = publish.Target(end=end, receipts=tuple(receipts), watermark=None)
                outlet.sink.publish(receipts, publish.publication(self._doc, target))
                self._memory.forget_side(name, end)

    # planning and handing out

    def _mend(self, document: PipelineDocument) -> None:
        """Plan anew what could not be read, where another file is there by now."""
        busy = RangeSet(self._running)
        mended = opening.mended(document, self._memory.plans, self._with.source, busy=busy, token=self._lease.token)
        self._memory.remake_plans(mended)
        for plan in mended:
            self._tell_range("batch_planned", plan.range)

    def _plan(self) -> None:
        self._mend(self._doc)
        view = View(
            document=self._doc,
            plans=self._memory.plans,
            busy=len(self._running) + len(self._due()),
            now_us=self._now_us(),
            token=self._lease.token,
            is_throttled=self._is_throttled(),
        )
        try:
            intent = self._planner.plan(view)
        except errors.SourceUnreachable as unreachable:
            self._miss_source(fault_of(unreachable))
            return
        self._source_fault, self._source_tries = None, 0
        self._found_nothing = not intent.plans and view.busy == 0
        self._doc = intent.document
        if intent.plans:
            self._memory.add_plans(intent.plans)
            for plan in intent.plans:
                self._tell_range("batch_planned", plan.range)

    def _is_throttled(self) -> bool:
        """Whether the source waits for others. A run of `--once` takes what is there: nobody would catch up in it."""
        found = None if self._once else self._with.drift()
        by = found.waits_for if found is not None and found.is_throttled else ()
        if found is not None and by and by != self._throttled_by:
            self._tell("source_throttled", source=self._spec.source, waits_for=list(by), reason=found.reason)
        self._throttled_by = by
        return bool(by)

    def _miss_source(self, fault: Fault) -> None:
        """The source does not answer: ask again later, in a run of `--once` only so often."""
        self._source_fault = fault
        self._source_tries += 1
        self._tell("source_unreachable", code=fault.code, message=fault.message)
        decision = decide_retry(self._spec.retry, self._source_tries, fault.severity, self._with.rng)
        self._found_nothing = self._once and not isinstance(decision, RetryIn)
        wait_us = decision.wait_us if isinstance(decision, RetryIn) else self._spec.retry.max_us
        if not self._found_nothing:
            self._with.clock.wait(self._stop, min(wait_us, 1_000_000) / 1_000_000)

    def _workload(self) -> work.Workload:
        active = {
            name: sink
            for name, sink in self._doc.sinks.items()
            if sink.standing is Standing.ACTIVE and name in self._bench.outlets
        }
        return work.Workload(
            batches=[plan.range for plan in self._memory.plans],
            delivered={name: sink.delivered for name, sink in active.items()},
            starts={name: sink.start for name, sink in active.items()},
            running=RangeSet(self._running),
            taken=self._doc.taken | Range(0, self._doc.marks.end or 0),
            tries=self._tries,
        )

    def _due(self) -> list[work.Piece]:
        return work.due(self._workload(), self._now_us())

    def _hand_out(self) -> int:
        """Give the free workers what is due; how many pieces are under way."""
        for piece in self._due()[: max(0, self._spec.max_inflight - len(self._running))]:
            self._attempts += 1
            order = Order(
                plan=self._memory.plan_of(piece.range),
                range=piece.range,
                sinks=piece.sinks,
                attempt=self._attempts,
                counts=not commit.is_taken(self._doc, piece.range),
            )
            self._running[piece.range] = order
            self._pool.submit(self._work, order)
        return len(self._running)

    def _work(self, order: Order) -> None:
        self._outcomes.put(carry_out(self._bench, order))

    def _is_done(self) -> bool:
        """Whether a run of `--once` has nothing more to do: no work, no budget left, one catch-up round made."""
        if self._running or not self._found_nothing:
            return False
        if self._tries.next_at_us is not None:
            # Nothing to do but wait for the next try: without a busy loop.
            wait_us = self._tries.next_at_us - self._now_us()
            self._with.clock.wait(self._stop, min(POLL_S, max(0.0, wait_us / 1_000_000)))
            return False
        if self._due():
            return False
        optional = {sink.name for sink in self._spec.sinks if not sink.required}
        if not self._caught_up and any(one.sink in optional for one in self._tries.exhausted):
            self._caught_up = True
            self._tries = self._tries.renewed(optional, self._now_us())
            return False
        return True

    # retention

    def _retain(self, *, steps: bool, is_start: bool = False) -> None:
        now_us = self._now_us()
        sinks = {name: outlet.sink for name, outlet in self._bench.outlets.items() if outlet.is_open}
        sinks = {name: sink for name, sink in sinks.items() if self._doc.sinks[name].standing is Standing.ACTIVE}
        try:
            if steps and retain.is_step_due(self._doc, self._spec, now_us, is_start=is_start):
                self._doc = retain.raise_reader_lo(self._doc, self._spec, sinks, now_us)
                self._save()
            if not self._doc.marks.due(now_us).is_empty:
                pruned = retain.delete_due(self._doc, sinks, self._with.pins(), now_us)
                self._doc = pruned.document
                self._save()
                self._tell("pruned", end=self._doc.marks.pruned_end, files=pruned.files)
        except errors.StaleWriter:
            raise
        except (errors.SinkError, errors.LakeError, OSError) as exc:
            self._tell("retention_failed", message=fault_of(exc).message)

    # the end

    def _finish(self) -> Finished:
        self._publish(force=True)
        self._retain(steps=True)
        self._memory.forget(side=tuple(self._bench.side))
        return self._ended(*self._verdict())

    def _ended(self, phase: Phase, reason: str | None) -> Finished:
        self._doc = replace(self._doc, phase=phase, reason=reason, updated_us=self._now_us())
        self._save()
        self._tell("pipeline_finished", phase=phase.value, reason=reason)
        return Finished(pipeline=self._spec.name, phase=phase, reason=reason)

    def _verdict(self) -> tuple[Phase, str | None]:
        if self._wanted is Wanted.PAUSE:
            return Phase.PAUSED, None
        if self._wanted is Wanted.STOP:
            return Phase.STOPPED, None
        blocking = opening.blocking_failures(self._doc)
        if blocking:
            one = blocking[0]
            where = "" if one.sink is None else f" in sink {one.sink}"
            first, last = one.range.inclusive
            numbers = f"checkpoint {first}" if first == last else f"checkpoints {first} to {last}"
            return Phase.FAILED, f"{numbers} failed{where}: {one.message}"
        if self._source_fault is not None and not self._stop.is_set():
            return Phase.FAILED, self._source_fault.message
        main = self._publish_faults.get(self._spec.main_sink.name)
        if main is not None:
            return Phase.FAILED, f"sink {main.sink} could not be published: {main.message}"
        return Phase.IDLE, None

    def _pool_down(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is None:
            return
        with suppress(errors.SparkUnavailable):  # what is gone needs no cancelling
            for order in list(self._running.values()):
                self._with.spark.cancel(order.tag)
        pool.shutdown(wait=False, cancel_futures=True)

    # small things

    @property
    def _doc(self) -> PipelineDocument:
        document = self._memory.document
        if document is None:
            raise RuntimeError("the pipeline has not been opened")
        return document

    @_doc.setter
    def _doc(self, document: PipelineDocument) -> None:
        self._memory.document = document

    def _save(self) -> None:
        self._memory.save()

    def _now_us(self) -> int:
        return to_micros(self._with.clock.now())

    def _tell(self, event: str, **facts: object) -> None:
        self._with.tell(event, {"pipeline": self._spec.name, **facts})

    def _tell_range(self, event: str, piece: Range, **facts: object) -> None:
        first, last = piece.inclusive
        self._tell(event, first=first, last=last, **facts)
