"""The ledger in one SQLite file: the default.

WAL with `synchronous=FULL`: a put that returned survives a power cut, and readers never wait. All
threads of a process share one writing connection, in turn, so that only other processes are waited
for by polling. The file is made by the first write; until then every read answers "nothing".
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

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
)
from tidegate.ledger.statements import read_statements

#: How long another process may hold the file before we give up; its transactions take milliseconds.
BUSY_TIMEOUT_S = 10.0

_APPLICATION_ID = 0x54474C31  # "TGL1": `file` and we can tell a ledger from another SQLite file
_LAYOUT = 1
_AFTER_ANY_KEY = "\x7f"  # sorts after every character that a key may have
_IDLE_READERS = 8
_SLACK = 8  # a history may run over its count by an eighth: trimming in lots touches fewer pages

_Answer = TypeVar("_Answer")


SQL = read_statements(Path(__file__).with_suffix(".sql"))


class _Head(NamedTuple):
    """What the row of a document says of it, its body aside."""

    id: int
    version: int
    live: int
    keeps: int
    pinned: int
    kept: int
    oldest_us: int
    created_us: int


class SqliteStore(Store):
    """Documents in one SQLite file, for any number of threads and processes of one host."""

    capabilities = Capabilities(transactions=True, history=True, server_clock=False, shared=False)

    def __init__(
        self,
        path: Path,
        clock: Clock | None = None,
        history: History | None = None,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        super().__init__(f"sqlite:///{path}", clock, history)
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._turn = threading.Lock()  # whose turn it is to write
        self._writing: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []  # idle ones; list methods are atomic
        self._closed = False

    def close(self) -> None:
        """Let go of the file."""
        with self._turn:
            self._closed = True
            if self._writing is not None:
                self._writing.close()
                self._writing = None
        while self._readers:
            with suppress(IndexError):
                self._readers.pop().close()

    # reading

    def _read(self, key: str, version: int | None) -> Raw | None:
        name = "read_head" if version is None else "read_version"
        facts = {"key": key, "version": version}
        row = self._ask(lambda db: db.execute(SQL[name], facts).fetchone(), None)
        return None if row is None else Raw(key=key, version=row[0], sealed=row[1], created_us=row[2])

    def _keys(self, prefix: str) -> list[str]:
        rows = self._ask(lambda db: db.execute(SQL["keys"], (prefix, prefix + _AFTER_ANY_KEY)).fetchall(), [])
        return [key for (key,) in rows]

    def _scan(self, prefix: str) -> list[Raw]:
        rows = self._ask(lambda db: db.execute(SQL["scan"], (prefix, prefix + _AFTER_ANY_KEY)).fetchall(), [])
        return [Raw(key=key, version=version, sealed=body, created_us=us) for key, version, body, us in rows]

    def _versions(self, key: str) -> list[VersionInfo]:
        rows = self._ask(lambda db: db.execute(SQL["versions"], {"key": key}).fetchall(), [])
        return [
            VersionInfo(
                version=version, created_at=from_micros(us), size_bytes=size, pinned=bool(pinned), deleted=not live
            )
            for version, us, size, pinned, live in rows
        ]

    def _ask(self, question: Callable[[sqlite3.Connection], Any], nothing: Any) -> Any:
        """The answer of a reading connection; `nothing` while there is no ledger yet."""
        with self._mapped(None):
            db = self._reader()
            if db is None:
                return nothing
            try:
                return question(db)
            finally:
                self._put_back(db)

    def _reader(self) -> sqlite3.Connection | None:
        try:
            return self._readers.pop()
        except IndexError:
            pass
        if self._closed:
            raise self._unreachable("it was closed")
        if not self.path.exists():
            return None
        db = self._connect("rw")
        try:
            if self._layout(db) == _LAYOUT:
                return db
        except BaseException:
            db.close()
            raise
        db.close()  # its maker has not come to its tables yet, or was killed before
        return None

    def _put_back(self, db: sqlite3.Connection) -> None:
        self._readers.append(db)
        if self._closed or len(self._readers) > _IDLE_READERS:
            with suppress(IndexError):
                self._readers.pop().close()

    # writing

    def _apply(self, writes: Sequence[Write]) -> list[int]:
        now_us = self._now_us()
        return self._write(lambda db: [self._carry_out(db, write, now_us) for write in writes], writes[0].key)

    def _pin(self, key: str, version: int, pinned: bool) -> bool:
        if not self.path.exists():
            return False
        return self._write(lambda db: _set_pin(db, key, version, pinned), key)

    def _write(self, work: Callable[[sqlite3.Connection], _Answer], key: str) -> _Answer:
        """One transaction: all of the work, or none of it."""
        with self._turn, self._mapped(key):
            db = self._writer()
            db.execute("BEGIN IMMEDIATE")
            try:
                answer = work(db)
                _commit(db)
            except BaseException:
                if db.in_transaction:
                    with suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                raise
            return answer

    def _carry_out(self, db: sqlite3.Connection, write: Write, now_us: int) -> int:
        row = db.execute(SQL["head"], (write.key,)).fetchone()
        head = None if row is None else _Head(*row)
        check_expected(write, 0 if head is None else head.version, head is not None and bool(head.live))
        if isinstance(write, Guard):
            return 0
        if write.deletes:
            return 0 if head is None else self._remove(db, head, write, now_us)
        if head is not None:
            return self._supersede(db, head, write, now_us)
        facts = (write.key, write.history, now_us, write.payload.size_bytes, write.seal(1))
        db.execute(SQL["insert"], facts)
        return 1

    def _remove(self, db: sqlite3.Connection, head: _Head, write: SealedWrite, now_us: int) -> int:
        if write.forget:
            db.execute(SQL["forget_history"], (head.id,))
            db.execute(SQL["forget"], (head.id,))
            return head.version + 1 if head.live else 0
        return self._supersede(db, head, write, now_us) if head.live else 0

    def _supersede(self, db: sqlite3.Connection, head: _Head, write: SealedWrite, now_us: int) -> int:
        kept, oldest_us = self._archive(db, head, now_us) if head.keeps or head.pinned else (head.kept, head.oldest_us)
        version = head.version + 1
        facts = (version, not write.deletes, write.history, kept, oldest_us, now_us, write.payload.size_bytes)
        db.execute(SQL["update"], (*facts, write.seal(version), head.id))
        return version

    def _archive(self, db: sqlite3.Connection, head: _Head, now_us: int) -> tuple[int, int]:
        """Move the head to the history, and let go what the bound lets go: (kept, oldest) after that."""
        db.execute(SQL["archive"], (head.id,))
        kept = head.kept + (not head.pinned)
        oldest_us = head.oldest_us if head.kept else head.created_us
        excess = kept - (self.history.count - 1)
        if excess > self.history.count // _SLACK:
            db.execute(SQL["trim_oldest"], (head.id, excess))
            kept -= excess
        if kept and oldest_us < now_us - self.history.age_us:
            db.execute(SQL["trim_older"], (head.id, now_us - self.history.age_us))
            kept, oldest_us = db.execute(SQL["count_kept"], (head.id,)).fetchone()
        return kept, oldest_us

    def _restore(self, key: str, versions: Sequence[Archived]) -> None:
        def restore(db: sqlite3.Connection) -> None:
            row = db.execute(SQL["head"], (key,)).fetchone()
            check_new(key, None if row is None else _Head(*row).version)
            rows = [
                (
                    one.info.version,
                    not one.info.deleted,
                    one.info.pinned,
                    one.created_us,
                    one.info.size_bytes,
                    one.sealed,
                )
                for one in versions
            ]
            document = db.execute(SQL["restore_head"], (key, *rows[-1])).lastrowid
            for older in rows[:-1]:
                db.execute(SQL["restore_history"], (document, *older))
            db.execute(SQL["recount"], (*db.execute(SQL["count_kept"], (document,)).fetchone(), document))

        self._write(restore, key)

    # the file

    def _writer(self) -> sqlite3.Connection:
        if self._closed:
            raise self._unreachable("it was closed")
        if self._writing is None:
            self._writing = self._open_to_write()
        return self._writing

    def _open_to_write(self) -> sqlite3.Connection:
        if not self.path.exists():
            return self._create()
        db = self._connect("rw")
        try:
            layout = self._layout(db)
        except BaseException:
            db.close()
            raise
        if layout == _LAYOUT:
            return db
        db.close()
        return self._create()

    def _create(self) -> sqlite3.Connection:
        """Make the file and its tables, or find that another process just did."""
        with effects.effect(effects.LEDGER_SCHEMA, path=str(self.path)):
            _make_folder(self.path.parent)
            db = self._connect("rwc")
            try:
                self._into_wal(db)
                db.execute("BEGIN IMMEDIATE")
                if self._layout(db) == 0:
                    for statement in SQL["schema"].split(";\n"):
                        db.execute(statement)
                    db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
                    db.execute(f"PRAGMA user_version={_LAYOUT}")
                db.execute("COMMIT")
            except BaseException:
                db.close()
                raise
            _sync_folder(self.path.parent)
        return db

    def _into_wal(self, db: sqlite3.Connection) -> None:
        """Switch to WAL. SQLite does not wait here when another process opens the file at that moment: we do."""
        clock = SystemClock()
        deadline = clock.monotonic() + self._busy_timeout_s
        while True:
            try:
                db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or clock.monotonic() > deadline:
                    raise
            clock.wait(threading.Event(), 0.005)

    def _connect(self, mode: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}",
            uri=True,
            timeout=self._busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,  # one at a time: a writer by the turn, a reader by being taken from the pool
        )
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA wal_autocheckpoint=4000")  # in pages: half as often as it would come with a history
        db.execute("PRAGMA fullfsync=ON")  # where fsync does not reach the disk by itself (macOS)
        return db

    def _layout(self, db: sqlite3.Connection) -> int:
        """The layout of the file, 0 while it has none; anything that is not a ledger of ours is refused."""
        tables, layout, application = _told_by(db)
        if application == _APPLICATION_ID and layout <= _LAYOUT:
            return layout
        if application == _APPLICATION_ID:
            raise self._unreachable(f"it was made by a newer Tidegate (layout {layout}, this one knows {_LAYOUT})")
        if layout or tables:
            raise self._unreachable("it is a SQLite file of something else")
        return 0

    @contextmanager
    def _mapped(self, writing: str | None) -> Iterator[None]:
        """SQLite's and the system's errors as ours; `writing` is the key of a write."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
            raise  # a fault of this module, not of the file
        except _CommitBroken as error:
            raise errors.OutcomeUnknown(url=self.url, key=writing, why=str(error)) from error.__cause__
        except (sqlite3.Error, OSError) as error:
            raise self._unreachable(_told(error, self._busy_timeout_s)) from error

    def _unreachable(self, why: str) -> errors.LedgerUnreachable:
        return errors.LedgerUnreachable(url=self.url, why=why)


class _CommitBroken(Exception):
    """The disk failed in the middle of a commit: a recovery may still find it whole."""


def _commit(db: sqlite3.Connection) -> None:
    try:
        db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
            raise _CommitBroken(str(error)) from error
        raise


def _told_by(db: sqlite3.Connection) -> tuple[int, int, int]:
    """How many tables and the like are in the file, its layout, whose it is: all at one moment.

    Three questions without a transaction may see a file come into being between them.
    """
    is_alone = not db.in_transaction
    if is_alone:
        db.execute("BEGIN")
    try:
        [tables] = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        [layout] = db.execute("PRAGMA user_version").fetchone()
        [application] = db.execute("PRAGMA application_id").fetchone()
    finally:
        if is_alone and db.in_transaction:
            db.execute("ROLLBACK")
    return tables, layout, application


def _set_pin(db: sqlite3.Connection, key: str, version: int, pinned: bool) -> bool:
    row = db.execute(SQL["head"], (key,)).fetchone()
    if row is None:
        return False
    head = _Head(*row)
    if head.version == version:
        db.execute(SQL["pin_head"], (pinned, head.id, version))
        return True
    if not db.execute(SQL["pin_history"], (pinned, head.id, version)).rowcount:
        return False
    db.execute(SQL["recount"], (*db.execute(SQL["count_kept"], (head.id,)).fetchone(), head.id))
    return True


def _told(error: sqlite3.Error | OSError, busy_timeout_s: float) -> str:
    if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
        return f"another process has held it for more than {busy_timeout_s:g} seconds"
    return str(error)


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
