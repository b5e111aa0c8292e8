"""A sink that keeps rows in memory, remembers what it was asked, and fails when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate import errors
from tidegate.clock import Clock, SystemClock, to_micros
from tidegate.progress.ranges import Range
from tidegate.sinks.contract import Deleted, Delivery, Extent, Ownership, Publication, Receipt, Sink, SinkState
from tidegate.sinks.specs import DeltaSinkSpec, SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row: TypeAlias = Mapping[str, Any]


class Rows:
    """Rows that stand in for a DataFrame where no Spark is wanted: all that a recording sink asks of one."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def collect(self) -> list[Row]:
        return self._rows


@dataclass(slots=True, kw_only=True)
class Held:
    """One delivery as the place keeps it."""

    rows: list[Row]
    at_us: int
    published_us: int | None = None
    given_up: int | None = None  #: the version that gave it up


@dataclass(slots=True)
class Place:
    """What outlives a runner: the rows, who owns them, and what of them counts. Several sinks may share one."""

    epoch: int = 0
    token: int = 0
    state: SinkState | None = None
    deliveries: dict[Delivery, Held] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def visible(self) -> list[Row]:
        """What a reader sees, in the order of the checkpoints."""
        with self.lock:
            seen = [(d.range, held.rows) for d, held in self.deliveries.items() if _is_visible(held)]
        return [row for _, rows in sorted(seen, key=lambda one: one[0]) for row in rows]


class RecordingSink(Sink):
    """Keeps every promise of the contract, in memory. `calls` are the names of what was asked, in order.

    `fail` is asked before each call and may answer an exception to raise.
    """

    def __init__(
        self,
        place: Place | None = None,
        *,
        spec: SinkSpec | None = None,
        clock: Clock | None = None,
        fail: Callable[[str, Delivery | None], Exception | None] = lambda call, delivery: None,
    ) -> None:
        self.spec = spec or DeltaSinkSpec(name="recording", table="recording")
        self.place = place if place is not None else Place()
        self.calls: list[str] = []
        self._clock = clock or SystemClock()
        self._fail = fail
        self._owner: Ownership | None = None
        self._state: SinkState | None = None

    def open(self, owner: Ownership) -> SinkState:
        with self._asked("open"):
            if owner.token < self.place.token:
                raise self._stale(owner)
            place = self.place
            place.epoch, place.token, self._owner = owner.epoch, owner.token, owner
            said = place.state or SinkState(epoch=owner.epoch, token=owner.token)
            place.state = replace(said, epoch=owner.epoch, token=owner.token)
            return self._now_at(place.state)

    def state(self) -> SinkState:
        if self._state is None:
            raise ValueError("open it first")
        return self._state

    def deliver(self, df: DataFrame, delivery: Delivery) -> Receipt:
        with self._asked("deliver", delivery):
            pass
        rows: list[Row] = [row if isinstance(row, Mapping) else row.asDict() for row in df.collect()]
        with self.place.lock:
            if delivery in self.place.deliveries:
                raise errors.SinkRejected(sink=self.spec.name, what=f"{delivery} was delivered before")
            self.place.deliveries[delivery] = Held(rows=rows, at_us=self._now_us())
        return Receipt(sink=self.spec.name, delivery=delivery, rows=len(rows))

    def publish(self, receipts: Sequence[Receipt], publication: Publication) -> SinkState:
        with self._asked("publish"):
            before = self._checked()
            new = [r for r in receipts if self.place.deliveries[r.delivery].published_us is None]
            new = [r for r in new if before.end is None or r.range.lo >= before.end]
            if (
                before.end is not None
                and publication.end <= before.end
                and not new
                and _says_no_more(publication, before)
            ):
                return self._now_at(before)
            now_us = self._now_us()
            for receipt in new:
                self.place.deliveries[receipt.delivery].published_us = now_us
            after = replace(
                before,
                end=max(publication.end, before.end or publication.end),
                version=_next(before),
                published_us=now_us,
                vector=publication.vector,
                reader_lo=before.reader_lo if publication.reader_lo is None else publication.reader_lo,
            )
            self.place.state = after
            return self._now_at(after)

    def extents(self) -> list[Extent]:
        with self._asked("extents"):
            return sorted(
                (
                    Extent(
                        range=d.range, rows=len(held.rows), size_bytes=len(held.rows), published_us=held.published_us
                    )
                    for d, held in self.place.deliveries.items()
                    if _is_visible(held) and held.published_us is not None
                ),
                key=lambda extent: extent.range,
            )

    def prune(self, reader_lo: int) -> SinkState:
        with self._asked("prune"):
            before = self._checked()
            floor = _floor(reader_lo, [d.range for d, held in self.place.deliveries.items() if _is_visible(held)])
            if before.end is None or floor <= (before.reader_lo if before.reader_lo is not None else -1):
                return self._now_at(before)
            version = _next(before)
            for delivery, held in self.place.deliveries.items():
                if _is_visible(held) and delivery.range.hi <= floor:
                    held.given_up = version
            self.place.state = replace(before, reader_lo=floor, version=version)
            return self._now_at(self.place.state)

    def delete(self, below: int, *, above: int | None = None, pinned_version: int | None = None) -> Deleted:
        with self._asked("delete"):
            reader_lo = self._checked().reader_lo
            if reader_lo is None:
                return Deleted(end=None)
            below = min(below, reader_lo)
            gone: list[Delivery] = []
            kept: list[Delivery] = []
            for delivery, held in self.place.deliveries.items():
                if held.given_up is not None and delivery.range.hi <= below:
                    is_pinned = pinned_version is not None and pinned_version < held.given_up
                    (kept if is_pinned else gone).append(delivery)
            removed = [self.place.deliveries.pop(delivery) for delivery in gone]
            ranges = tuple(sorted(delivery.range for delivery in kept))
            return Deleted(
                end=min((one.lo for one in ranges), default=below),
                files=len(removed),
                size_bytes=sum(len(held.rows) for held in removed),
                held=ranges,
            )

    def sweep(self, keep: Collection[Delivery], *, older_than_us: int) -> int:
        with self._asked("sweep"):
            dead = [
                delivery
                for delivery, held in self.place.deliveries.items()
                if held.published_us is None
                and delivery not in keep
                and delivery.owner.token < self.place.token
                and held.at_us < older_than_us
            ]
            for delivery in dead:
                del self.place.deliveries[delivery]
            return len(dead)

    def _asked(self, call: str, delivery: Delivery | None = None) -> threading.RLock:
        self.calls.append(call)
        failure = self._fail(call, delivery)
        if failure is not None:
            raise failure
        return self.place.lock

    def _checked(self) -> SinkState:
        owner = self._owner
        if owner is None or self.place.state is None:
            raise ValueError("open it first")
        if owner.token < self.place.token:
            raise self._stale(owner)
        return self.place.state

    def _stale(self, owner: Ownership) -> errors.StaleWriter:
        return errors.StaleWriter(name=owner.pipeline, current=self.place.token, held=owner.token)

    def _now_at(self, state: SinkState) -> SinkState:
        self._state = state
        return state

    def _now_us(self) -> int:
        return to_micros(self._clock.now())


def _is_visible(held: Held) -> bool:
    return held.published_us is not None and held.given_up is None


def _says_no_more(publication: Publication, state: SinkState) -> bool:
    return publication.vector == state.vector and publication.reader_lo in (None, state.reader_lo)


def _next(state: SinkState) -> int:
    return 0 if state.version is None else state.version + 1


def _floor(reader_lo: int, ranges: Sequence[Range]) -> int:
    """The edge of a batch at or below the mark."""
    return next((one.lo for one in ranges if reader_lo in one), reader_lo)
