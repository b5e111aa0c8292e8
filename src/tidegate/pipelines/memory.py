"""What a runner holds of its pipeline, and the one way it is written: all that moved, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate import errors
from tidegate.ledger.contract import Delete, Operation, Put, Store
from tidegate.ledger.leases import Lease
from tidegate.pipelines.documents import (
    PipelineDocument,
    PlanDocument,
    Standing,
    plan_key,
    plans_prefix,
    read_state,
    receipt_from_body,
    receipt_key,
    receipt_to_body,
    receipts_prefix,
    state_key,
)
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sinks.contract import Receipt


class Memory:
    """The document of a pipeline with its open plans and unpublished receipts, as they are in the ledger.

    Changes are collected and written by `save`, in one transaction that holds the lease and expects the
    version this runner wrote last: when another has taken over, nothing is written and `StaleWriter` is raised.

    A store without transactions (objects) gets the same in steps, of which the pipeline's document is the one
    that decides: plans and receipts before it, deletes after it. What a dead runner left of the first is named
    by no document, so nobody acted upon it; it is dropped here.
    """

    def __init__(self, store: Store, pipeline: str, lease: Lease) -> None:
        self.pipeline = pipeline
        self._store = store
        self._lease = lease
        self._token = lease.token
        self._pending: dict[str, Operation] = {}
        found = store.get(state_key(pipeline))
        self._version = None if found is None else found.version
        self._written = b"" if found is None else found.body
        self.document = None if found is None else PipelineDocument.from_body(found.body)
        plans = [PlanDocument.from_body(one.body) for one in store.scan(plans_prefix(pipeline))]
        self._plans = {plan.range.lo: plan for plan in plans}
        self._receipts: dict[str, dict[int, Receipt]] = {}
        for one in store.scan(receipts_prefix(pipeline)):
            self._remember(receipt_from_body(one.body))
        if not store.capabilities.transactions:
            self._drop_unnamed()

    @property
    def plans(self) -> list[PlanDocument]:
        """The open plans, by number."""
        return [self._plans[lo] for lo in sorted(self._plans)]

    @property
    def planned(self) -> RangeSet:
        """The numbers of the open plans."""
        return RangeSet(plan.range for plan in self._plans.values())

    def receipts(self, sink: str) -> list[Receipt]:
        """The unpublished receipts of a sink, by number."""
        known = self._receipts.get(sink, {})
        return [known[lo] for lo in sorted(known)]

    def all_receipts(self) -> list[Receipt]:
        """Every unpublished receipt."""
        return [receipt for sink in self._receipts for receipt in self.receipts(sink)]

    def plan_of(self, piece: Range) -> PlanDocument:
        """The open plan that the piece belongs to."""
        return next(plan for plan in self._plans.values() if plan.range.covers(piece))

    def add_plans(self, plans: Iterable[PlanDocument]) -> None:
        """New plans, written with the next save: before anything of them is read."""
        for plan in plans:
            self._plans[plan.range.lo] = plan
            key = plan_key(self.pipeline, plan.epoch, plan.range)
            self._pending[key] = Put(key=key, body=plan.to_body(), expect=None, token=self._token, history=False)

    def remake_plans(self, plans: Iterable[PlanDocument]) -> None:
        """Open plans that read other files from now on, written with the next save."""
        for plan in plans:
            self._plans[plan.range.lo] = plan
            key = plan_key(self.pipeline, plan.epoch, plan.range)
            known = self._store.get(key)
            expect = None if known is None else known.version
            self._pending[key] = Put(key=key, body=plan.to_body(), expect=expect, token=self._token, history=False)

    def add_receipts(self, receipts: Iterable[Receipt]) -> None:
        """New receipts, written with the next save."""
        for receipt in receipts:
            self._remember(receipt)
            key = self._key_of(receipt)
            body = receipt_to_body(receipt)
            self._pending[key] = Put(key=key, body=body, expect=None, token=self._token, history=False)

    def forget(self, *, side: Sequence[str] = ()) -> None:
        """Let go of receipts that are published, and of plans that no sink will need again."""
        document = self.document
        if document is None:
            return
        for name, sink in document.sinks.items():
            if sink.published_end is not None or sink.standing is not Standing.ACTIVE:
                end = None if sink.standing is not Standing.ACTIVE else sink.published_end
                self._forget_receipts(name, end)
        ends = [
            sink.start if sink.published_end is None else sink.published_end
            for sink in document.sinks.values()
            if sink.standing is Standing.ACTIVE
        ]
        waiting = [receipt.range.lo for name in side for receipt in self.receipts(name)]
        lowest = min([*ends, *waiting, document.marks.end or 0])
        for plan in [plan for plan in self._plans.values() if plan.range.hi <= lowest]:
            del self._plans[plan.range.lo]
            self._delete(plan_key(self.pipeline, plan.epoch, plan.range))

    def forget_side(self, name: str, end: int) -> None:
        """The receipts of a side table below the mark are published."""
        self._forget_receipts(name, end)

    def save(self) -> bool:
        """Write all that changed; false when nothing did.

        :raises StaleWriter: another runner has written; nothing was written now.
        """
        if self.document is None:
            return False
        body = self.document.to_body()
        operations = list(self._pending.values())
        if body == self._written and not operations:
            return False
        put = Put(key=state_key(self.pipeline), body=body, expect=self._version, token=self._token)
        try:
            if self._store.capabilities.transactions:
                self._version = self._lease.transaction([put, *operations])[0]
            else:
                self._version = self._save_in_steps(put, operations)
        except errors.VersionConflict as conflict:
            raise self._stale() from conflict
        self._written = body
        self._pending.clear()
        return True

    def _save_in_steps(self, put: Put, operations: Sequence[Operation]) -> int:
        for operation in operations:
            if isinstance(operation, Put):
                self._put_unnamed(operation)
        [version] = self._lease.transaction([put])
        for operation in operations:
            if isinstance(operation, Delete):
                self._lease.transaction([operation])
        return version

    def _put_unnamed(self, put: Put) -> None:
        """Write what no document names yet, over what a dead runner, or this one's last try, may have left there."""
        try:
            self._lease.transaction([put])
        except errors.VersionConflict:
            found = self._store.get(put.key)
            self._lease.transaction([replace(put, expect=None if found is None else found.version)])

    def _drop_unnamed(self) -> None:
        """Let go of plans and receipts that were being written when a runner died."""
        document = self.document
        planned_end = 0 if document is None else document.planned_end or 0
        for plan in [plan for plan in self.plans if plan.range.lo >= planned_end]:
            del self._plans[plan.range.lo]
            self._delete(plan_key(self.pipeline, plan.epoch, plan.range))
        for receipt in self.all_receipts():
            if document is None or not _names(document, receipt):
                self._delete(self._key_of(self._receipts[receipt.sink].pop(receipt.range.lo)))

    def _stale(self) -> errors.StaleWriter:
        current = read_state(self._store, self.pipeline)
        token = "unknown" if current is None else current.token
        return errors.StaleWriter(name=self.pipeline, current=token, held=self._token)

    def _remember(self, receipt: Receipt) -> None:
        self._receipts.setdefault(receipt.sink, {})[receipt.range.lo] = receipt

    def _forget_receipts(self, sink: str, end: int | None) -> None:
        known = self._receipts.get(sink, {})
        for lo in [lo for lo, receipt in known.items() if end is None or receipt.range.hi <= end]:
            self._delete(self._key_of(known.pop(lo)))

    def _delete(self, key: str) -> None:
        # One that was never written needs no delete.
        if isinstance(self._pending.pop(key, None), Put):
            return
        self._pending[key] = Delete(key=key, token=self._token, forget=True)

    def _key_of(self, receipt: Receipt) -> str:
        return receipt_key(self.pipeline, receipt.delivery.owner.epoch, receipt.range, receipt.sink)


def _names(document: PipelineDocument, receipt: Receipt) -> bool:
    """Whether the document knows of the delivery; of a side table's it does by having taken its rows in."""
    sink = document.sinks.get(receipt.sink)
    had = document.taken | Range(0, document.marks.end or 0) if sink is None else sink.delivered
    return had.covers(receipt.range)
