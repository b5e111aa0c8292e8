"""A ledger in a folder of plain files: to look into with the tools at hand, for development.

    lock                                    held shared by who reads, alone by who writes
    journal                                 there only while a transaction of several writes is carried out
    new/                                    bodies on their way
    documents/<key>/!<version>-<created>-<size>-<flags>     one sealed body a version
    documents/<key>/!<version>.pin

What is known of a version is in the name of its file, so that a rename is the whole of a put: before it
the version is not there, after it it is. Several writes are first told in a journal, and carried out
again by whoever opens the folder next when that was cut short. `!` is in no key.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from tidegate import effects, errors
from tidegate.clock import Clock, SystemClock, from_micros
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

#: How long another process may hold the folder before we give up; its writes take milliseconds.
BUSY_TIMEOUT_S = 10.0

_POLL_S = 0.002
_LAYOUT = "tidegate ledger, layout 1\n"
_NAME = re.compile(r"!(\d{20})-(\d{20})-(\d+)-([kn])([ld])")
_PIN = re.compile(r"!(\d{20})\.pin")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A version that is there, as the name of its file says."""

    info: VersionInfo
    name: str
    created_us: int
    keeps: bool


@dataclass(slots=True)
class _Change:
    """What a transaction does to the files: paths are relative to the ledger's folder."""

    moves: list[tuple[str, str]] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    tidying: list[str] = field(default_factory=list)  #: may be left undone: nobody counts these files any more

    @property
    def is_one_step(self) -> bool:
        return len(self.moves) + len(self.removals) <= 1


class FileStore(Store):
    """Documents in a folder of this machine, for any number of its threads and processes."""

    capabilities = Capabilities(transactions=True, history=True, server_clock=False, shared=False)

    def __init__(
        self,
        folder: Path,
        clock: Clock | None = None,
        history: History | None = None,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        super().__init__(f"file:{folder}", clock, history)
        self.folder = folder
        self._documents = folder / "documents"
        self._busy_timeout_s = busy_timeout_s
        self._turn = threading.Lock()  # threads of one store wait here, and not by asking for the lock again
        self._serial = 0
        self._closed = False

    def close(self) -> None:
        """Nothing is held between calls; what comes after is refused."""
        self._closed = True

    # reading

    def _read(self, key: str, version: int | None) -> Raw | None:
        return self._ask(lambda: self._raw(key, version), None)

    def _keys(self, prefix: str) -> list[str]:
        return self._ask(lambda: sorted(self._live(prefix)), [])

    def _scan(self, prefix: str) -> list[Raw]:
        def scan() -> list[Raw]:
            found = (self._raw(key, None) for key in sorted(self._live(prefix)))
            return [raw for raw in found if raw is not None]

        return self._ask(scan, [])

    def _versions(self, key: str) -> list[VersionInfo]:
        return self._ask(lambda: [one.info for one in self._kept(key)], [])

    def _raw(self, key: str, version: int | None) -> Raw | None:
        kept = self._kept(key)
        if version is None:
            found = kept[-1] if kept and not kept[-1].info.deleted else None
        else:
            found = next((one for one in kept if one.info.version == version), None)
        if found is None:
            return None
        sealed = (self._documents / key / found.name).read_bytes()
        return Raw(key=key, version=found.info.version, sealed=sealed, created_us=found.created_us)

    def _live(self, prefix: str) -> Iterator[str]:
        above = prefix.rpartition("/")[0]
        for place, _, names in os.walk(self._documents / above):
            key = Path(place).relative_to(self._documents).as_posix()
            if key.startswith(prefix) and any(name.startswith("!") for name in names):
                kept = self._kept(key)
                if kept and not kept[-1].info.deleted:
                    yield key

    def _kept(self, key: str) -> list[_Kept]:
        """The versions that count, oldest first. What a write left behind when it was killed does not."""
        names = self._names(key)
        pinned = {int(found[1]) for found in map(_PIN.fullmatch, names) if found}
        there = sorted((_kept(found, pinned) for found in map(_NAME.fullmatch, names) if found), key=_number)
        return [one for one in there if one.keeps or one.info.pinned or one is there[-1]]

    def _names(self, key: str) -> list[str]:
        try:
            return os.listdir(self._documents / key)
        except FileNotFoundError:
            return []

    def _ask(self, question: Callable[[], _Answer], nothing: _Answer) -> _Answer:
        """The answer while nobody writes; `nothing` while there is no ledger yet."""
        with self._mapped(None):
            self._check_open()
            if not (self.folder / "lock").exists():
                self._check_ours()
                return nothing
            while True:
                with self._locked(fcntl.LOCK_SH):
                    if not (self.folder / "journal").exists():
                        return question()
                with self._locked(fcntl.LOCK_EX), effects.effect(effects.LEDGER_PUT, keys=()):
                    self._carry_on()  # what a writer that died had decided

    # writing

    def _apply(self, writes: Sequence[Write]) -> list[int]:
        with self._turn, self._mapped(writes[0].key):
            self._check_open()
            self._make()
            with self._locked(fcntl.LOCK_EX):
                self._carry_on()
                return self._decide_and_do(writes)

    def _decide_and_do(self, writes: Sequence[Write]) -> list[int]:
        change = _Change()
        state: dict[str, list[_Kept]] = {}
        bodies: dict[str, bytes] = {}
        made = [self._decide(write, state, change, bodies) for write in writes]
        try:
            for name, sealed in bodies.items():
                _write(self.folder / name, sealed)
            if bodies:
                _sync_folder(self.folder / "new")
            self._commit(change, writes[0].key)
        except BaseException:
            for name in bodies:
                with suppress(OSError):
                    (self.folder / name).unlink(missing_ok=True)
            raise
        return made

    def _decide(self, write: Write, state: dict[str, list[_Kept]], change: _Change, bodies: dict[str, bytes]) -> int:
        """One write's part of the change; `state` is what earlier ones of the transaction made of the documents."""
        kept = state[write.key] if write.key in state else self._kept(write.key)
        head = kept[-1].info if kept else None
        is_live = head is not None and not head.deleted
        check_expected(write, 0 if head is None else head.version, is_live)
        if isinstance(write, Guard):
            return 0
        folder = f"documents/{write.key}"
        if write.deletes and write.forget:
            state[write.key] = []
            self._take_back(change, bodies, folder, kept)
            change.removals += [f"{folder}/{_pin_name(one.info.version)}" for one in kept if one.info.pinned]
            return head.version + 1 if head is not None and is_live else 0
        if write.deletes and not is_live:
            return 0
        after = self._superseded(kept, write)
        state[write.key] = after
        self._serial += 1
        body = f"new/{os.getpid()}-{threading.get_ident()}-{self._serial}"
        bodies[body] = write.seal(after[-1].info.version)
        change.moves.append((body, f"{folder}/{after[-1].name}"))
        stays = {one.name for one in after}
        names = {*self._names(write.key), *(one.name for one in kept)}
        change.tidying += [f"{folder}/{name}" for name in names if _NAME.fullmatch(name) and name not in stays]
        return after[-1].info.version

    def _take_back(self, change: _Change, bodies: dict[str, bytes], folder: str, kept: Iterable[_Kept]) -> None:
        """Forget versions: those on the disk are removed, those of this very transaction are not written."""
        for one in kept:
            name = f"{folder}/{one.name}"
            planned = next((move for move in change.moves if move[1] == name), None)
            if planned is None:
                change.removals.append(name)
            else:
                change.moves.remove(planned)
                del bodies[planned[0]]

    def _superseded(self, kept: list[_Kept], write: SealedWrite) -> list[_Kept]:
        """The versions after the write."""
        now_us = self._now_us()
        version = kept[-1].info.version + 1 if kept else 1
        size = write.payload.size_bytes
        info = VersionInfo(version=version, created_at=from_micros(now_us), size_bytes=size, deleted=write.deletes)
        name = _name(info, now_us, keeps=write.history)
        new = _Kept(info=info, name=name, created_us=now_us, keeps=write.history)
        if not kept or not (kept[-1].keeps or kept[-1].info.pinned):
            return [*kept[:-1], new]
        goes = set(trim_below([*(one.info for one in kept), info], self.history, now_us))
        return [*(one for one in kept if one.info.version not in goes), new]

    def _commit(self, change: _Change, key: str) -> None:
        if not change.is_one_step:
            journal = json.dumps({"moves": change.moves, "removals": change.removals}).encode()
            _write(self.folder / "journal.new", journal)
            os.replace(self.folder / "journal.new", self.folder / "journal")
            with self._decided(key):
                _sync_folder(self.folder)
                self._carry_on()
        else:
            for body, name in change.moves:
                place = self.folder / name
                _make_folder(place.parent)
                os.rename(self.folder / body, place)
                with self._decided(key):
                    _sync_folder(place.parent)
            with self._decided(key):
                self._carry_out([], change.removals)
        for name in change.tidying:
            with suppress(OSError):  # it counts no more, and the next write tries again
                (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def _decided(self, key: str) -> Iterator[None]:
        """What fails in the body came after the decision: the next one to open the folder may find it."""
        try:
            yield
        except OSError as error:
            raise errors.OutcomeUnknown(url=self.url, key=key, why=str(error)) from error

    def _carry_on(self) -> None:
        """Carry out the journal, if there is one: what it says was decided."""
        journal = self.folder / "journal"
        try:
            told = json.loads(journal.read_bytes())
        except FileNotFoundError:
            return
        self._carry_out(told["moves"], told["removals"])
        journal.unlink()
        _sync_folder(self.folder)

    def _carry_out(self, moves: Sequence[Sequence[str]], removals: Iterable[str]) -> None:
        touched: set[Path] = set()
        replaced = {name for _, name in moves}
        for name in removals:
            if name in replaced:
                continue  # a journal may be carried out twice
            gone = self.folder / name
            gone.unlink(missing_ok=True)
            touched.add(gone.parent)
        for body, name in moves:
            place = self.folder / name
            _make_folder(place.parent)
            with suppress(FileNotFoundError):  # it was moved before a crash
                os.rename(self.folder / body, place)
            touched.add(place.parent)
        for folder in touched:
            if folder.exists():
                _sync_folder(folder)
                self._drop_if_empty(folder)

    def _drop_if_empty(self, folder: Path) -> None:
        while folder != self._documents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _restore(self, key: str, versions: Sequence[Archived]) -> None:
        with self._turn, self._mapped(key):
            self._check_open()
            self._make()
            with self._locked(fcntl.LOCK_EX):
                self._carry_on()
                kept = self._kept(key)
                check_new(key, kept[-1].info.version if kept else None)
                change = _Change()
                for number, one in enumerate(versions):
                    name = _name(one.info, one.created_us, keeps=True)
                    files = {name: one.sealed, **({_pin_name(one.info.version): b""} if one.info.pinned else {})}
                    for place, body in files.items():
                        new = f"new/restored-{number}{place}"
                        _write(self.folder / new, body)
                        change.moves.append((new, f"documents/{key}/{place}"))
                _sync_folder(self.folder / "new")
                self._commit(change, key)

    def _pin(self, key: str, version: int, pinned: bool) -> bool:
        with self._turn, self._mapped(key):
            self._check_open()
            if not (self.folder / "lock").exists():
                return False
            with self._locked(fcntl.LOCK_EX):
                self._carry_on()
                if all(one.info.version != version for one in self._kept(key)):
                    return False
                pin = self._documents / key / _pin_name(version)
                if pinned:
                    _write(pin, b"")
                else:
                    pin.unlink(missing_ok=True)
                _sync_folder(pin.parent)
                return True

    # the folder

    def _make(self) -> None:
        """Make the folder, unless it is there."""
        lock = self.folder / "lock"
        if lock.exists():
            return
        self._check_ours()
        with effects.effect(effects.LEDGER_SCHEMA, path=str(self.folder)):
            for folder in (self._documents, self.folder / "new"):
                _make_folder(folder)
            made = self.folder / f"lock.{os.getpid()}-{threading.get_ident()}"
            _write(made, _LAYOUT.encode())
            try:
                if made.with_name(made.name.upper()).exists():
                    raise self._unreachable("its disk does not tell capital letters from small ones, and keys do")
                with suppress(FileExistsError):  # another was faster; whoever holds its lock must keep it
                    os.link(made, lock)
            finally:
                made.unlink()
            _sync_folder(self.folder)

    def _check_ours(self) -> None:
        """Refuse a folder with files of something else; one that is being made is ours."""
        with suppress(FileNotFoundError):
            ours = {"documents", "new", "lock", "journal", "journal.new"}
            strangers = [name for name in os.listdir(self.folder) if name not in ours and not name.startswith("lock.")]
            if strangers:
                raise self._unreachable(f"the folder has {strangers[0]} in it, and is no ledger")

    def _check_open(self) -> None:
        if self._closed:
            raise self._unreachable("it was closed")

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Hold the folder, shared or alone. The system lets go of it when a process ends, however it ends."""
        clock = SystemClock()
        deadline = clock.monotonic() + self._busy_timeout_s
        with open(self.folder / "lock", "rb") as lock:
            self._check_layout(lock.read(len(_LAYOUT) + 1))
            while True:
                try:
                    fcntl.flock(lock, how | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if clock.monotonic() > deadline:
                        why = f"another process has held it for more than {self._busy_timeout_s:g} seconds"
                        raise self._unreachable(why) from None
                clock.wait(threading.Event(), _POLL_S)
            yield

    def _check_layout(self, told: bytes) -> None:
        if told != _LAYOUT.encode():
            raise self._unreachable("its layout is not one that this Tidegate knows")

    @contextmanager
    def _mapped(self, writing: str | None) -> Iterator[None]:
        """The system's errors as ours; `writing` is the key of a write."""
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                why = f"the disk is full ({why})"
            raise self._unreachable(why if writing is None else f"{writing} was not written: {why}") from error

    def _unreachable(self, why: str) -> errors.LedgerUnreachable:
        return errors.LedgerUnreachable(url=self.url, why=why)


def _kept(found: re.Match[str], pinned: set[int]) -> _Kept:
    version, created_us = int(found[1]), int(found[2])
    info = VersionInfo(
        version=version,
        created_at=from_micros(created_us),
        size_bytes=int(found[3]),
        pinned=version in pinned,
        deleted=found[5] == "d",
    )
    return _Kept(info=info, name=found[0], created_us=created_us, keeps=found[4] == "k")


def _name(info: VersionInfo, created_us: int, *, keeps: bool) -> str:
    flags = ("k" if keeps else "n") + ("d" if info.deleted else "l")
    return f"!{info.version:020d}-{created_us:020d}-{info.size_bytes}-{flags}"


def _pin_name(version: int) -> str:
    return f"!{version:020d}.pin"


def _number(kept: _Kept) -> int:
    return kept.info.version


def _write(path: Path, body: bytes) -> None:
    """Write a file whole and flush it."""
    with open(path, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync_folder(made.parent)


def _sync_folder(folder: Path) -> None:
    """Make names in the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
