"""The contract of a store as a suite of tests. Whoever writes a backend subclasses it.

    class TestMyStore(StoreContract):
        def make(self, clock=None, history=None): return MyStore(...)    # the same documents each time
        def url(self): return "my://…"                                  # for other processes; None: it has none
        def stored(self, key, version): ...                             # the bytes it holds
        def damage(self, key, version, sealed): ...                     # put other bytes in their place

Run as a program this module is the other process of a race: it adds to a number in a document.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger import sealing
from tidegate.ledger.contract import DAY_US, Delete, Guard, History, Put, Store
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.stores import open_store
from tidegate.testing.clock import ManualClock

ADDS = 25
RACERS = 3
ODD_KEYS = (
    "a",
    "A",
    "a/b",
    "a.b",
    "a/b/c=1,2:3@x+y",
    "-",
    "...",
    "a/...",
    "_/.hidden/" + "x" * 200,
    "/".join(["k" * 139] * 5),
)
BAD_KEYS = (
    "",
    "/",
    "a/",
    "/a",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a b",
    "ä",
    "a\n",
    "a\0b",
    "a*",
    "x" * 201,
    "a/" * 350 + "a",
    "x" * 10_000,
    "../../etc/passwd",
    "a/\0",
    "a\\b",
    "!probe",
)

_Error = TypeVar("_Error", bound=BaseException)


def refused(kind: type[_Error], action: Callable[..., object], *args: object, **named: object) -> _Error:
    """The error that the action must raise."""
    try:
        answer = action(*args, **named)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised; the answer was {answer!r}")


class StoreContract(ABC):
    """What every store must do."""

    @abstractmethod
    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        """A new store over this test's place."""

    @abstractmethod
    def url(self) -> str | None:
        """What `open_store` opens in another process; None when no other process can."""

    @abstractmethod
    def stored(self, key: str, version: int) -> bytes:
        """The bytes that are held as that version."""

    @abstractmethod
    def damage(self, key: str, version: int, sealed: bytes) -> None:
        """Hold these bytes as that version instead."""

    # one document

    def test_nothing_is_there_before_the_first_write(self) -> None:
        store = self.make()
        assert store.get("a") is None
        assert store.get_version("a", 1) is None
        assert store.list() == []
        assert store.scan("a/") == []
        assert store.versions("a") == []
        assert store.delete("a") is False

    def test_a_document_reads_as_it_was_put(self) -> None:
        clock = ManualClock()
        store = self.make(clock)
        assert store.put("a", b"one", token=7) == 1
        found = store.get("a")
        assert found is not None
        assert (found.key, found.version, found.body, found.token) == ("a", 1, b"one", 7)
        if not store.capabilities.server_clock:
            assert found.created_at == clock.now()

    def test_each_put_makes_the_next_version(self) -> None:
        store = self.make()
        assert [store.put("a", b"%d" % n, expect=n or None) for n in range(5)] == [1, 2, 3, 4, 5]

    def test_a_put_that_expects_another_version_changes_nothing(self) -> None:
        store = self.make()
        store.put("a", b"one")
        for expect in (None, 2, 99):
            conflict = refused(errors.VersionConflict, store.put, "a", b"two", expect=expect)
            assert conflict.fields["actual"] == 1
        refused(errors.VersionConflict, store.put, "b", b"two", expect=1)
        assert _bodies(store) == {"a": b"one"}

    def test_a_deleted_document_is_gone_and_its_numbers_are_not_given_again(self) -> None:
        store = self.make()
        store.put("a", b"one")
        assert store.delete("a", expect=1) is True
        assert store.get("a") is None
        assert store.list() == []
        assert store.scan() == []
        assert store.delete("a") is False
        refused(errors.VersionConflict, store.delete, "a", expect=2)
        assert store.put("a", b"two") == 3

    def test_a_delete_that_expects_another_version_changes_nothing(self) -> None:
        store = self.make()
        store.put("a", b"one")
        refused(errors.VersionConflict, store.delete, "a", expect=2)
        assert _bodies(store) == {"a": b"one"}

    def test_a_forgotten_document_leaves_nothing_behind(self) -> None:
        store = self.make()
        store.put("a", b"one")
        store.put("a", b"two", expect=1)
        assert store.delete("a", forget=True) is True
        assert store.versions("a") == []
        assert store.delete("a", forget=True) is False
        assert store.put("a", b"three") == 1
        assert [info.version for info in store.versions("a")] == [1]

    def test_bodies_of_every_size_read_as_they_were_put(self) -> None:
        store = self.make()
        bodies = {
            "empty": b"",
            "nul": b"\0\n\r\xff" * 3,
            "like-a-seal": b"TG1 plain 0 0 0 0\n",
            "zeros": bytes(100_000),
            "16mib": _noise(16 * 1024 * 1024),
        }
        for key, body in bodies.items():
            store.put(key, body)
        assert _bodies(store) == bodies
        assert {key: store.versions(key)[0].size_bytes for key in bodies} == {k: len(b) for k, b in bodies.items()}

    def test_a_body_beyond_the_limit_is_refused_before_anything_is_written(self) -> None:
        store = self.make()
        too_large = bytes(sealing.MAX_BODY_BYTES + 1)
        refused(errors.DocumentTooLarge, store.put, "a", too_large)
        assert store.list() == []

    # keys

    def test_every_good_key_works_and_is_its_own(self) -> None:
        store = self.make()
        for key in ODD_KEYS:
            store.put(key, key.encode())
        assert store.list() == sorted(ODD_KEYS)
        assert _bodies(store) == {key: key.encode() for key in ODD_KEYS}

    def test_bad_keys_are_refused_by_every_operation(self) -> None:
        store = self.make()
        for key in BAD_KEYS:
            refused(errors.BadKey, store.put, key, b"")
            refused(errors.BadKey, store.get, key)
            refused(errors.BadKey, store.delete, key)
            refused(errors.BadKey, store.versions, key)
        for prefix in ("/", "a//", "a b", "é"):
            refused(errors.BadKey, store.list, prefix)

    def test_a_prefix_finds_the_keys_that_start_so_in_order(self) -> None:
        store = self.make()
        for key in ("p/b", "p/a", "p/a/x", "p-a", "pa", "q", "P/a"):
            store.put(key, b"")
        assert store.list("p/") == ["p/a", "p/a/x", "p/b"]
        assert store.list("p") == ["p-a", "p/a", "p/a/x", "p/b", "pa"]
        assert [document.key for document in store.scan("p/a")] == ["p/a", "p/a/x"]
        assert store.list("_") == []

    # history

    def test_older_versions_are_kept_and_read(self) -> None:
        store = self.make()
        store.put("a", b"one")
        store.put("a", b"two", expect=1)
        store.delete("a")
        store.put("a", b"four")
        assert [(info.version, info.deleted, info.size_bytes) for info in store.versions("a")] == [
            (1, False, 3),
            (2, False, 3),
            (3, True, 0),
            (4, False, 4),
        ]
        assert [_body(store, "a", version) for version in range(6)] == [None, b"one", b"two", None, b"four", None]

    def test_the_history_is_bounded_by_count(self) -> None:
        store = self.make(history=History(count=3))
        _put_times(store, "a", 10)
        assert [info.version for info in store.versions("a")] == [8, 9, 10]
        assert _body(store, "a", 7) is None

    def test_a_long_history_stays_near_its_bound(self) -> None:
        store = self.make(history=History(count=40))
        _put_times(store, "a", 100)
        assert 40 <= len(store.versions("a")) <= 45

    def test_the_history_is_bounded_by_age(self) -> None:
        clock = ManualClock()
        store = self.make(clock, History(age_us=DAY_US))
        if store.capabilities.server_clock:
            return
        _put_times(store, "a", 3)
        clock.advance(DAY_US // 2)
        _put_times(store, "a", 1)
        clock.advance(DAY_US // 2 + 1)
        assert [info.version for info in store.versions("a")] == [1, 2, 3, 4]
        _put_times(store, "a", 1)
        assert [info.version for info in store.versions("a")] == [4, 5]
        clock.advance(10 * DAY_US)
        _put_times(store, "a", 1)
        assert [info.version for info in store.versions("a")] == [6]

    def test_pinned_versions_stay_until_they_are_unpinned(self) -> None:
        store = self.make(history=History(count=2))
        _put_times(store, "a", 2)
        store.pin("a", 1)
        store.pin("a", 2)  # the head
        _put_times(store, "a", 5)
        assert [(info.version, info.pinned) for info in store.versions("a")] == [
            (1, True),
            (2, True),
            (6, False),
            (7, False),
        ]
        assert _body(store, "a", 1) == b"1"
        store.unpin("a", 1)
        _put_times(store, "a", 1)
        assert [info.version for info in store.versions("a")] == [2, 7, 8]

    def test_a_version_that_is_not_kept_cannot_be_pinned(self) -> None:
        store = self.make(history=History(count=1))
        refused(errors.LedgerError, store.pin, "a", 1)
        _put_times(store, "a", 2)
        refused(errors.LedgerError, store.pin, "a", 1)
        refused(errors.LedgerError, store.pin, "a", 3)

    def test_a_version_put_without_history_is_gone_once_the_next_one_comes(self) -> None:
        store = self.make(history=History(count=3))
        _put_times(store, "a", 2)
        for version in range(2, 30):
            store.put("a", b"beat", expect=version, history=False)
        _put_times(store, "a", 1)
        assert [info.version for info in store.versions("a")] == [1, 2, 31]

    def test_a_rollback_puts_an_older_body_on_top(self) -> None:
        store = self.make()
        _put_times(store, "a", 3)
        assert store.rollback("a", 1, token=5) == 4
        found = store.get("a")
        assert found is not None
        assert (found.body, found.version, found.token) == (b"1", 4, 5)
        assert _body(store, "a", 3) == b"3"
        store.delete("a")
        assert store.rollback("a", 3) == 6
        assert _body(store, "a") == b"3"

    def test_a_rollback_to_nothing_is_refused(self) -> None:
        store = self.make()
        _put_times(store, "a", 1)
        store.delete("a")
        refused(errors.LedgerError, store.rollback, "a", 2)
        refused(errors.LedgerError, store.rollback, "a", 9)
        refused(errors.LedgerError, store.rollback, "b", 1)
        assert store.list() == []

    # several at once

    def test_a_transaction_is_carried_out_in_order(self) -> None:
        store = self.make()
        if not store.capabilities.transactions:
            puts = [Put(key=key, body=b"", expect=None) for key in "ab"]
            refused(errors.LedgerError, store.transaction, puts)
            return
        store.put("old", b"")
        made = store.transaction(
            [
                Put(key="a", body=b"1", expect=None),
                Put(key="a", body=b"2", expect=1),
                Delete(key="old"),
                Guard(key="a", expect=2),
                Delete(key="never"),
                Guard(key="old", expect=None),
                Put(key="b", body=b"3", expect=None),
                Delete(key="b", forget=True),
                Put(key="b", body=b"4", expect=None),
            ]
        )
        assert made == [1, 2, 2, 0, 0, 0, 1, 2, 1]
        assert _bodies(store) == {"a": b"2", "b": b"4"}
        assert store.transaction([]) == []

    def test_a_transaction_of_which_one_part_is_refused_changes_nothing(self) -> None:
        store = self.make()
        if not store.capabilities.transactions:
            return
        store.put("a", b"one")
        store.put("a", b"two", expect=1)
        before = [store.versions(key) for key in "abc"]
        for last in (Put(key="c", body=b"", expect=9), Delete(key="a", expect=2), Guard(key="b", expect=None)):
            operations = [
                Put(key="b", body=b"new", expect=None),
                Put(key="a", body=b"three", expect=2),
                last,
            ]
            refused(errors.VersionConflict, store.transaction, operations)
            refused(errors.BadKey, store.transaction, [*operations[:2], Delete(key="..")])
        assert [store.versions(key) for key in "abc"] == before
        assert _bodies(store) == {"a": b"two"}

    def test_a_guard_alone_is_judged(self) -> None:
        store = self.make()
        store.put("a", b"one")
        assert store.transaction([Guard(key="a", expect=1), Put(key="b", body=b"", expect=None)]) == [0, 1]
        for guard in (Guard(key="a", expect=2), Guard(key="a", expect=None), Guard(key="c", expect=1)):
            refused(errors.VersionConflict, store.transaction, [guard])
            refused(errors.VersionConflict, store.transaction, [guard, Put(key="d", body=b"", expect=None)])
        assert store.list() == ["a", "b"]

    # several at the same time

    def test_of_threads_that_race_each_put_counts_once(self) -> None:
        store = self.make()
        faults: list[BaseException] = []
        barrier = threading.Barrier(RACERS)

        def race() -> None:
            try:
                barrier.wait()
                add(store, "n", ADDS)
            except BaseException as error:  # noqa: BLE001 -- told by the test's own thread
                faults.append(error)

        threads = [threading.Thread(target=race) for _ in range(RACERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert _body(store, "n") == b"%d" % (RACERS * ADDS)
        assert store.versions("n")[-1].version == RACERS * ADDS

    def test_of_processes_that_race_each_put_counts_once(self) -> None:
        url = self.url()
        if url is None:
            return
        command = [sys.executable, "-m", "tidegate.testing.store_contract", url, "n", str(ADDS)]
        racers = [subprocess.Popen(command) for _ in range(RACERS)]
        assert [racer.wait(timeout=120) for racer in racers] == [0] * RACERS
        store = self.make()
        assert _body(store, "n") == b"%d" % (RACERS * ADDS)
        assert store.versions("n")[-1].version == RACERS * ADDS

    def test_a_reader_sees_all_of_a_transaction_or_nothing(self) -> None:
        store = self.make()
        if not store.capabilities.transactions:
            return
        done = threading.Event()
        torn = []

        def look() -> None:
            while not done.is_set():
                numbers = {document.body for document in store.scan("pair/")}
                if len(numbers) > 1:
                    torn.append(numbers)

        reader = threading.Thread(target=look)
        reader.start()
        for n in range(30):
            store.transaction([Put(key=f"pair/{side}", body=b"%d" % n, expect=n or None) for side in "ab"])
        done.set()
        reader.join()
        assert torn == []

    # what is stored

    def test_what_was_put_is_there_for_the_next_one_to_open_it(self) -> None:
        first = self.make()
        _put_times(first, "a", 3)
        first.pin("a", 1)
        first.delete("b")
        first.close()
        first.close()
        with self.make() as second:
            assert _bodies(second) == {"a": b"3"}
            assert [(info.version, info.pinned) for info in second.versions("a")] == [(1, True), (2, False), (3, False)]
            assert second.put("a", b"4", expect=3) == 4

    def test_damage_is_told_and_names_the_newest_good_version(self) -> None:
        store = self.make()
        _put_times(store, "a", 3)
        whole = self.stored("a", 3)
        stranger = self.stored("a", 2)
        for sealed in (b"", whole[:-1], whole + b"\n", b"{}", stranger, whole.replace(b"TG1 plain 0", b"TG1 plain 1")):
            self.damage("a", 3, sealed)
            for read in (lambda: store.get("a"), lambda: store.get_version("a", 3), store.scan):
                corrupt = refused(errors.CorruptCheckpoint, read)
                assert (corrupt.fields["version"], corrupt.fields["newest_good"]) == (3, 2)
        assert _body(store, "a", 2) == b"2"
        self.damage("a", 3, whole)
        assert _body(store, "a") == b"3"

    def test_a_newer_format_is_told_from_damage(self) -> None:
        store = self.make()
        _put_times(store, "a", 2)
        self.damage("a", 2, self.stored("a", 2).replace(b"TG1", b"TG9", 1))
        assert refused(errors.NewerFormat, store.get, "a").fields["newest_good"] == 1

    def test_recovery_takes_the_newest_good_version(self) -> None:
        store = self.make()
        _put_times(store, "a", 4)
        for version in (3, 4):
            self.damage("a", version, b"torn")
        assert store.recover("a", token=9) == (2, 5)
        found = store.get("a")
        assert found is not None
        assert (found.body, found.token) == (b"2", 9)

    def test_a_document_is_restored_as_another_ledger_held_it(self) -> None:
        store, other = self.make(), MemoryStore(ManualClock())
        other.put("a", b"1", token=3)
        for version, body in enumerate((b"2" * 70_000, b"3", b"4"), start=1):
            other.put("a", body, expect=version, token=version)
        other.delete("a", expect=4)
        other.put("a", b"6", token=9)
        for version in (2, 6):
            other.pin("a", version)
        other.put("b", b"one")
        for key in "ab":
            store.restore(key, other.archived(key))
            assert store.versions(key) == other.versions(key)
            assert [store.archived(key)] == [other.archived(key)]
        found = store.get("a")
        assert found is not None
        assert (found.version, found.body, found.token) == (6, b"6", 9)
        assert found.created_at == other.clock.now()
        refused(errors.VersionConflict, store.restore, "a", other.archived("a"))
        assert store.put("a", b"7", expect=6) == 7
        assert [info.version for info in store.versions("a") if info.pinned] == [2, 6]

    def test_without_a_good_version_there_is_no_recovery(self) -> None:
        store = self.make()
        _put_times(store, "a", 1)
        self.damage("a", 1, b"torn")
        refused(errors.LedgerError, store.recover, "a")


def add(store: Store, key: str, times: int) -> None:
    """Add one to the number in the document so many times, against others who do the same."""
    while times:
        found = store.get(key)
        number = 0 if found is None else int(found.body)
        try:
            store.put(key, b"%d" % (number + 1), expect=None if found is None else found.version)
        except errors.VersionConflict:
            continue
        times -= 1


def _put_times(store: Store, key: str, times: int) -> None:
    """So many puts; each body is its version's number."""
    kept = store.versions(key)
    version = kept[-1].version if kept else 0
    for number in range(version, version + times):
        store.put(key, b"%d" % (number + 1), expect=number or None)


def _body(store: Store, key: str, version: int | None = None) -> bytes | None:
    found = store.get(key) if version is None else store.get_version(key, version)
    return None if found is None else found.body


def _bodies(store: Store) -> dict[str, bytes]:
    scanned = {document.key: document.body for document in store.scan()}
    assert {key: _body(store, key) for key in store.list()} == scanned
    return scanned


def _noise(size: int) -> bytes:
    """Bytes that do not compress, the same ones each time."""
    import random  # noqa: PLC0415 -- only here

    return random.Random(size).randbytes(size)


if __name__ == "__main__":
    with open_store(sys.argv[1], root=Path.cwd()) as shared:
        add(shared, sys.argv[2], int(sys.argv[3]))
