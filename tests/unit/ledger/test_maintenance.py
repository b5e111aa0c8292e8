"""A ledger as a whole: checks, exports, copies, and how it was."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from obstore.store import MemoryStore as Bucket

from tidegate import errors
from tidegate.ledger import audit, leases, maintenance
from tidegate.ledger.contract import Store
from tidegate.ledger.differences import Difference, differences
from tidegate.ledger.file import FileStore
from tidegate.ledger.memory import MemoryStore, Shelf
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.ledger.sqlite import SqliteStore
from tidegate.testing.clock import ManualClock


def filled(store: Store, clock: ManualClock) -> Store:
    """Two documents with a history, one of them pinned; one that was removed; and a lease that is over."""
    for number in range(4):
        store.put("pipelines/orders/state", b'{"n":%d}' % number, expect=number or None, token=number)
        clock.advance(60_000_000)
    store.pin("pipelines/orders/state", 2)
    store.put("big", b"\0" * 50_000)
    store.put("gone", b"")
    store.delete("gone")
    leases.acquire(store, "pipelines/orders/lease", name="orders").release()
    return store


def contents(store: Store) -> dict[str, object]:
    """Everything that there is, with every version."""
    keys = [key for key in store.list() if not key.endswith("/lease")]
    return {key: (store.versions(key), store.archived(key)) for key in keys}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def store(clock: ManualClock, shelf: Shelf) -> Store:
    return filled(MemoryStore(clock, shelf=shelf), clock)


def exported(store: Store) -> str:
    file = io.StringIO()
    maintenance.export(store, file)
    return file.getvalue()


def test_a_copy_has_every_version_as_it_was(store: Store, tmp_path: Path) -> None:
    """From store to store to store and back: numbers, times, tokens, pins, seals."""
    places: list[Store] = [
        SqliteStore(tmp_path / "ledger.db"),
        FileStore(tmp_path / "folder"),
        ObjectStoreLedger("test://bucket", bucket=Bucket()),
        MemoryStore(),
    ]
    source = store
    for target in places:
        assert maintenance.copy(source, target) == maintenance.Copied(documents=2, versions=5)
        assert contents(target) == contents(store)
        source = target


def test_an_export_comes_back_as_it_was(store: Store) -> None:
    """Through a file, into an empty ledger."""
    file = exported(store)
    target = MemoryStore()
    assert maintenance.import_(io.StringIO(file), target) == maintenance.Copied(documents=2, versions=5)
    assert contents(target) == contents(store)
    assert [json.loads(line).get("key") for line in file.splitlines()][:2] == [None, "big"]


def test_a_ledger_that_has_documents_takes_nothing_in(store: Store) -> None:
    """Neither a copy nor an import mixes two ledgers."""
    target = MemoryStore()
    target.put("a", b"")
    for take in (
        lambda: maintenance.copy(store, target),
        lambda: maintenance.import_(io.StringIO(exported(store)), target),
    ):
        with pytest.raises(errors.LedgerError, match="1 documents already, a among them"):
            take()


def test_nothing_is_copied_while_something_runs(store: Store) -> None:
    """The runner is named."""
    leases.acquire(store, "pipelines/orders/lease", name="orders")
    with pytest.raises(errors.LeaseHeld, match="orders is run by"):
        maintenance.copy(store, MemoryStore())


def test_a_ledger_that_changes_while_it_is_copied_is_told(store: Store) -> None:
    """What was copied is not taken for all."""

    def change(key: str) -> None:
        if key == "pipelines/orders/state":
            store.put("big", b"", expect=1)

    with pytest.raises(errors.LedgerError, match="changed while it was copied"):
        maintenance.copy(store, MemoryStore(), change)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda text: "", "no export"),
        (lambda text: "[]\n", "no export"),
        (lambda text: text.replace('"format": 1', '"format": 2', 1), "format 2"),
        (lambda text: "\n".join(text.splitlines()[:-4]) + "\n", "cut short: it has 1 of 2"),
        (lambda text: text[:-10] + "\n", "line 6 of the export is damaged"),
        (lambda text: text.replace('"key": "big"', '"key": "bag"'), "line 2 of the export is damaged"),
        (lambda text: text.replace('"version": 3', '"version": 9'), "line 5 of the export is damaged"),
    ],
)
def test_an_export_that_is_damaged_changes_nothing(store: Store, spoil: object, why: str) -> None:
    """All of it is verified before anything is written."""
    assert callable(spoil)
    target = MemoryStore()
    with pytest.raises(errors.LedgerError, match=why):
        maintenance.import_(io.StringIO(spoil(exported(store))), target)
    assert target.list() == []


def test_a_check_finds_what_cannot_be_read(store: Store, shelf: Shelf) -> None:
    """Old versions and heads, each with the newest good one; a damaged ledger is not exported."""
    assert maintenance.check(store) == maintenance.Checked(documents=3, versions=6)
    kept = shelf.documents["pipelines/orders/state"]
    for version in (2, 4):
        object.__setattr__(kept[version], "sealed", b"torn")
    found = maintenance.check(store).findings
    assert [(one.key, one.version, one.newest_good, one.is_head) for one in found] == [
        ("pipelines/orders/state", 2, 3, False),
        ("pipelines/orders/state", 4, 3, True),
    ]
    with pytest.raises(errors.CorruptCheckpoint):
        exported(store)
    assert maintenance.recover(store, "pipelines/orders/state") == (3, 5)
    with pytest.raises(errors.LedgerError, match="nothing to recover"):
        maintenance.recover(store, "pipelines/orders/state")


def test_how_it_was_at_a_moment(clock: ManualClock) -> None:
    """Each document's version of then; what came later is not there, and what was removed then is not either."""
    store = MemoryStore(clock)
    moments = []
    for change in (
        lambda: store.put("a", b"1"),
        lambda: store.put("a", b"2", expect=1),
        lambda: store.put("b", b"1"),
        lambda: store.delete("a"),
        lambda: store.put("a", b"5"),
    ):
        change()
        moments.append(clock.now())
        clock.advance(1_000_000)
    seen = [{one.key: one.body for one in maintenance.AsOf(store, moment).scan()} for moment in moments]
    assert seen == [{"a": b"1"}, {"a": b"2"}, {"a": b"2", "b": b"1"}, {"b": b"1"}, {"a": b"5", "b": b"1"}]
    assert maintenance.AsOf(store, moments[2]).list("b") == ["b"]
    assert maintenance.AsOf(store, moments[0]).get("b") is None


def test_what_was_done_by_hand_is_remembered_in_order(clock: ManualClock) -> None:
    """Who, what, to what, and the particulars."""
    store = MemoryStore(clock)
    for subject in ("a", "b"):
        audit.write(store, by="me@here", action="recovered", subject=subject, version=3)
        clock.advance(1)
    entries = audit.read(store)
    assert [(entry.by, entry.action, entry.subject) for entry in entries] == [
        ("me@here", "recovered", "a"),
        ("me@here", "recovered", "b"),
    ]
    assert entries[0].detail == {"version": 3}


def test_differences_are_told_place_by_place() -> None:
    """What came, what went, what changed; lists whole."""
    before = {"epoch": 1, "sinks": {"lake": {"rows": 1, "to": [[0, 3]]}}, "gone": True, "same": [1]}
    after = {"epoch": 2, "sinks": {"lake": {"rows": 1, "to": [[0, 4]]}, "files": {}}, "same": [1]}
    assert list(differences(before, after)) == [
        Difference(place="epoch", before=1, after=2),
        Difference(place="gone", before=True, after="absent"),
        Difference(place="sinks.files", before="absent", after={}),
        Difference(place="sinks.lake.to", before=[[0, 3]], after=[[0, 4]]),
    ]
    assert list(differences(before, before)) == []
