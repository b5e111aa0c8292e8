"""Typed checkpoints: what is put comes back as what it was, forward only, and old and new formats are read."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tidegate
from tidegate import errors
from tidegate.ledger.checkpoints import CheckpointStore, checkpoints
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.positions import MySqlCheckpoint, NumberedCheckpoint, PartsCheckpoint, PostgresCheckpoint
from tidegate.ledger.records import Record, RecordBroken


@pytest.fixture
def store() -> CheckpointStore:
    return CheckpointStore(MemoryStore())


def test_as_the_seed_has_it(tmp_path: Path) -> None:
    """A typed value is put and found again, by another process for all it knows."""
    there = f"sqlite:///{tmp_path}/progress.db"
    with tidegate.checkpoints(there) as store:
        assert store.put("pipeline-1", MySqlCheckpoint(file="binlog.000042", pos=12345, gtid_set=None)) == 1
    with checkpoints(there) as store:
        assert store.get("pipeline-1", MySqlCheckpoint) == MySqlCheckpoint(file="binlog.000042", pos=12345)
        assert store.get("pipeline-2", MySqlCheckpoint) is None
        assert store.list() == ["pipeline-1"]
        [info] = store.versions("pipeline-1")
        assert (info.version, info.size_bytes > 40) == (1, True)
        assert store.delete("pipeline-1") is True
        assert store.list() == []


@pytest.mark.parametrize(
    "value",
    [
        NumberedCheckpoint(number=7),
        PartsCheckpoint(parts={"0": 5, "eu": 0}),
        PostgresCheckpoint(lsn="16/B374D848", system_id="7", timeline=2),
        MySqlCheckpoint(file="b.1", pos=4, gtid_set="u:1-5"),
    ],
)
def test_every_kind_comes_back_as_it_was(store: CheckpointStore, value: Record) -> None:
    """And as nothing else."""
    store.put("a", value)
    assert store.get("a", type(value)) == value
    other = NumberedCheckpoint if isinstance(value, MySqlCheckpoint) else MySqlCheckpoint
    with pytest.raises(errors.LedgerError, match=f"not {other.KIND}"):
        store.get("a", other)


def test_a_position_only_moves_forward(store: CheckpointStore) -> None:
    """One that is older, or cannot be compared, is refused; an equal one is kept again; a rollback goes back."""
    store.put("a", MySqlCheckpoint(file="binlog.000042", pos=100))
    store.put("a", MySqlCheckpoint(file="binlog.000043", pos=4))
    store.put("a", MySqlCheckpoint(file="binlog.000043", pos=4))
    for older, why in (("binlog.000042", "before"), ("mysql-bin.000050", "two logs")):
        with pytest.raises(errors.PositionBackwards, match=why):
            store.put("a", MySqlCheckpoint(file=older, pos=4))
    assert store.rollback("a", 1) == 4
    assert store.get("a", MySqlCheckpoint) == MySqlCheckpoint(file="binlog.000042", pos=100)
    assert store.get_version("a", 2, MySqlCheckpoint) == MySqlCheckpoint(file="binlog.000043", pos=4)
    assert store.get_version("a", 9, MySqlCheckpoint) is None


def test_of_two_that_write_together_the_later_position_stays(store: CheckpointStore) -> None:
    """Each put is judged against what is there when it wins."""

    def write(offset: int) -> None:
        for number in range(offset, 60, 2):
            try:
                store.put("a", NumberedCheckpoint(number=number))
            except errors.PositionBackwards:
                continue

    threads = [threading.Thread(target=write, args=(offset,)) for offset in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.get("a", NumberedCheckpoint)
    assert found is not None
    assert found.number == 59


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(Record):
    """A record that had another shape once."""

    KIND: ClassVar[str] = "moved"
    FORMAT: ClassVar[int] = 3

    places: tuple[str, ...]

    @classmethod
    def upgraded(cls, told: dict[str, Any], format: int) -> dict[str, Any]:
        if format == 1:
            return {"place": told.pop("where"), **told}
        return {"places": [told.pop("place")], **told}


def test_old_formats_are_upgraded_step_by_step() -> None:
    """Whatever wrote them."""
    for read in (
        {"kind": "moved", "format": 1, "where": "here"},
        {"kind": "moved", "format": 2, "place": "here"},
        {"kind": "moved", "format": 3, "places": ["here"]},
    ):
        assert Moved.from_json(read) == Moved(places=("here",))


def test_what_a_newer_tidegate_added_survives_a_round_trip() -> None:
    """Also through an upgrade, and it changes nothing that is known here."""
    for number, told in ((1, {"where": "here"}), (3, {"places": ["here"]})):
        record = Moved.from_json({"kind": "moved", "format": number, **told, "colour": "red"})
        assert record.to_json() == {"kind": "moved", "format": 3, "places": ("here",), "colour": "red"}
        assert "colour" in json.dumps(record.to_json())


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ({"kind": "moved", "format": 4, "places": []}, "format 4"),
        ({"kind": "moved", "places": []}, "format None"),
        ({"kind": "other", "format": 1}, "other"),
        ({}, "something else"),
        ({"kind": "moved", "format": 3}, "places"),
    ],
)
def test_what_cannot_be_read_is_told(read: dict[str, Any], why: str) -> None:
    """A newer format, another kind, a field that is missing."""
    with pytest.raises(RecordBroken, match=why):
        Moved.from_json(read)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff"])
def test_a_body_of_something_else_is_told(store: CheckpointStore, body: bytes) -> None:
    """Its key and version are named."""
    store.store.put("checkpoints/a", body)
    with pytest.raises(errors.LedgerError, match="version 1 of checkpoints/a"):
        store.get("a", NumberedCheckpoint)
