"""The contract of a store, kept by a folder of files, and what only a folder can do to it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import Delete, History, Put, Store
from tidegate.ledger.file import FileStore
from tidegate.testing.store_contract import StoreContract


class TestFileStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "new" / "led ger%20"

    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        return FileStore(self.folder, clock, history)

    def url(self) -> str:
        return f"file:{self.folder}"

    def body_of(self, key: str, version: int) -> Path:
        [body] = (self.folder / "documents" / key).glob(f"!{version:020d}-*")
        return body

    def stored(self, key: str, version: int) -> bytes:
        return self.body_of(key, version).read_bytes()

    def damage(self, key: str, version: int, sealed: bytes) -> None:
        self.body_of(key, version).write_bytes(sealed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def run_child(code: str, *args: object) -> subprocess.Popen[str]:
    """Another process that runs this code with `store` at the first argument."""
    head = (
        "import os, sys, signal\nfrom pathlib import Path\n"
        "from tidegate import errors\nfrom tidegate.ledger.contract import Delete, Put\n"
        "from tidegate.ledger.file import FileStore\nstore = FileStore(Path(sys.argv[1]))\n"
    )
    return subprocess.Popen([sys.executable, "-c", head + code, *map(str, args)], stdout=subprocess.PIPE, text=True)


def test_reading_makes_nothing(folder: Path) -> None:
    """`status` of a project that never ran leaves nothing behind."""
    with FileStore(folder) as store:
        assert (store.get("a"), store.list(), store.versions("a"), store.scan()) == (None, [], [], [])
        with pytest.raises(errors.LedgerError):
            store.pin("a", 1)
    assert not folder.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """Somebody's documents are not a ledger, for readers as for writers."""
    (tmp_path / "letter.txt").write_text("dear")
    for use in (lambda: FileStore(tmp_path).list(), lambda: FileStore(tmp_path).put("a", b"1")):
        with pytest.raises(errors.LedgerUnreachable, match=r"letter\.txt"):
            use()
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_layout_of_a_newer_tidegate_is_left_alone(folder: Path) -> None:
    """It says so, and changes nothing."""
    FileStore(folder).put("a", b"1")
    (folder / "lock").write_text("tidegate ledger, layout 2\n")
    for use in (lambda: FileStore(folder).list(), lambda: FileStore(folder).put("b", b"1")):
        with pytest.raises(errors.LedgerUnreachable, match="layout"):
            use()


# The kernel's own calls, in the order that a transaction of two puts, a delete and a forget makes them.
_AT_EVERY_RENAME = """
from tidegate.ledger.contract import Delete, Put
left = int(sys.argv[2])
def count(event, arguments):
    global left
    if event in ("os.rename", "os.remove") and arguments[0].__str__().startswith(sys.argv[1]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
store.transaction([
    Put(key="a", body=b"2", expect=1), Delete(key="b", expect=1), Delete(key="c", forget=True),
    Put(key="d", body=b"1", expect=None),
])
"""


def test_a_kill_between_any_two_steps_leaves_all_of_a_transaction_or_nothing(folder: Path) -> None:
    """Whoever opens it next finds the old state or the new one, and goes on."""
    before, after = {"a": b"1", "b": b"1", "c": b"1"}, {"a": b"2", "d": b"1"}
    seen, steps, code = set(), 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        place = folder / str(steps)
        store = FileStore(place)
        for key in "abc":
            store.put(key, b"1")
        code = run_child(_AT_EVERY_RENAME, place, steps).wait(timeout=60)
        found = {one.key: one.body for one in store.scan()}
        assert found in (before, after), steps
        seen.add(found == after)
        assert store.put("e", b"1") == 1
        assert not (place / "journal").exists()
        steps += 1
    assert code == 0
    assert seen == {False, True}
    assert steps >= 7


def test_a_dead_writer_s_leavings_do_not_count_and_go(folder: Path) -> None:
    """Of a document without history, what a kill left behind the head is invisible, and removed by the next put."""
    store = FileStore(folder)
    store.put("a", b"1", history=False)
    [old] = (folder / "documents/a").iterdir()
    kept = old.read_bytes()
    store.put("a", b"2", expect=1, history=False)
    old.write_bytes(kept)
    assert [info.version for info in store.versions("a")] == [2]
    store.put("a", b"3", expect=2, history=False)
    assert len(list((folder / "documents/a").iterdir())) == 1


def test_forgetting_leaves_no_folder(folder: Path) -> None:
    """Plans and receipts come and go by the thousand."""
    store = FileStore(folder)
    store.put("plans/a/1", b"1")
    store.put("plans/b", b"1")
    store.transaction([Delete(key="plans/a/1", forget=True), Put(key="c", body=b"", expect=None)])
    assert sorted(path.name for path in (folder / "documents").rglob("*") if path.is_dir()) == ["b", "c", "plans"]


def test_a_lock_that_another_process_never_gives_up_is_told(folder: Path) -> None:
    """As when a runner was stopped in the middle of a write."""
    store = FileStore(folder, busy_timeout_s=0.05)
    store.put("a", b"1")
    with open(folder / "lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for use in (lambda: store.get("a"), lambda: store.put("b", b"1")):
            with pytest.raises(errors.LedgerUnreachable, match="another process has held it"):
                use()
    assert store.put("b", b"1") == 1


def test_a_folder_that_may_not_be_written_is_told(folder: Path) -> None:
    """The old version stays readable; as somebody whom rights apply to."""
    code = """
store.put("a", b"1")
for path in (*store.folder.rglob("*"), store.folder):
    path.chmod(0o555 if path.is_dir() else 0o444)
for path in store.folder.parents:
    if path.stat().st_uid == os.getuid() and path.is_relative_to("/tmp") and path != Path("/tmp"):
        path.chmod(path.stat().st_mode | 0o055)
if os.getuid() == 0:
    os.setuid(65534)
try:
    store.put("a", b"2", expect=1)
except errors.LedgerUnreachable as error:
    print(type(error).__name__, error)
print(store.get("a").body)
"""
    told = run_child(code, folder).communicate(timeout=60)[0].splitlines()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    assert told[0].startswith("LedgerUnreachable the ledger at file:")
    assert told[1:] == ["b'1'"]


def test_a_disk_without_room_is_told_and_nothing_is_half_done(folder: Path) -> None:
    """The system refuses to let files grow; the old versions stay, and nothing lies about."""
    code = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.put("a", b"1")
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
try:
    store.transaction([Put(key="a", body=b"2", expect=1), Put(key="big", body=os.urandom(100_000), expect=None)])
except errors.LedgerUnreachable as error:
    print(type(error).__name__, error)
print(store.list(), store.get("a").body, os.listdir(store.folder / "new"))
"""
    told = run_child(code, folder).communicate(timeout=60)[0].splitlines()
    assert "the disk is full" in told[0]
    assert told[1:] == ["['a'] b'1' []"]


def test_a_closed_store_says_so(folder: Path) -> None:
    """Whoever still holds it after the end learns it."""
    store = FileStore(folder)
    store.put("a", b"1")
    store.close()
    for use in (lambda: store.get("a"), lambda: store.put("b", b"1"), lambda: store.pin("a", 1)):
        with pytest.raises(errors.LedgerUnreachable, match="closed"):
            use()


def test_files_are_named_for_what_they_hold(folder: Path) -> None:
    """A person finds a version with `ls`, and its text with `cat`."""
    FileStore(folder).put("pipelines/orders/state", b'{"epoch":1}')
    [body] = (folder / "documents/pipelines/orders/state").iterdir()
    assert body.name.startswith("!00000000000000000001-")
    assert body.read_bytes().endswith(b'{"epoch":1}')
    assert os.stat(body).st_size < 120
