"""A ledger in memory: for tests, for trying things out, and as the contract's plainest example."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import field, replace

from tidegate.clock import Clock, from_micros, to_micros
from tidegate.ledger.contract import (
    Archived,
    Capabilities,
    Guard,
    History,
    Raw,
    SealedWrite,
    Store,
    VersionInfo,
    Write,
    check_expected,
    check_new,
    trim_below,
)
from tidegate.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    info: VersionInfo
    sealed: bytes
    keeps: bool  #: whether it goes to the history when the next version comes


@dataclass(slots=True)
class Shelf:
    """What a ledger in memory holds. Several `MemoryStore`s may stand before one shelf."""

    documents: dict[str, dict[int, _Kept]] = field(default_factory=dict)  #: key → version → what is kept, ascending
    turn: threading.RLock = field(default_factory=threading.RLock)


class MemoryStore(Store):
    """Documents in memory, for the threads of one process. They end with it."""

    capabilities = Capabilities(transactions=True, history=True, server_clock=False, shared=False)

    def __init__(
        self, clock: Clock | None = None, history: History | None = None, *, shelf: Shelf | None = None
    ) -> None:
        super().__init__("memory:", clock, history)
        self._shelf = Shelf() if shelf is None else shelf

    def _read(self, key: str, version: int | None) -> Raw | None:
        with self._shelf.turn:
            kept = self._shelf.documents.get(key, {})
            number = next(reversed(kept), 0) if version is None else version
            found = kept.get(number)
        if found is None or (version is None and found.info.deleted):
            return None
        return Raw(key=key, version=number, sealed=found.sealed, created_us=to_micros(found.info.created_at))

    def _keys(self, prefix: str) -> list[str]:
        with self._shelf.turn:
            found = [
                key for key, kept in self._shelf.documents.items() if key.startswith(prefix) and _head(kept).is_live
            ]
        return sorted(found)

    def _scan(self, prefix: str) -> list[Raw]:
        with self._shelf.turn:
            return super()._scan(prefix)

    def _versions(self, key: str) -> list[VersionInfo]:
        with self._shelf.turn:
            return [kept.info for kept in self._shelf.documents.get(key, {}).values()]

    def _apply(self, writes: Sequence[Write]) -> list[int]:
        with self._shelf.turn:
            changed: dict[str, dict[int, _Kept]] = {}
            made = [self._carry_out(changed, write) for write in writes]
            for key, kept in changed.items():
                if kept:
                    self._shelf.documents[key] = kept
                else:
                    self._shelf.documents.pop(key, None)
        return made

    def _carry_out(self, changed: dict[str, dict[int, _Kept]], write: Write) -> int:
        kept = changed.get(write.key, self._shelf.documents.get(write.key, {}))
        head = _head(kept)
        check_expected(write, head.version, head.is_live)
        if isinstance(write, Guard):
            return 0
        if write.deletes and write.forget:
            changed[write.key] = {}
            return head.version + 1 if head.is_live else 0
        if write.deletes and not head.is_live:
            return 0
        changed[write.key] = self._superseded(kept, write, head.version + 1)
        return head.version + 1

    def _superseded(self, kept: dict[int, _Kept], write: SealedWrite, version: int) -> dict[int, _Kept]:
        after = dict(kept)
        grows = bool(after) and (_last(after).keeps or _last(after).info.pinned)
        if after and not grows:
            after.popitem()
        info = VersionInfo(
            version=version,
            created_at=from_micros(self._now_us()),
            size_bytes=write.payload.size_bytes,
            deleted=write.deletes,
        )
        after[version] = _Kept(info=info, sealed=write.seal(version), keeps=write.history)
        if grows:
            for gone in trim_below([one.info for one in after.values()], self.history, self._now_us()):
                del after[gone]
        return after

    def _restore(self, key: str, versions: Sequence[Archived]) -> None:
        with self._shelf.turn:
            check_new(key, next(reversed(self._shelf.documents.get(key, {})), None))
            self._shelf.documents[key] = {
                one.info.version: _Kept(info=one.info, sealed=one.sealed, keeps=True) for one in versions
            }

    def _pin(self, key: str, version: int, pinned: bool) -> bool:
        with self._shelf.turn:
            kept = self._shelf.documents.get(key, {})
            if version not in kept:
                return False
            kept[version] = replace(kept[version], info=replace(kept[version].info, pinned=pinned))
            return True


@dataclass(frozen=True, slots=True)
class _Head:
    version: int
    is_live: bool


def _head(kept: dict[int, _Kept]) -> _Head:
    if not kept:
        return _Head(0, False)
    info = _last(kept).info
    return _Head(info.version, not info.deleted)


def _last(kept: dict[int, _Kept]) -> _Kept:
    return kept[next(reversed(kept))]
