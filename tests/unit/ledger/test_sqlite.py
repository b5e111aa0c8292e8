"""The contract of a store, kept by SQLite, and what only a file can do to it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidegate import effects, errors
from tidegate.clock import Clock
from tidegate.ledger.contract import History, Put, Store
from tidegate.ledger.sqlite import SqliteStore
from tidegate.testing.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "new" / "led ger%20.db"

    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        return SqliteStore(self.path, clock, history)

    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def stored(self, key: str, version: int) -> bytes:
        with sqlite3.connect(self.path) as db:
            [(sealed,)] = db.execute(_EVERY + "WHERE key = ? AND version = ?", (key, version)).fetchall()
        assert isinstance(sealed, bytes)
        return sealed

    def damage(self, key: str, version: int, sealed: bytes) -> None:
        with sqlite3.connect(self.path) as db:
            changed = db.execute("UPDATE document SET body = ? WHERE key = ? AND version = ?", (sealed, key, version))
            if not changed.rowcount:
                changed = db.execute(
                    "UPDATE history SET body = ? "
                    "WHERE document = (SELECT id FROM document WHERE key = ?) AND version = ?",
                    (sealed, key, version),
                )
            assert changed.rowcount == 1


_EVERY = """
SELECT body FROM (
    SELECT key, version, body FROM document
    UNION ALL SELECT d.key, h.version, h.body FROM document d JOIN history h ON h.document = d.id
) """


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def run_child(code: str, *args: object, **options: object) -> subprocess.Popen[str]:
    """Another process that runs this code with `store` at the first argument."""
    head = (
        "import os, sys, signal, time, resource\nfrom pathlib import Path\n"
        "from tidegate import effects, errors\nfrom tidegate.ledger import leases\n"
        "from tidegate.ledger.sqlite import SqliteStore\nstore = SqliteStore(Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", head + code, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    """What means something in a URL means nothing in a path."""
    for name in ("a?mode=ro", "b#c", "d%20e", "f g"):
        SqliteStore(tmp_path / name).put("a", b"1")
        assert (tmp_path / name).exists()


def test_reading_makes_no_file(tmp_path: Path) -> None:
    """`status` of a project that never ran leaves nothing behind."""
    store = SqliteStore(tmp_path / ".tidegate" / "ledger.db")
    assert (store.get("a"), store.list(), store.versions("a"), store.scan()) == (None, [], [], [])
    with pytest.raises(errors.LedgerError):
        store.pin("a", 1)
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_was_there_first_sees_what_another_makes(path: Path) -> None:
    """The file may come into being at any time after the store was opened."""
    reader = SqliteStore(path)
    assert reader.get("a") is None
    SqliteStore(path).put("a", b"1")
    assert reader.list() == ["a"]


def test_a_file_whose_maker_was_killed_before_its_tables_is_made_anew(path: Path) -> None:
    """A crash right after the file appeared leaves a ledger that is empty, not broken."""
    path.touch()
    store = SqliteStore(path)
    assert store.list() == []
    assert store.put("a", b"1") == 1


def test_whoever_looks_while_the_file_is_made_finds_it_empty_or_whole(tmp_path: Path) -> None:
    """Between its first byte and its tables it is not taken for somebody else's."""
    faults: list[Exception] = []

    def look(path: Path, made: threading.Event) -> None:
        try:
            while not made.is_set():
                with SqliteStore(path) as store:
                    assert store.list() in ([], ["a"])
        except Exception as error:  # noqa: BLE001 -- told by the test's own thread
            faults.append(error)

    for number in range(12):
        path, made = tmp_path / f"{number}.db", threading.Event()
        lookers = [threading.Thread(target=look, args=(path, made)) for _ in range(2)]
        for looker in lookers:
            looker.start()
        SqliteStore(path).put("a", b"1")
        made.set()
        for looker in lookers:
            looker.join()
    assert faults == []


def test_schema_and_puts_happen_inside_their_points(path: Path) -> None:
    """The crash suite can stop before and after each."""
    passed: list[str] = []
    stop = effects.observe(lambda name, moment, facts: passed.append(f"{name} {moment.value}"))
    try:
        store = SqliteStore(path)
        store.put("a", b"1")
        store.delete("a")
    finally:
        stop()
    inside = ["ledger.schema before", "ledger.schema after"]
    assert passed[:4] == ["ledger.put before", *inside, "ledger.put after"]
    assert passed[4:] == ["ledger.delete before", "ledger.delete after"]


def test_durability_is_as_promised(path: Path) -> None:
    """WAL in the file for everybody, FULL in our connections."""
    store = SqliteStore(path)
    store.put("a", b"1")
    assert store._writing is not None
    assert store._writing.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("effect", ["ledger.schema", "ledger.put"])
def test_a_kill_leaves_all_of_a_transaction_or_nothing(path: Path, effect: str, moment: str) -> None:
    """Whoever opens it next reads whole transactions and goes on."""
    code = """
from tidegate.ledger.contract import Put
def kill(name, moment, facts):
    if (name, moment.value) == (sys.argv[2], sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
effects.observe(kill)
store.transaction([Put(key="a", body=b"1", expect=None), Put(key="b", body=b"1", expect=None)])
"""
    child = run_child(code, path, effect, moment)
    assert child.wait(timeout=60) == -signal.SIGKILL
    store = SqliteStore(path)
    written = ["a", "b"] if (effect, moment) == ("ledger.put", "after") else []
    assert store.list() == written
    assert store.put("c", b"1") == 1


def test_a_process_killed_inside_its_transaction_holds_nobody_up(path: Path) -> None:
    """Its half-done work is undone and its lock is gone."""
    SqliteStore(path).put("a", b"1")
    code = """
store.put("b", b"1")
db = store._writing
db.execute("BEGIN IMMEDIATE"); db.execute("UPDATE document SET version = 99")
print("in", flush=True); time.sleep(600)
"""
    child = run_child(code, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "in\n"
    child.kill()
    child.wait(timeout=60)
    store = SqliteStore(path)
    assert store.put("a", b"2", expect=1) == 2
    assert store.list() == ["a", "b"]


def test_a_lock_that_another_process_never_gives_up_is_told(path: Path) -> None:
    """As when a runner was stopped in the middle of a write."""
    store = SqliteStore(path, busy_timeout_s=0.1)
    store.put("a", b"1")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.LedgerUnreachable, match="another process has held it"):
        store.put("a", b"2", expect=1)
    assert store.get("a") is not None
    holder.execute("ROLLBACK")
    assert store.put("a", b"2", expect=1) == 2
    holder.close()


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """The folder would have to lie inside a file."""
    (tmp_path / "file").write_text("")
    store = SqliteStore(tmp_path / "file" / "ledger.db")
    with pytest.raises(errors.LedgerUnreachable, match="cannot be used"):
        store.put("a", b"1")


def test_a_folder_that_may_not_be_written_is_told(path: Path) -> None:
    """Both where the file would be new and where it is there; as somebody whom rights apply to."""
    code = """
folder = Path(sys.argv[1]).parent
store.put("a", b"1"); store.close()
there, new = SqliteStore(Path(sys.argv[1])), SqliteStore(folder / "new.db")
for one in (*folder.iterdir(), folder):
    one.chmod(0o555 if one.is_dir() else 0o444)
for one in (*folder.parents,):
    if one.stat().st_uid == os.getuid() and one.is_relative_to("/tmp") and one != Path("/tmp"):
        one.chmod(one.stat().st_mode | 0o055)
if os.getuid() == 0:
    os.setuid(65534)
for one, expect in ((new, None), (there, 1)):
    try:
        one.put("a", b"2", expect=expect)
    except errors.LedgerUnreachable as error:
        print(type(error).__name__, error)
"""
    child = run_child(code, path)
    told = child.communicate(timeout=60)[0].splitlines()
    path.parent.chmod(0o755)
    assert len(told) == 2, told
    assert all(line.startswith("LedgerUnreachable the ledger at sqlite:///") for line in told)


def test_a_full_disk_is_told_and_what_was_there_stays(path: Path) -> None:
    """The system refuses to let files grow; afterwards the ledger is as it was."""
    code = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.put("a", b"1")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.put("big", os.urandom(1_000_000))
except errors.LedgerUnreachable as error:
    print(type(error).__name__)
print(store.list())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.put("a", b"2", expect=1))
"""
    told = run_child(code, path).communicate(timeout=60)[0].splitlines()
    assert told[0] in ("LedgerUnreachable", "OutcomeUnknown")
    assert told[1:] == ["['a']", "2"]
    assert SqliteStore(path).list() == ["a"]


def test_a_commit_that_the_disk_broke_has_an_unknown_outcome(path: Path) -> None:
    """It can be found whole by the next recovery, so nobody may take it for undone."""
    code = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.put("a", b"1")
size = Path(sys.argv[1] + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
try:
    store.put("a", b"2", expect=1)
except errors.OutcomeUnknown as error:
    print(error)
"""
    told = run_child(code, path).communicate(timeout=60)[0]
    assert "went away while a was written" in told


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 200])
def test_a_file_that_is_no_database_is_told(path: Path, content: bytes) -> None:
    """Reading and writing both say so, and the file stays as it is."""
    path.write_bytes(content)
    with pytest.raises(errors.LedgerUnreachable):
        SqliteStore(path).get("a")
    with pytest.raises(errors.LedgerUnreachable):
        SqliteStore(path).put("a", b"1")
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_left_alone(path: Path) -> None:
    """We do not put our tables beside strangers'."""
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE cookies (name TEXT)")
    db.close()
    for use in (lambda: SqliteStore(path).list(), lambda: SqliteStore(path).put("a", b"1")):
        with pytest.raises(errors.LedgerUnreachable, match="something else"):
            use()


def test_a_ledger_of_a_newer_tidegate_is_left_alone(path: Path) -> None:
    """The message says who made it."""
    SqliteStore(path).put("a", b"1")
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=2")
    db.close()
    for use in (lambda: SqliteStore(path).list(), lambda: SqliteStore(path).put("b", b"1")):
        with pytest.raises(errors.LedgerUnreachable, match="newer Tidegate"):
            use()


def test_a_closed_store_says_so(path: Path) -> None:
    """Whoever still holds it after the end learns it."""
    store = SqliteStore(path)
    store.put("a", b"1")
    store.close()
    for use in (lambda: store.get("a"), lambda: store.put("b", b"1")):
        with pytest.raises(errors.LedgerUnreachable, match="closed"):
            use()


def test_connections_do_not_grow_with_threads(path: Path) -> None:
    """Readers are taken from a pool and put back."""
    store = SqliteStore(path)
    store.put("a", b"1")
    at_once = 20
    barrier = threading.Barrier(at_once)

    def look() -> None:
        barrier.wait()
        for _ in range(20):
            store.get("a")

    for _ in range(3):
        threads = [threading.Thread(target=look) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 1 <= len(store._readers) <= 8
    # SQLite keeps what it closed for the next to open, as long as another connection is open.
    opened = sum(os.readlink(f"/proc/self/fd/{fd}") == str(path) for fd in _fds())
    assert opened <= at_once + 2


def _fds() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]


def test_trimming_leaves_no_rows_behind(path: Path) -> None:
    """The file stops growing once the history is full."""
    store = SqliteStore(path, history=History(count=16))
    version = 0
    for _ in range(100):
        [version] = store.transaction([Put(key="a", body=b"x" * 2000, expect=version or None)])
    with sqlite3.connect(path) as db:
        rows, kept = db.execute("SELECT count(*), (SELECT kept FROM document) FROM history").fetchone()
    assert rows == kept <= 17
    store.delete("a", forget=True)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM history").fetchone() == (0,)
