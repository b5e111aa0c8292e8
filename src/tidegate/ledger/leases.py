"""Leases: one owner at a time for a pipeline or table, and a token that only grows.

A lease is a document. Its holder renews it; once it has expired, or its holder is proved dead,
another may take it, with a higher token. A holder that slept through that learns it when it renews,
checks, or writes through `Lease.transaction`; what it writes elsewhere carries its token, which is then
too low. The document is never deleted, so the token survives releases.

Light: `tidegate status` loads this module.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import Self

from tidegate import errors
from tidegate.clock import Clock, SystemClock, to_micros
from tidegate.ledger import owners
from tidegate.ledger.contract import Guard, Operation, Put, Store, Versioned
from tidegate.ledger.owners import Owner
from tidegate.quick import dataclass

TTL_US = 10_000_000
RENEWALS_PER_TTL = 3
#: How far the clocks of two runners may differ where the store has no time of its own (object stores).
#: Beyond it a lease may be taken while its holder lives; the token then stops one of the two.
MAX_SKEW_US = 5_000_000

_FORMAT = 1
_LOOK_S = 0.2  # how often one who waits for a holder looks again


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """Who holds, or last held, a lease. `alive`: not released, not expired, not proved dead."""

    owner: str
    token: int
    alive: bool
    expires_us: int
    released: bool = False


class Standing(Enum):
    """What can be known of the holder of a lease."""

    FREE = "free"  #: released, expired, or proved dead: it may be taken at once
    HELD = "held"  #: its process lives on this host
    UNKNOWN = "unknown"  #: it has not expired, and its process cannot be seen from here


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The document of a lease."""

    owner: Owner
    token: int
    ttl_us: int
    expires_us: int
    released: bool = False

    def to_body(self) -> bytes:
        document = {
            "format": _FORMAT,
            "owner": self.owner.to_json(),
            "token": self.token,
            "ttl_us": self.ttl_us,
            "expires_us": self.expires_us,
            "released": self.released,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_body(cls, body: bytes) -> _Record:
        read = json.loads(body)
        return cls(
            owner=Owner.from_json(read["owner"]),
            token=read["token"],
            ttl_us=read["ttl_us"],
            expires_us=read["expires_us"],
            released=read["released"],
        )

    def standing(self, now_us: int) -> Standing:
        if self.released or self.expires_us <= now_us:
            return Standing.FREE
        match owners.lives(self.owner):
            case True:
                return Standing.HELD
            case False:
                return Standing.FREE
            case None:
                return Standing.UNKNOWN

    def view(self, now_us: int) -> LeaseView:
        return LeaseView(
            owner=self.owner.text,
            token=self.token,
            alive=self.standing(now_us) is not Standing.FREE,
            expires_us=self.expires_us,
            released=self.released,
        )


def view(store: Store, key: str) -> LeaseView | None:
    """Who holds or last held the lease; None when nobody ever did."""
    return seen(store, store.get(key))


def seen(store: Store, document: Versioned | None) -> LeaseView | None:
    """The same from the lease's document, where somebody has read it already."""
    return None if document is None else _Record.from_body(document.body).view(_judged_us(store))


def acquire(
    store: Store,
    key: str,
    *,
    name: str,
    ttl_us: int = TTL_US,
    stop: threading.Event | None = None,
    waiting: Callable[[LeaseView], None] | None = None,
) -> Lease:
    """The lease, once nobody else holds it. `name` is what it is for, as people know it.

    A holder that cannot be seen from here is waited for until its time is over: `waiting` is told
    once, and `stop` ends the wait.

    :raises LeaseHeld: its holder lives, or the wait was ended.
    """
    stop = threading.Event() if stop is None else stop
    watch: _Watch | None = None
    while True:
        version, record = _look(store, key) or (None, None)
        standing = Standing.FREE if record is None else record.standing(_judged_us(store))
        is_silent = watch is not None and watch.is_over(version, store.clock)
        if record is None or standing is Standing.FREE or is_silent:
            try:
                return _take(store, key, version, record, name=name, ttl_us=ttl_us)
            except errors.VersionConflict:
                continue  # another one was faster, or its holder renewed it: look again
        was_renewed = watch is not None and watch.version != version
        if standing is Standing.HELD or was_renewed or stop.is_set():
            raise errors.LeaseHeld(name=name, owner=record.owner.text)
        if watch is None:
            watch = _Watch(version=version, until_s=store.clock.monotonic() + record.ttl_us / 1_000_000)
            if waiting is not None:
                waiting(record.view(_judged_us(store)))
        store.clock.wait(stop, min(_LOOK_S, record.ttl_us / 5_000_000))


class Lease:
    """A lease that was acquired. Its methods may be called from any thread."""

    def __init__(self, store: Store, key: str, version: int, record: _Record, *, name: str) -> None:
        self.key = key
        self.name = name
        self._store = store
        self._turn = threading.RLock()  # a transaction of ours and a renewal must not meet
        self._version = version
        self._record = record

    @property
    def token(self) -> int:
        """Higher than that of every earlier holder. It goes into all that the holder writes."""
        return self._record.token

    @property
    def owner(self) -> str:
        """The holder, as people read it."""
        return self._record.owner.text

    @property
    def ttl_us(self) -> int:
        """How long it lasts without being renewed."""
        return self._record.ttl_us

    def renew(self) -> None:
        """Hold it for another full time.

        :raises StaleWriter: another took over.
        """
        with self._turn:
            self._check_held()
            self._put(replace(self._record, expires_us=_now_us(self._store) + self.ttl_us))

    def check(self) -> None:
        """Make sure that nobody took over.

        :raises StaleWriter: another did.
        """
        with self._turn:
            self._check_held()
            self._catch_up()

    def transaction(self, operations: Sequence[Operation]) -> list[int]:
        """`Store.transaction` that writes nothing once another took over: the versions, in order.

        :raises StaleWriter: another took over.
        :raises VersionConflict: as the store's.
        """
        with self._turn:
            self._check_held()
            try:
                return self._guarded(operations)
            except errors.VersionConflict as conflict:
                if conflict.fields["key"] != self.key:
                    raise
                self._catch_up()
                return self._guarded(operations)

    def release(self) -> None:
        """Give it up, so that the next one need not wait. Nothing happens when it is ours no longer."""
        with self._turn:
            if self._record.released:
                return
            released = replace(self._record, released=True, expires_us=_now_us(self._store))
            try:
                self._put(released)
            except errors.StaleWriter:
                self._record = released

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _guarded(self, operations: Sequence[Operation]) -> list[int]:
        return self._store.transaction([Guard(key=self.key, expect=self._version), *operations])[1:]

    def _put(self, record: _Record) -> None:
        try:
            self._version = self._write(record)
        except errors.VersionConflict:
            self._catch_up()
            self._version = self._write(record)
        self._record = record

    def _write(self, record: _Record) -> int:
        return self._store.transaction([_put(self.key, self._version, record)])[0]

    def _catch_up(self) -> None:
        """Take the version the lease is at when the last word is still ours, as after a lost reply."""
        found = _look(self._store, self.key)
        if found is None or found[1].token != self.token or found[1].owner != self._record.owner:
            raise self._stale("none" if found is None else found[1].token)
        self._version = found[0]

    def _check_held(self) -> None:
        if self._record.released:
            raise self._stale("released")

    def _stale(self, current: object) -> errors.StaleWriter:
        return errors.StaleWriter(name=self.name, current=current, held=self.token)


class Keeper:
    """Renews leases in time, on a thread of its own, and says when one was lost.

    `on_lost` is called once for a lease that another took, or that could not be renewed before its
    time was over; it must not raise. Entering starts the thread, leaving ends it; leases are not released.
    """

    def __init__(self, on_lost: Callable[[Lease, Exception], None], clock: Clock | None = None) -> None:
        self._on_lost = on_lost
        self._clock = clock or SystemClock()
        self._kept: dict[Lease, _Due] = {}
        self._changing = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tidegate-leases", daemon=True)

    def add(self, lease: Lease) -> None:
        """Renew it from now on; it was acquired or renewed just now."""
        with self._changing:
            self._kept[lease] = self._renewed(lease)
        self._wake.set()

    def drop(self, lease: Lease) -> None:
        """Renew it no more."""
        with self._changing:
            self._kept.pop(lease, None)

    def step(self) -> float:
        """Renew what is due; the seconds until something is due again."""
        with self._changing:
            due = [lease for lease, state in self._kept.items() if state.at_s <= self._clock.monotonic()]
        for lease in due:
            self._renew(lease)
        with self._changing:
            next_s = min((state.at_s for state in self._kept.values()), default=self._clock.monotonic() + 3600)
        return max(0.0, next_s - self._clock.monotonic())

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._closed:
            wait_s = self.step()
            self._clock.wait(self._wake, wait_s)
            self._wake.clear()

    def _renew(self, lease: Lease) -> None:
        try:
            lease.renew()
        except errors.StaleWriter as stale:
            self._lose(lease, stale)
        except Exception as error:  # noqa: BLE001 -- the edge of a thread: a lease that lapses unseen has two owners
            self._put_off(lease, error)
        else:
            with self._changing:
                if lease in self._kept:
                    self._kept[lease] = self._renewed(lease)

    def _put_off(self, lease: Lease, error: Exception) -> None:
        now_s = self._clock.monotonic()
        with self._changing:
            state = self._kept.get(lease)
            if state is not None and now_s < state.lapses_s:
                self._kept[lease] = replace(state, at_s=min(state.lapses_s, now_s + lease.ttl_us / 20_000_000))
                return
        self._lose(lease, error)

    def _lose(self, lease: Lease, error: Exception) -> None:
        with self._changing:
            was_kept = self._kept.pop(lease, None) is not None
        if was_kept:
            self._on_lost(lease, error)

    def _renewed(self, lease: Lease) -> _Due:
        now_s, ttl_s = self._clock.monotonic(), lease.ttl_us / 1_000_000
        return _Due(at_s=now_s + ttl_s / RENEWALS_PER_TTL, lapses_s=now_s + ttl_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """When to renew a lease next, and when it lapses if nothing comes of it."""

    at_s: float
    lapses_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """A holder being waited for: it is over once it kept silent for its whole time, by our own clock."""

    version: int | None
    until_s: float

    def is_over(self, version: int | None, clock: Clock) -> bool:
        return version == self.version and clock.monotonic() >= self.until_s


def _take(store: Store, key: str, version: int | None, last: _Record | None, *, name: str, ttl_us: int) -> Lease:
    record = _Record(
        owner=owners.this_process(),
        token=1 if last is None else last.token + 1,
        ttl_us=ttl_us,
        expires_us=_now_us(store) + ttl_us,
    )
    [taken] = store.transaction([_put(key, version, record)])
    return Lease(store, key, taken, record, name=name)


def _put(key: str, version: int | None, record: _Record) -> Put:
    return Put(key=key, body=record.to_body(), expect=version, token=record.token, history=False)


def _look(store: Store, key: str) -> tuple[int, _Record] | None:
    found = store.get(key)
    return None if found is None else (found.version, _Record.from_body(found.body))


def _judged_us(store: Store) -> int:
    """The time by which somebody else's lease is judged: no later than its holder's own clock can be."""
    is_theirs = store.capabilities.shared and not store.capabilities.server_clock
    return _now_us(store) - (MAX_SKEW_US if is_theirs else 0)


def _now_us(store: Store) -> int:
    return to_micros(store.now())
