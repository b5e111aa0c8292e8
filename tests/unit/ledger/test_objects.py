"""The contract of a store, kept by object stores in memory and on this disk, and what sleepers can do to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore, ObjectStore

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import History, Store
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.testing.clock import ManualClock
from tidegate.testing.store_contract import StoreContract


class ObjectContract(StoreContract):
    bucket: ObjectStore

    def make(self, clock: Clock | None = None, history: History | None = None) -> Store:
        return ObjectStoreLedger("test://bucket", clock, history, bucket=self.bucket)

    def url(self) -> str | None:
        return None

    def stored(self, key: str, version: int) -> bytes:
        return obstore.get(self.bucket, f"{key}/!{version:020d}").bytes().to_bytes()

    def damage(self, key: str, version: int, sealed: bytes) -> None:
        obstore.put(self.bucket, f"{key}/!{version:020d}", sealed)


class TestInMemory(ObjectContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.bucket = MemoryStore()


class TestOnThisDisk(ObjectContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.bucket = LocalStore(tmp_path / "bucket", mkdir=True)


@pytest.fixture
def bucket() -> ObjectStore:
    return MemoryStore()


def ledger(bucket: ObjectStore, **options: Any) -> ObjectStoreLedger:
    return ObjectStoreLedger("test://bucket", bucket=bucket, **options)


def paths(bucket: ObjectStore) -> list[str]:
    return sorted(one["path"] for one in obstore.list(bucket).collect())


def test_reading_writes_nothing(bucket: ObjectStore) -> None:
    """`status` with rights to read only works, and leaves nothing behind."""
    store = ledger(bucket)
    assert (store.get("a"), store.list(), store.versions("a"), store.scan()) == (None, [], [], [])
    assert paths(bucket) == []


def test_a_proof_of_the_store_leaves_nothing_behind(bucket: ObjectStore) -> None:
    """It is tried before the first write, and only there."""
    store = ledger(bucket)
    assert store.put("a", b"1") == 1
    assert paths(bucket) == ["a/!00000000000000000001"]


def test_a_sleeper_that_creates_a_deleted_number_again_is_refused(bucket: ObjectStore) -> None:
    """It knew version 1, slept while the others went on and cleaned up, and woke in the middle of its put."""
    sleeper = ledger(bucket, clock=ManualClock(), grace_s=1e-6)  # by its own clock no time passed
    other = ledger(bucket, history=History(count=2), grace_s=0.0)
    sleeper.put("a", b"1")
    for version in range(1, 32):
        other.put("a", b"theirs", expect=version)
    assert "a/!00000000000000000002" not in paths(bucket)
    with pytest.raises(errors.VersionConflict) as refused:
        sleeper.put("a", b"mine", expect=1)
    assert refused.value.fields["actual"] == 32
    assert "a/!00000000000000000002" not in paths(bucket)
    found = sleeper.get("a")
    assert found is not None
    assert found.body == b"theirs"


def test_a_sleeper_does_not_bring_back_what_was_forgotten(bucket: ObjectStore) -> None:
    """Nothing is left of it, so nothing is in the way of the next number: it looks whether the last is there."""
    sleeper, other = ledger(bucket), ledger(bucket)
    sleeper.put("a", b"1")
    other.delete("a", forget=True)
    with pytest.raises(errors.VersionConflict):
        sleeper.put("a", b"2", expect=1)
    assert paths(bucket) == []


def test_one_that_has_not_looked_for_long_finds_the_head(bucket: ObjectStore) -> None:
    """What it knew is gone, or pinned alone among what is gone."""
    for pinned in (False, True):
        key = f"pinned-{pinned}"
        reader, writer = ledger(bucket), ledger(bucket, history=History(count=2), grace_s=0.0)
        writer.put(key, b"1")
        assert reader.get(key) is not None
        if pinned:
            writer.pin(key, 1)
        for version in range(1, 40):
            writer.put(key, b"", expect=version)
        late = ledger(bucket, grace_s=0.0)
        assert [one.versions(key)[-1].version for one in (writer, late)] == [40, 40]


def test_what_is_not_kept_is_deleted_once_nobody_can_build_upon_it(bucket: ObjectStore) -> None:
    """Heartbeats do not fill the bucket for ever, and pins hold."""
    store = ledger(bucket, history=History(count=3), grace_s=0.0)
    store.put("a", b"1")
    store.pin("a", 1)
    for version in range(1, 64):
        store.put("a", b"beat", expect=version, history=version % 4 == 0)
    assert len(paths(bucket)) <= 24
    assert [info.version for info in store.versions("a")] == [1, *[i.version for i in store.versions("a")][-3:]]
    patient = ledger(bucket, history=History(count=3))
    for version in range(64, 128):
        patient.put("a", b"beat", expect=version, history=False)
    assert len(paths(bucket)) >= 64


def test_a_closed_store_says_so(bucket: ObjectStore) -> None:
    """Whoever still holds it after the end learns it."""
    store = ledger(bucket)
    store.put("a", b"1")
    store.close()
    for use in (lambda: store.get("a"), lambda: store.put("b", b"1"), store.list):
        with pytest.raises(errors.LedgerUnreachable, match="closed"):
            use()


@pytest.mark.parametrize("url", ["s3://", "s3://bucket/x?colour=red", "az://container/x?colour=red"])
def test_a_url_that_cannot_be_is_refused_with_one_that_works(url: str) -> None:
    """The setting or what is missing is named."""
    with pytest.raises(errors.ConfigError) as refused:
        ObjectStoreLedger(url)
    assert "BUCKET/PREFIX" in refused.value.hint
