"""The contract of a store: versioned documents with compare-and-swap.

`Store` is what everybody calls; a backend fills in the six methods at its end. What is common to
all backends (keys, seals, limits, the points of the crash suite) is done here, once.
`tidegate.testing.store_contract` is this contract as a suite of tests.
"""

from __future__ import annotations

import builtins  # `Store.list` hides the other one inside the class
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from tidegate import effects, errors
from tidegate.clock import Clock, SystemClock, from_micros, to_micros
from tidegate.ledger import sealing
from tidegate.ledger.keys import check_key, check_prefix, moves_with_others
from tidegate.quick import dataclass

DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do beyond single puts."""

    transactions: bool  #: several operations, all or none
    history: bool  #: older versions can be read
    server_clock: bool  #: `now` is the store's own time, one for all runners
    shared: bool  #: runners on several hosts can use it together


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How many versions of a document are kept, the head among them. Pinned ones are kept besides."""

    count: int = 100
    age_us: int = 7 * DAY_US

    def __post_init__(self) -> None:
        if self.count < 1 or self.age_us < 0:
            raise ValueError(f"history of {self.count} versions for {self.age_us} us cannot be kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A document as one put left it."""

    key: str
    version: int
    body: bytes
    token: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionInfo:
    """One version of a document. A delete is a version too: it takes a number and has no bytes."""

    version: int
    created_at: datetime
    size_bytes: int
    pinned: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Write a document. `expect` is the version it must be at; None: it must not exist."""

    key: str
    body: bytes
    expect: int | None
    token: int = 0
    history: bool = True  #: False for leases and heartbeats: this version is gone once the next one comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove a document. `expect` is the version it must be at; None: whatever it is at.

    With `forget` nothing stays behind, no history and no version number: for keys that are never
    written again.
    """

    key: str
    expect: int | None = None
    token: int = 0
    forget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Write nothing, and let nothing of the transaction be written unless the key is at this version."""

    key: str
    expect: int | None


Operation = Put | Delete | Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedWrite:
    """A put or delete as a backend gets it: its bytes are made once the version is known."""

    key: str
    payload: sealing.Payload
    expect: int | None
    deletes: bool = False
    history: bool = True
    forget: bool = False

    def seal(self, version: int) -> sealing.Sealed:
        return self.payload.seal(version)


Write = SealedWrite | Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A version as another ledger held it, seal and all."""

    info: VersionInfo
    sealed: bytes

    @property
    def created_us(self) -> int:
        return to_micros(self.info.created_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A version as a backend holds it, not yet verified."""

    key: str
    version: int
    sealed: bytes
    created_us: int


class Store(ABC):
    """Versioned documents under keys.

    *When*: by everything that must remember a decision, from any thread, and from several
    processes at once (not `memory:`). *May assume*: keys follow `keys.check_key`. *Holds after*: a
    put that returned is durable and is the head; a reader sees whole versions only, and the version
    of a key never falls and is never given twice. *Raises*: `VersionConflict` when the document is
    not at the expected version (nothing was written), `LedgerUnreachable` when the store cannot be
    used, `OutcomeUnknown` when it stopped answering in the middle of a write and could not be asked
    again, `CorruptCheckpoint` or `NewerFormat` when what is stored does not verify, `BadKey`.
    *Guarantees*: of two puts that expect the same version one wins; the loser learns it.
    """

    capabilities: Capabilities

    def __init__(self, url: str, clock: Clock | None = None, history: History | None = None) -> None:
        self.url = url
        self.clock = clock or SystemClock()
        self.history = history or History()

    # reading

    def get(self, key: str) -> Versioned | None:
        """The document's head, or None when it does not exist.

        :raises CorruptCheckpoint: the head does not verify; `newest_good` names the last that does.
        """
        raw = self._read(check_key(key), None)
        return None if raw is None else self._verified(raw)

    def get_version(self, key: str, version: int) -> Versioned | None:
        """The document as it was at that version; None when it is not kept, or was a delete."""
        raw = self._read(check_key(key), version)
        return None if raw is None else self._verified(raw)

    def list(self, prefix: str = "") -> builtins.list[str]:
        """The keys of the documents that exist and start so, in order."""
        return self._keys(check_prefix(prefix))

    def scan(self, prefix: str = "") -> builtins.list[Versioned]:
        """The heads of the documents that exist and start so, by key."""
        found = (self._verified(raw) for raw in self._scan(check_prefix(prefix)))
        return [document for document in found if document is not None]

    def versions(self, key: str) -> builtins.list[VersionInfo]:
        """What is kept of a document, oldest first; empty when it never was."""
        return self._versions(check_key(key))

    # writing

    def put(self, key: str, body: bytes, *, expect: int | None = None, token: int = 0, history: bool = True) -> int:
        """Write a document and give its new version; `expect` None says it must not exist yet."""
        return self.transaction([Put(key=key, body=body, expect=expect, token=token, history=history)])[0]

    def delete(self, key: str, *, expect: int | None = None, token: int = 0, forget: bool = False) -> bool:
        """Remove a document; false when it did not exist. Its number is used up, not given again."""
        return self.transaction([Delete(key=key, expect=expect, token=token, forget=forget)])[0] > 0

    def transaction(self, operations: Sequence[Operation]) -> builtins.list[int]:
        """Carry out all of the operations, or none; the versions they made, in order.

        A delete of what does not exist, and a guard, make version 0. A backend without
        transactions takes one write at a time (guards before it are looked at, not held).
        """
        if not self.capabilities.transactions and sum(not isinstance(o, Guard) for o in operations) > 1:
            raise errors.LedgerError(what=f"{self.url} has no transactions: write one document at a time")
        writes = [_sealed(operation) for operation in operations]
        if not writes:
            return []
        with effects.effect(_effect_of(operations), keys=tuple(write.key for write in writes)):
            return self._apply(writes)

    def rollback(self, key: str, version: int, *, token: int = 0) -> int:
        """Make an older version the newest again, as a new version; nothing is lost on the way.

        :raises LedgerError: that version is not kept, or was a delete.
        :raises Refused: the document moves only together with others.
        """
        if moves_with_others(key):
            hint = "roll the pipeline back: tidegate checkpoints rollback"
            raise errors.Refused(what=f"{key} cannot be rolled back alone", hint=hint)
        old = self.get_version(key, version)
        if old is None:
            raise errors.LedgerError(what=f"version {version} of {key} is not kept")
        return self.put(key, old.body, expect=self._live_version(key), token=token)

    def recover(self, key: str, *, token: int = 0) -> tuple[int, int]:
        """Put the newest good version above a head that does not verify: (it, the new version)."""
        good = self._newest_good(check_key(key))
        if good is None:
            raise errors.LedgerError(what=f"no version of {key} verifies; there is nothing to recover from")
        return good.version, self.put(key, good.body, expect=self._live_version(key), token=token)

    def pin(self, key: str, version: int) -> None:
        """Keep that version until it is unpinned."""
        self._set_pin(key, version, pinned=True)

    def unpin(self, key: str, version: int) -> None:
        """Let that version go when its time comes."""
        self._set_pin(key, version, pinned=False)

    # copies

    def archived(self, key: str) -> builtins.list[Archived]:
        """All that is kept of a document, oldest first, each version verified.

        :raises CorruptCheckpoint: one of them does not verify.
        """
        found: builtins.list[Archived] = []
        for info in self.versions(key):
            raw = self._read(key, info.version)
            if raw is not None:  # one that was let go while we read
                self._verified(raw)
                found.append(Archived(info=info, sealed=raw.sealed))
        return found

    def restore(self, key: str, versions: Sequence[Archived]) -> None:
        """Hold a document as another ledger did: the same numbers, times, tokens and pins.

        *When*: while nothing else uses the ledger. *May assume*: `versions` is not empty and ascends.

        :raises VersionConflict: there is such a document already.
        """
        with effects.effect(effects.LEDGER_PUT, keys=(check_key(key),)):
            self._restore(key, versions)

    # the rest

    def now(self) -> datetime:
        """The time that leases and stamps go by: the store's own where it has one."""
        return self.clock.now()

    def close(self) -> None:  # noqa: B027 -- a store without connections has nothing to do
        """Let go of connections and files. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # what a backend fills in

    @abstractmethod
    def _read(self, key: str, version: int | None) -> Raw | None:
        """The raw head (version None) or version; None when there is no such document or version."""

    @abstractmethod
    def _apply(self, writes: Sequence[Write]) -> builtins.list[int]:
        """Carry out the writes in order, all or none where the backend can."""

    @abstractmethod
    def _keys(self, prefix: str) -> builtins.list[str]:
        """The live keys that start so, sorted."""

    @abstractmethod
    def _versions(self, key: str) -> builtins.list[VersionInfo]:
        """What is kept, oldest first."""

    @abstractmethod
    def _pin(self, key: str, version: int, pinned: bool) -> bool:
        """Set or clear a pin; false when the version is not kept."""

    @abstractmethod
    def _restore(self, key: str, versions: Sequence[Archived]) -> None:
        """Hold these versions of a document that was never there. The last is the head."""

    def _scan(self, prefix: str) -> builtins.list[Raw]:
        """The raw heads of the live keys; backends that can do it in one call do."""
        found = (self._read(key, None) for key in self._keys(prefix))
        return [raw for raw in found if raw is not None]

    # what all backends share

    def _now_us(self) -> int:
        return to_micros(self.clock.now())

    def _verified(self, raw: Raw) -> Versioned | None:
        try:
            return _opened(raw)
        except sealing.SealBroken as broken:
            good = self._newest_good(raw.key)
            kind = errors.NewerFormat if isinstance(broken, sealing.SealTooNew) else errors.CorruptCheckpoint
            raise kind(
                key=raw.key,
                version=raw.version,
                why=str(broken),
                newest_good="none" if good is None else good.version,
            ) from broken

    def _newest_good(self, key: str) -> Versioned | None:
        for info in reversed(self._versions(key)):
            raw = self._read(key, info.version)
            try:
                document = None if raw is None else _opened(raw)
            except sealing.SealBroken:
                continue
            if document is not None:
                return document
        return None

    def _live_version(self, key: str) -> int | None:
        kept = self._versions(check_key(key))
        return None if not kept or kept[-1].deleted else kept[-1].version

    def _set_pin(self, key: str, version: int, *, pinned: bool) -> None:
        with effects.effect(effects.LEDGER_PIN, keys=(check_key(key),)):
            found = self._pin(key, version, pinned)
        if not found:
            raise errors.LedgerError(what=f"version {version} of {key} is not kept")


def check_expected(write: Write, head: int, live: bool) -> None:
    """Refuse the write unless the document is where it is expected; for backends.

    `head` is the highest version ever given under the key (0: none), `live` whether it exists.
    """
    actual = head if live else None
    unconditional = isinstance(write, SealedWrite) and write.deletes and write.expect is None
    if not unconditional and write.expect != actual:
        raise conflict(write, actual)


def conflict(write: Write, actual: int | None) -> errors.VersionConflict:
    """The refusal of a write whose document is at another version."""
    return errors.VersionConflict(
        key=write.key,
        expected="absent" if write.expect is None else write.expect,
        actual="absent" if actual is None else actual,
    )


def check_new(key: str, head: int | None) -> None:
    """Refuse to restore a document that is, or was, there; for backends."""
    if head is not None:
        raise errors.VersionConflict(key=key, expected="absent", actual=head)


def trim_below(kept: Sequence[VersionInfo], history: History, now_us: int) -> list[int]:
    """The versions that the bound lets go: never the head, never a pinned one, and pinned ones do not count."""
    oldest = from_micros(max(0, now_us - history.age_us))
    loose = [info for info in kept[:-1] if not info.pinned]
    too_many = max(0, len(loose) - (history.count - 1))
    return [info.version for place, info in enumerate(loose) if place < too_many or info.created_at < oldest]


def _opened(raw: Raw) -> Versioned | None:
    opened = sealing.unseal(raw.key, raw.version, raw.sealed)
    if opened.body is None:
        return None
    created_at = from_micros(raw.created_us)
    return Versioned(key=raw.key, version=raw.version, body=opened.body, token=opened.token, created_at=created_at)


def _sealed(operation: Operation) -> Write:
    check_key(operation.key)
    match operation:
        case Guard():
            return operation
        case Put(key=key, body=body, token=token):
            if len(body) > sealing.MAX_BODY_BYTES:
                raise errors.DocumentTooLarge(key=key, size=len(body), limit=sealing.MAX_BODY_BYTES)
            payload = sealing.prepare(key, body, token=token)
            return SealedWrite(key=key, payload=payload, expect=operation.expect, history=operation.history)
        case Delete(key=key, token=token):
            payload = sealing.prepare(key, None, token=token)
            return SealedWrite(key=key, payload=payload, expect=operation.expect, deletes=True, forget=operation.forget)


def _effect_of(operations: Sequence[Operation]) -> effects.EffectName:
    puts = any(isinstance(operation, Put) for operation in operations)
    return effects.LEDGER_PUT if puts else effects.LEDGER_DELETE


StoreFactory = Callable[[], Store]
