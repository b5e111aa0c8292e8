"""The contract of a store, kept by a real Postgres, and what only a server can do to it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.servers.cutting import CuttingProxy
from tests.servers.postgres import Postgres
from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import DAY_US, Guard, History, Put, Store
from tidegate.ledger.postgres import PostgresStore
from tidegate.testing.store_contract import StoreContract

pytestmark = pytest.mark.server


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, database: str) -> Iterator[None]:
        self.database = database
        self.opened: list[Store] = []
        yield
        for store in self.opened:
            store.close()

    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        self.opened.append(PostgresStore(self.database, clock, history))
        return self.opened[-1]

    def url(self) -> str:
        return self.database

    def stored(self, key: str, version: int) -> bytes:
        with psycopg.connect(self.database) as db:
            [(sealed,)] = db.execute(_EVERY, {"key": key, "version": version}).fetchall()
        assert isinstance(sealed, bytes)
        return sealed

    def damage(self, key: str, version: int, sealed: bytes) -> None:
        with psycopg.connect(self.database) as db:
            changed = sum(
                db.execute(
                    f"UPDATE tidegate.{table} SET body = %(body)s WHERE key = %(key)s AND version = %(version)s",
                    {"key": key, "version": version, "body": sealed},
                ).rowcount
                for table in ("document", "history")
            )
        assert changed == 1


_EVERY = """
SELECT body FROM (
    SELECT key, version, body FROM tidegate.document UNION ALL SELECT key, version, body FROM tidegate.history
) AS every WHERE key = %(key)s AND version = %(version)s"""


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:
    with PostgresStore(database) as opened:
        yield opened


def test_reading_makes_no_tables(store: PostgresStore, database: str) -> None:
    """`status` of a project that never ran leaves nothing behind."""
    assert (store.get("a"), store.list(), store.versions("a"), store.scan()) == (None, [], [], [])
    with pytest.raises(errors.LedgerError):
        store.pin("a", 1)
    with psycopg.connect(database) as db:
        assert db.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'tidegate'").fetchone() == (0,)


def test_a_reader_that_was_there_first_sees_what_another_makes(database: str) -> None:
    """The tables may come into being at any time after the store was opened."""
    with PostgresStore(database) as reader, PostgresStore(database) as writer:
        assert reader.get("a") is None
        writer.put("a", b"1")
        assert reader.list() == ["a"]


def test_of_many_that_make_the_tables_together_all_can_write(database: str) -> None:
    """Runners of several hosts start at the same moment on an empty database."""
    stores = [PostgresStore(database) for _ in range(6)]
    faults: list[BaseException] = []
    barrier = threading.Barrier(len(stores))

    def write(number: int) -> None:
        try:
            barrier.wait()
            stores[number].put(f"k{number}", b"")
        except BaseException as error:  # noqa: BLE001 -- told by the test's own thread
            faults.append(error)

    _together(write, len(stores))
    assert faults == []
    assert stores[0].list() == [f"k{number}" for number in range(len(stores))]
    for one in stores:
        one.close()


def test_two_schemas_are_two_ledgers(database: str) -> None:
    """Several projects share a database."""
    with PostgresStore(database) as one, PostgresStore(f"{database}&schema=other") as other:
        one.put("a", b"1")
        other.put("a", b"2")
        assert [store.scan()[0].body for store in (one, other)] == [b"1", b"2"]


@pytest.mark.parametrize("schema", ["Big", "pg_x", "a-b", "", "x" * 64, "a;b"])
def test_what_cannot_be_a_schema_is_refused(schema: str) -> None:
    """Before anything is connected to."""
    with pytest.raises(errors.ConfigError, match="cannot be the schema"):
        PostgresStore(f"postgresql://h/db?schema={schema}")


def test_a_setting_that_libpq_does_not_know_is_refused() -> None:
    """It is named, and the password is not."""
    with pytest.raises(errors.ConfigError) as refused:
        PostgresStore("postgresql://me:secret@h/db?sslmod=require")
    assert "sslmod" in refused.value.message
    assert "secret" not in refused.value.message + refused.value.hint


def test_its_time_is_the_server_s(store: PostgresStore) -> None:
    """Leases of all runners go by one clock."""
    before = store.now()
    store.put("a", b"1")
    [info] = store.versions("a")
    assert before <= info.created_at <= store.now()


def test_the_history_is_bounded_by_age(database: str) -> None:
    """What the contract cannot show where time is the server's: versions are made old by hand."""
    with PostgresStore(database, history=History(age_us=DAY_US)) as store:
        for version in range(4):
            store.put("a", b"", expect=version or None)
        store.pin("a", 2)
        with psycopg.connect(database) as db:
            db.execute("UPDATE tidegate.history SET created_us = created_us - %s WHERE version < 3", (2 * DAY_US,))
            db.execute("UPDATE tidegate.document SET oldest_us = oldest_us - %s", (2 * DAY_US,))
        store.put("a", b"", expect=4)
        assert [info.version for info in store.versions("a")] == [2, 3, 4, 5]
        store.unpin("a", 2)
        store.put("a", b"", expect=5)
        assert [info.version for info in store.versions("a")] == [3, 4, 5, 6]


def test_two_that_guard_what_the_other_makes_do_not_both_win(database: str) -> None:
    """A guard of something absent holds: no two transactions each see the world before the other."""
    with PostgresStore(database) as store:
        store.put("warm", b"")
        for number in range(20):
            won: list[int] = []
            one, other = f"one/{number}", f"other/{number}"
            barrier = threading.Barrier(2)

            def race(side: int, names: tuple[str, str] = (one, other), barrier: threading.Barrier = barrier) -> None:
                mine, theirs = names if side else names[::-1]
                barrier.wait()
                try:
                    store.transaction([Guard(key=theirs, expect=None), Put(key=mine, body=b"", expect=None)])
                except errors.VersionConflict:
                    return
                won.append(side)  # noqa: B023 -- the threads end inside the round

            _together(race, 2)
            assert len(won) == len(store.list(f"one/{number}") + store.list(f"other/{number}")) == 1


def test_transactions_that_cross_each_other_both_end(database: str) -> None:
    """Documents are locked in the order of their keys, whatever the order of the writes."""
    with PostgresStore(database) as store:
        for key in "ab":
            store.put(key, b"0")

        def cross(side: int) -> None:
            keys = "ab" if side else "ba"
            for _ in range(25):
                while True:
                    heads = {one.key: one.version for one in store.scan()}
                    try:
                        store.transaction([Put(key=key, body=b"", expect=heads[key]) for key in keys])
                        break
                    except errors.VersionConflict:
                        continue

        _together(cross, 2)
        assert {one.key: one.version for one in store.scan()} == {"a": 51, "b": 51}


def test_connections_that_were_cut_are_made_anew(store: PostgresStore, postgres: Postgres) -> None:
    """By an administrator, a failover or a firewall; the caller does not notice."""
    store.put("a", b"1")
    for use in (lambda: store.get("a"), lambda: store.put("b", b"1"), store.now):
        _cut(postgres)
        assert use() is not None
    assert store.list() == ["a", "b"]


def test_a_server_that_comes_back_is_waited_for(postgres: Postgres, database: str) -> None:
    """It was restarted in the middle of a run, the hard way."""
    with PostgresStore(database, patience_s=60) as store:
        store.put("a", b"1")
        answers: list[int] = []
        postgres.stop(signal.SIGQUIT)
        waiting = threading.Thread(target=lambda: answers.append(store.put("a", b"2", expect=1)))
        waiting.start()
        postgres.start()
        waiting.join()
        assert answers == [2]


def test_a_server_that_stays_away_is_told(postgres: Postgres, database: str) -> None:
    """With what was tried and what it answered; what was there is still there afterwards."""
    with PostgresStore(database, patience_s=0.3) as store:
        store.put("a", b"1")
        postgres.stop()
        try:
            for use in (lambda: store.get("a"), lambda: store.put("a", b"2", expect=1)):
                with pytest.raises(errors.LedgerUnreachable, match=r"cannot be used|went away while a was written"):
                    use()
        finally:
            postgres.start()
        assert [one.version for one in store.scan()] == [1]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_whose_reply_was_lost_counts_once(postgres: Postgres, database: str, arrives: bool) -> None:
    """Whether it had come to the server is asked and only then is it done again."""
    name = database.partition("?")[0].rpartition("/")[2]
    with CuttingProxy("127.0.0.1", postgres.port) as line:
        url = f"postgresql://tide@127.0.0.1:{line.port}/{name}?sslmode=disable"
        with PostgresStore(url) as store:
            store.put("a", b"1")
            for marker, key, expect in ((b"ledger_put", "a", 1), (b"ledger_put", "new", None)):
                line.arm(marker, arrives=arrives)
                assert store.put(key, b"2", expect=expect) == (expect or 0) + 1
            line.arm(b"COMMIT", arrives=arrives)
            both = [Put(key="a", body=b"3", expect=2), Put(key="other", body=b"1", expect=None)]
            assert store.transaction(both) == [3, 1]
            store.delete("new")
            line.arm(b"COMMIT", arrives=arrives)
            assert store.put("new", b"3") == 3
            line.arm(b"COMMIT", arrives=arrives)
            store.pin("a", 1)
        assert line.cuts == 5
    with PostgresStore(database) as store:
        assert [(info.version, info.pinned) for info in store.versions("a")] == [(1, True), (2, False), (3, False)]
        assert [info.version for info in store.versions("new")] == [1, 2, 3]
        assert [info.version for info in store.versions("other")] == [1]


def test_a_server_that_goes_away_in_a_commit_leaves_the_outcome_unknown(postgres: Postgres, database: str) -> None:
    """It can be neither taken for done nor for undone; whoever starts again finds out."""
    name = database.partition("?")[0].rpartition("/")[2]
    with CuttingProxy("127.0.0.1", postgres.port) as line:
        url = f"postgresql://tide@127.0.0.1:{line.port}/{name}?sslmode=disable"
        with PostgresStore(url, patience_s=0.3) as store:
            store.put("a", b"1")
            line.arm(b"ledger_put", arrives=True)
            line.close()
            with pytest.raises(errors.OutcomeUnknown, match="went away while a was written"):
                store.put("a", b"2", expect=1)
    with PostgresStore(database) as store:
        assert [one.version for one in store.scan()] == [2]


def test_tls_is_as_the_url_asks(postgres: Postgres, database: str, tmp_path: Path) -> None:
    """A server that cannot prove who it is, is refused; with its root it is trusted."""
    if not postgres.certificate.exists():
        pytest.skip("openssl is not installed")
    name = database.partition("?")[0].rpartition("/")[2]
    root, stranger = tmp_path / "root.crt", tmp_path / "stranger.crt"
    root.write_bytes(postgres.certificate.read_bytes())
    stranger.write_text("")
    asked = {"host": "localhost", "hostaddr": "127.0.0.1", "sslmode": "verify-full"}
    with PostgresStore(postgres.url(name, **asked, sslrootcert=str(root))) as store:
        store.put("a", b"1")
        [(encrypted,)] = postgres.execute(
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
            "WHERE ssl AND application_name = 'tidegate' AND client_addr IS NOT NULL"
        )
        assert encrypted
    for broken in ({"sslrootcert": str(stranger)}, {"sslrootcert": str(root), "host": "elsewhere"}):
        with pytest.raises(errors.LedgerUnreachable, match=r"(?i)certificate|SSL"):
            PostgresStore(postgres.url(name, **{**asked, **broken})).get("a")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://tide@127.0.0.1:1/tide", "refused"),
        ("postgresql:///no_such_database", "no_such_database"),
        ("postgresql:///postgres?user=stranger", "stranger"),
        ("postgresql:///postgres?host=/nowhere", "/nowhere"),
    ],
)
def test_a_place_that_is_not_there_is_told_at_once(postgres: Postgres, url: str, why: str) -> None:
    """With what was tried, and what answered."""
    place = url if "@" in url or "host=" in url else f"{url}{'&' if '?' in url else '?'}host={postgres.folder}"
    place = place if "@" in place or "user=" in place else f"{place}&user=tide"
    with pytest.raises(errors.LedgerUnreachable, match=why):
        PostgresStore(f"{place}&port={postgres.port}" if "@" not in place else place).put("a", b"1")


def test_one_who_may_only_read_can_read(postgres: Postgres, database: str) -> None:
    """`status` works with rights that do not let one write, and a put says what is missing."""
    name = database.partition("?")[0].rpartition("/")[2]
    with PostgresStore(database) as store:
        store.put("a", b"1")
    postgres.execute("DROP ROLE IF EXISTS reader")
    for right in (
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA tidegate TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO reader",
    ):
        postgres.execute(right, name)
    with PostgresStore(database.replace("user=tide", "user=reader")) as store:
        assert store.list() == ["a"]
        with pytest.raises(errors.LedgerUnreachable, match="permission denied"):
            store.put("a", b"2", expect=1)
        assert store.get("a") is not None
    postgres.execute("DROP OWNED BY reader; DROP ROLE reader", name)


def test_a_ledger_of_a_newer_tidegate_is_left_alone(database: str) -> None:
    """The message says who made it."""
    with PostgresStore(database) as store:
        store.put("a", b"1")
    with psycopg.connect(database) as db:
        db.execute("INSERT INTO tidegate.layout (version) VALUES (2)")
    for use in (lambda one: one.list(), lambda one: one.put("b", b"1")):
        with PostgresStore(database) as store, pytest.raises(errors.LedgerUnreachable, match="newer Tidegate"):
            use(store)


def test_a_closed_store_says_so(database: str) -> None:
    """Whoever still holds it after the end learns it."""
    store = PostgresStore(database)
    store.put("a", b"1")
    store.close()
    for use in (lambda: store.get("a"), lambda: store.put("b", b"1"), store.now):
        with pytest.raises(errors.LedgerUnreachable, match="closed"):
            use()


def test_a_server_that_does_not_flush_is_made_to(database: str) -> None:
    """A put that returned is on the disk, also where the server's own default is not to wait for it."""
    lax = f"{database}&options=-c%20synchronous_commit%3Doff"
    with PostgresStore(lax) as store:
        store.put("a", b"1")
        assert store._patiently(None, lambda db: db.execute("SHOW synchronous_commit").fetchone()) == ("on",)


def _together(work: object, count: int) -> None:
    assert callable(work)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _cut(postgres: Postgres) -> None:
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'")
