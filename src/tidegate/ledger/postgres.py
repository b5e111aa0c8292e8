"""A ledger in Postgres: for several runners on several hosts.

A transaction is one round trip where the versions that it makes are known beforehand, else two. Heads are
locked in the order of their keys; no lock outlives the transaction and none is taken by name, so nothing is
left to clean up. When the connection is lost meanwhile, the server process is waited for to end, and what
was to be put is looked for.

The URL is libpq's, so that its settings for TLS (`sslmode`, `sslrootcert`, …), services and timeouts
work as everywhere; `schema=` is ours: where in the database the tables are.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
import psycopg_pool
from psycopg import conninfo, sql
from psycopg import errors as pg_errors

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
    conflict,
)
from tidegate.ledger.statements import read_statements

#: How long a database that does not answer is tried again before a call gives up.
PATIENCE_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_S: Final = 30
LOCK_TIMEOUT_S: Final = 10
POOL_SIZE: Final = 8
SCHEMA: Final = "tidegate"

_LAYOUT: Final = 1
_AFTER_ANY_KEY: Final = "\x7f"  # sorts after every character that a key may have
_SLACK: Final = 8  # a history may run over its count by an eighth: trimming in lots touches fewer pages
_POLL_S: Final = 0.1

_Answer = TypeVar("_Answer")
_Connection = psycopg.Connection[tuple[Any, ...]]
_Statement = tuple[str, Mapping[str, Any]]

SQL: Final = read_statements(Path(__file__).with_suffix(".sql"))


class _Head(NamedTuple):
    """What the row of a document says of it, its body aside. `kept` None: the database counts."""

    version: int
    live: bool
    keeps: bool
    pinned: bool
    kept: int | None
    oldest_us: int
    created_us: int


class PostgresStore(Store):
    """Documents in a schema of a Postgres database, for runners everywhere. Its clock is the server's."""

    capabilities = Capabilities(transactions=True, history=True, server_clock=True, shared=True)

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        history: History | None = None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """:raises ConfigError: the URL cannot be understood."""
        place = _place_of(url)
        super().__init__(place.shown, clock, history)
        self.schema = place.schema
        self._settings = place.settings
        self._patience_s = patience_s
        self._real = SystemClock()  # for waiting on a server, which no clock of a test moves
        self._opening = threading.Lock()
        self._pool: psycopg_pool.ConnectionPool[_Connection] | None = None
        self._has_tables = False
        self._closed = False

    def close(self) -> None:
        """Let go of the connections."""
        with self._opening:
            self._closed = True
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    # reading

    def now(self) -> datetime:
        """The server's time: one for all runners."""
        [now_us] = self._patiently(None, lambda db: _row(db.execute(SQL["now"])))
        return from_micros(now_us)

    def _read(self, key: str, version: int | None) -> Raw | None:
        name = "read_head" if version is None else "read_version"
        rows = self._rows(name, {"key": key, "version": version})
        return Raw(key=key, version=rows[0][0], sealed=rows[0][1], created_us=rows[0][2]) if rows else None

    def _keys(self, prefix: str) -> list[str]:
        return [key for (key,) in self._rows("keys", _range_of(prefix))]

    def _scan(self, prefix: str) -> list[Raw]:
        rows = self._rows("scan", _range_of(prefix))
        return [Raw(key=key, version=version, sealed=body, created_us=us) for key, version, body, us in rows]

    def _versions(self, key: str) -> list[VersionInfo]:
        return [
            VersionInfo(version=version, created_at=from_micros(us), size_bytes=size, pinned=pinned, deleted=not live)
            for version, us, size, pinned, live in self._rows("versions", {"key": key})
        ]

    def _rows(self, name: str, facts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a question; none while there is no ledger yet."""

        def ask(db: _Connection) -> list[tuple[Any, ...]]:
            return db.execute(SQL[name], facts, binary=True).fetchall() if self._tables_are_there(db) else []

        return self._patiently(None, ask)

    # writing

    def _apply(self, writes: Sequence[Write]) -> list[int]:
        self._make()
        if _versions_are_known(writes):
            with suppress(_WasRemoved):
                return self._patiently(writes[0].key, lambda db: self._at_once(db, writes))
        return self._patiently(writes[0].key, lambda db: self._transact(db, writes))

    def _at_once(self, db: _Connection, writes: Sequence[Write]) -> list[int]:
        """One round trip: every version is known before, and the server looks whether it is so."""
        said = [self._saying(write) for write in writes]
        probe = next(
            (_Probe(f["key"], f["expected"] + 1, f["body"]) for name, f in said if name == "put_at_once"), None
        )
        pid = db.info.backend_pid
        try:
            if len(said) == 1:
                return [int(_row(db.execute(SQL[said[0][0]], said[0][1]))[0])]
            with db.pipeline():
                _queue(db, "BEGIN")
                _queue(db, SQL["lock_heads"], {"keys": sorted(write.key for write in writes)})
                answers = [_queue(db, SQL[name], facts) for name, facts in said]
                _queue(db, "COMMIT")
            return [int(_row(answer)[0]) for answer in answers]
        except psycopg.Error as error:
            if error.sqlstate == _ELSEWHERE:
                raise _conflict(writes, error) from error
            if error.sqlstate == _REMOVED:
                raise _WasRemoved from error
            if not _is_lost(error) or probe is None or not self._has_landed(pid, probe, error):
                raise
        return [facts["expected"] + 1 if name == "put_at_once" else 0 for name, facts in said]

    def _saying(self, write: Write) -> _Statement:
        expected = write.expect or 0
        if isinstance(write, Guard):
            return "guard_at_once", {"key": write.key, "expected": expected}
        if write.forget:
            return "forget_at_once", {"key": write.key, "expected": write.expect}
        facts = {"key": write.key, "expected": expected, "live": not write.deletes, "keeps": write.history}
        facts |= {"size": write.payload.size_bytes, "body": write.seal(expected + 1)}
        return "put_at_once", {**facts, "most": self.history.count, "age_us": self.history.age_us}

    def _transact(self, db: _Connection, writes: Sequence[Write]) -> list[int]:
        """Two round trips: the heads are locked and looked at, and then written."""
        pid = db.info.backend_pid
        with _begun(db, {write.key for write in writes}) as begun:
            script = _Script(now_us=begun.now_us, history=self.history, heads=begun.heads)
            made = [script.add(write) for write in writes]
            try:
                begun.commit(script.statements)
            except psycopg.OperationalError as error:
                probe = script.probe
                if not _is_lost(error) or probe is None or not self._has_landed(pid, probe, error):
                    raise
            return made

    def _has_landed(self, pid: int, probe: _Probe, lost: psycopg.Error) -> bool:
        """Whether a transaction is there whose connection was lost: once its server process has ended, we look."""
        deadline = self._real.monotonic() + self._patience_s
        try:
            while self._patiently(None, lambda db: _row(db.execute(SQL["backend_lives"], {"pid": pid})))[0]:
                if self._real.monotonic() > deadline:
                    raise errors.OutcomeUnknown(url=self.url, key=probe.key, why=_told(lost))
                self._real.wait(threading.Event(), _POLL_S)
            found = self._rows("read_version", {"key": probe.key, "version": probe.version})
        except errors.OutcomeUnknown:
            raise
        except errors.LedgerUnreachable as error:
            raise errors.OutcomeUnknown(url=self.url, key=probe.key, why=_told(lost)) from error
        return bool(found) and found[0][1] == probe.sealed

    def _pin(self, key: str, version: int, pinned: bool) -> bool:
        facts = {"key": key, "version": version, "pinned": pinned}

        def pin(db: _Connection) -> bool:
            if not self._tables_are_there(db):
                return False
            with _begun(db, {key}) as begun:
                head = begun.heads.get(key)
                is_head = head is not None and head.version == version
                found = db.execute(SQL["pin_head" if is_head else "pin_history"], facts).rowcount
                begun.commit([] if is_head else [("recount", {"key": key})])
                return found > 0

        return self._patiently(key, pin)

    def _restore(self, key: str, versions: Sequence[Archived]) -> None:
        self._make()

        def restore(db: _Connection) -> None:
            with _begun(db, {key}) as begun:
                head = begun.heads.get(key)
                check_new(key, None if head is None else head.version)
                begun.commit(_restoring(key, versions))

        self._patiently(key, restore)

    # the tables

    def _tables_are_there(self, db: _Connection) -> bool:
        """Whether the ledger was made; a newer one is refused."""
        if not self._has_tables and _row(db.execute(SQL["layout_exists"]))[0]:
            self._has_tables = self._layout(db) == _LAYOUT
        return self._has_tables

    def _make(self) -> None:
        """Make the tables, or find that another process just did."""
        if self._has_tables or self._patiently(None, self._tables_are_there):
            return
        with effects.effect(effects.LEDGER_SCHEMA, url=self.url, schema=self.schema):
            self._patiently(None, self._migrate)

    def _migrate(self, db: _Connection) -> None:
        with db.transaction():
            db.execute(sql.SQL("SELECT pg_advisory_xact_lock(hashtext({}))").format(f"tidegate {self.schema}"))
            exists = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
            if db.execute(exists, (self.schema,)).fetchone() is None:
                db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
            db.execute(SQL["make_layout"])
            for version in range(self._layout(db) + 1, _LAYOUT + 1):
                db.execute(SQL[f"migration {version}"])
                db.execute(SQL["migrated"], {"version": version})
        self._has_tables = True

    def _layout(self, db: _Connection) -> int:
        layout = int(_row(db.execute(SQL["layout"]))[0])
        if layout > _LAYOUT:
            raise self._unreachable(f"it was made by a newer Tidegate (layout {layout}, this one knows {_LAYOUT})")
        return layout

    # connections

    def _patiently(self, writing: str | None, work: Callable[[_Connection], _Answer]) -> _Answer:
        """Do the work on a connection, and again on another while the server takes it back or does not answer.

        Work whose outcome is unknown raises one of our own errors.
        """
        deadline = self._real.monotonic() + self._patience_s
        while True:
            try:
                with self._connected() as db:
                    return work(db)
            except _TAKEN_BACK as error:
                if self._real.monotonic() > deadline:
                    raise self._unreachable(_told(error), writing) from error
            except psycopg.Error as error:
                if not _is_lost(error) or self._real.monotonic() > deadline:
                    raise self._unreachable(self._reason(error), writing) from error
                self._real.wait(threading.Event(), _POLL_S)

    def _reason(self, error: psycopg.Error) -> str:
        """Why it cannot be used. A pool only says that it waited in vain: then the server is asked directly."""
        if not isinstance(error, psycopg_pool.PoolTimeout):
            return _told(error)
        try:
            psycopg.connect(**self._settings).close()
        except psycopg.Error as reason:
            return _told(reason)
        return f"all {POOL_SIZE} connections have been in use for {CONNECT_TIMEOUT_S} seconds"

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        pool = self._opened()
        db = pool.getconn(timeout=min(CONNECT_TIMEOUT_S, self._patience_s))
        try:
            yield db
        finally:
            if not db.broken and db.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    db.execute("ROLLBACK")
            pool.putconn(db)

    def _opened(self) -> psycopg_pool.ConnectionPool[_Connection]:
        """The pool. It is tried when it is made, so that what is wrong is told at once and in words."""
        with self._opening:
            if self._closed:
                raise self._unreachable("it was closed")
            if self._pool is None:
                try:
                    psycopg.connect(**self._settings).close()
                except psycopg.Error as error:
                    raise self._unreachable(_told(error)) from error
                self._pool = psycopg_pool.ConnectionPool(
                    kwargs=self._settings,
                    connection_class=_Connection,
                    configure=self._configure,
                    min_size=0,
                    max_size=POOL_SIZE,
                    num_workers=1,
                    reconnect_timeout=CONNECT_TIMEOUT_S,
                    open=True,
                )
            return self._pool

    def _configure(self, db: _Connection) -> None:
        search_path = sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema))
        with db.pipeline():
            db.execute(search_path)
            db.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT_S}s'")
            db.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
            db.execute(f"SET idle_in_transaction_session_timeout = '{STATEMENT_TIMEOUT_S}s'")
            durability = db.execute("SHOW synchronous_commit")
        if _row(durability)[0] == "off":
            db.execute("SET synchronous_commit = on")  # a put that returned is on the disk

    def _unreachable(self, why: str, writing: str | None = None) -> errors.LedgerUnreachable:
        return errors.LedgerUnreachable(url=self.url, why=why if writing is None else f"{writing} not written: {why}")


#: What the functions of the ledger raise: the document is elsewhere; it was removed, and its numbers go on.
_ELSEWHERE: Final = "TG001"
_REMOVED: Final = "TG002"


class _WasRemoved(Exception):
    """The version that the write makes is not known before the server was asked."""


class _Probe(NamedTuple):
    """A version that is there, byte for byte, if and only if its transaction was committed."""

    key: str
    version: int
    sealed: bytes


def _versions_are_known(writes: Sequence[Write]) -> bool:
    """Whether what each write makes is known beforehand, if it is accepted."""
    keys = {write.key for write in writes}
    is_open = any(isinstance(w, SealedWrite) and w.deletes and not w.forget and w.expect is None for w in writes)
    return len(keys) == len(writes) and not is_open


def _conflict(writes: Sequence[Write], error: psycopg.Error) -> errors.VersionConflict:
    told = error.diag.message_primary or ""
    write = next(write for write in writes if write.key == error.diag.message_detail)
    return conflict(write, int(told) if told.isdigit() else None)


#: The server undid all of a transaction, and another try may go better. Of two that make one document at
#: the same time the second learns it so; it looks again, and then it is refused with the version.
_TAKEN_BACK: Final = (pg_errors.DeadlockDetected, pg_errors.SerializationFailure, pg_errors.UniqueViolation)
_SHUTDOWNS: Final = ("08", "57P")


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, and not the server's answer a refusal."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_SHUTDOWNS)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A transaction that holds the heads of its documents."""

    db: _Connection
    now_us: int
    heads: dict[str, _Head]

    def commit(self, statements: Sequence[_Statement]) -> None:
        with self.db.pipeline():
            for name, facts in statements:
                _queue(self.db, SQL[name], facts)
            _queue(self.db, "COMMIT")


@contextmanager
def _begun(db: _Connection, keys: set[str]) -> Iterator[_Begun]:
    with db.pipeline():
        _queue(db, "BEGIN")
        moment = _queue(db, SQL["now"])
        locked = _queue(db, SQL["lock_heads"], {"keys": sorted(keys)})
    [now_us] = _row(moment)
    yield _Begun(db, now_us, {row[0]: _Head(*row[1:]) for row in locked.fetchall()})


@dataclass(slots=True)
class _Script:
    """What the writes of a transaction make of the heads, and the statements that do it."""

    now_us: int
    history: History
    heads: dict[str, _Head]
    statements: list[_Statement] = field(default_factory=list)

    def add(self, write: Write) -> int:
        """Take a write in, unless its document is elsewhere than expected: the version that it makes."""
        head = self.heads.get(write.key)
        check_expected(write, 0 if head is None else head.version, head is not None and head.live)
        if isinstance(write, Guard):
            if head is None:
                self._say("hold_absence", write.key)
                self._say("forget", write.key)
            return 0
        if write.deletes and write.forget:
            return self._forget(write.key, head)
        if write.deletes and (head is None or not head.live):
            return 0
        return self._insert(write) if head is None else self._supersede(write, head)

    @property
    def probe(self) -> _Probe | None:
        """A version by which the transaction can be known; None when it only removes: that may be done twice."""
        puts = (facts for name, facts in self.statements if "body" in facts)
        return next((_Probe(facts["key"], facts["version"], facts["body"]) for facts in puts), None)

    def _forget(self, key: str, head: _Head | None) -> int:
        if head is None:
            return 0
        self._say("forget_history", key)
        self._say("forget", key)
        del self.heads[key]
        return head.version + 1 if head.live else 0

    def _insert(self, write: SealedWrite) -> int:
        self._put("insert", write, _Head(1, True, write.history, False, 0, 0, self.now_us))
        return 1

    def _supersede(self, write: SealedWrite, head: _Head) -> int:
        kept, oldest_us = head.kept, head.oldest_us
        if head.keeps or head.pinned:
            kept, oldest_us = self._archive(write.key, head)
        new = _Head(head.version + 1, not write.deletes, write.history, False, kept, oldest_us, self.now_us)
        self._put("update", write, new)
        if kept is None:
            self._say("recount", write.key)
        return new.version

    def _archive(self, key: str, head: _Head) -> tuple[int | None, int]:
        """Move the head to the history, and let go what the bound lets go: (kept, oldest) after that."""
        self._say("archive", key)
        if head.kept is None:
            return None, 0
        kept = head.kept + (not head.pinned)
        oldest_us = head.oldest_us if head.kept else head.created_us
        excess = kept - (self.history.count - 1)
        if excess > self.history.count // _SLACK:
            self._say("trim_oldest", key, excess=excess)
            kept -= excess
        before_us = self.now_us - self.history.age_us
        if kept and oldest_us < before_us:
            self._say("trim_older", key, before_us=before_us)
            return None, 0
        return kept, oldest_us

    def _put(self, name: str, write: SealedWrite, head: _Head) -> None:
        self.heads[write.key] = head
        self._say(
            name,
            write.key,
            version=head.version,
            live=head.live,
            keeps=head.keeps,
            kept=head.kept or 0,
            oldest_us=head.oldest_us,
            now_us=self.now_us,
            size=write.payload.size_bytes,
            body=write.seal(head.version),
        )

    def _say(self, name: str, key: str, **facts: Any) -> None:
        self.statements.append((name, {"key": key, **facts}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What a URL says: libpq's settings, our schema, and how it is shown, without secrets."""

    settings: dict[str, Any]
    schema: str
    shown: str


_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_DEFAULTS: Final = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "application_name": "tidegate",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": STATEMENT_TIMEOUT_S * 1000,  # a host that vanished is noticed
}


def _place_of(url: str) -> _Place:
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(asked).get("schema", SCHEMA)
    rest = urlencode([(name, value) for name, value in asked if name != "schema"], quote_via=quote)
    user, at, place = parts.netloc.rpartition("@")
    shown = f"postgresql://{user.partition(':')[0]}{at}{place}{parts.path}"
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        what = f"{schema!r} cannot be the schema of a ledger"
        raise errors.ConfigError(where="ledger", what=what, hint="use small letters, digits and _")
    try:
        given = conninfo.conninfo_to_dict(f"postgresql://{parts.netloc}{parts.path}?{rest}")
    except psycopg.ProgrammingError as error:
        hint = "write postgresql://USER@HOST/DATABASE, with libpq's settings behind a ?"
        raise errors.ConfigError(where="ledger", what=f"{shown}: {_told(error)}", hint=hint) from error
    settings = {**_DEFAULTS, **given, "autocommit": True}
    return _Place(settings=settings, schema=schema, shown=shown)


def _restoring(key: str, versions: Sequence[Archived]) -> list[_Statement]:
    statements: list[_Statement] = []
    for one in versions:
        info = one.info
        is_head = one is versions[-1]
        facts = {"key": key, "version": info.version, "live": not info.deleted, "size": info.size_bytes}
        facts |= {"keeps": True, "kept": 0, "oldest_us": 0, "now_us": one.created_us, "body": one.sealed}
        statements.append(("insert" if is_head else "restore_history", {**facts, "pinned": info.pinned}))
        if is_head and info.pinned:
            statements.append(("pin_head", {**facts, "pinned": True}))
    return [*statements, ("recount", {"key": key})]


def _queue(db: _Connection, statement: str, facts: Mapping[str, Any] | None = None) -> psycopg.Cursor[tuple[Any, ...]]:
    """Say it in a pipeline. Nothing is prepared there: of one that fails it is gone, and psycopg thinks it is not."""
    return db.execute(statement, facts, prepare=False)


def _range_of(prefix: str) -> dict[str, str]:
    return {"first": prefix, "end": prefix + _AFTER_ANY_KEY}


def _row(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    row = cursor.fetchone()
    if row is None:
        raise LookupError("a question that always has an answer had none")
    return row


def _told(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error)
    return " ".join(said.split()) or type(error).__name__
