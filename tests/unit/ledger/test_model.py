"""Stores against a plain model: whatever the operations, the same answers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate import errors
from tidegate.ledger.contract import Delete, Guard, History, Operation, Put, Store
from tidegate.ledger.file import FileStore
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.sqlite import SqliteStore
from tidegate.testing.clock import ManualClock

AGE_US = 1_000
COUNT = 3


@dataclass
class Version:
    number: int
    body: bytes | None
    at_us: int
    keeps: bool
    pinned: bool = False


@dataclass
class Model:
    """All versions of each key that are kept, newest last; written to be read, not to be fast."""

    now_us: int = 0
    keys: dict[str, list[Version]] = field(default_factory=dict)

    def head(self, key: str) -> int | None:
        kept = self.keys.get(key)
        return kept[-1].number if kept and kept[-1].body is not None else None

    def apply(self, operations: list[Operation]) -> list[int] | None:
        before = {key: [Version(**vars(one)) for one in kept] for key, kept in self.keys.items()}
        made = [self.one(operation) for operation in operations]
        if None in made:
            self.keys = before
            return None
        return [version or 0 for version in made]

    def one(self, operation: Operation) -> int | None:
        head = self.head(operation.key)
        is_free = isinstance(operation, Delete) and operation.expect is None
        if not is_free and operation.expect != head:
            return None
        if isinstance(operation, Guard):
            return 0
        if isinstance(operation, Put):
            return self.write(operation.key, operation.body, operation.history)
        if operation.forget:
            self.keys.pop(operation.key, None)
            return 0 if head is None else head + 1
        return 0 if head is None else self.write(operation.key, None, True)

    def write(self, key: str, body: bytes | None, keeps: bool) -> int:
        kept = self.keys.setdefault(key, [])
        number = kept[-1].number + 1 if kept else 1
        archived = bool(kept) and (kept[-1].keeps or kept[-1].pinned)
        if kept and not archived:
            kept.pop()
        if archived:
            loose = [one for one in kept if not one.pinned]
            gone = loose[: max(0, len(loose) - (COUNT - 1))]
            gone += [one for one in loose if one.at_us < self.now_us - AGE_US]
            kept[:] = [one for one in kept if one not in gone]
        kept.append(Version(number, body, self.now_us, keeps))
        return number


KEYS = st.sampled_from(["a", "b"])
EXPECTS = st.sampled_from(["right", None, 1, 2])
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, EXPECTS, st.booleans()),
    st.tuples(st.just("delete"), KEYS, EXPECTS, st.booleans()),
    st.tuples(st.just("guard"), KEYS, EXPECTS, st.just(False)),
)
MOVES = st.one_of(
    st.lists(STEPS, min_size=1, max_size=3),
    STEPS.map(lambda step: [step]),
    st.tuples(st.just("pin"), KEYS, st.integers(1, 6), st.booleans()),
    st.integers(1, AGE_US),
)


def operations_of(steps: list[tuple[str, str, object, bool]], model: Model, serial: int) -> list[Operation]:
    made: list[Operation] = []
    for kind, key, expect, flag in steps:
        expected = model.head(key) if expect == "right" else expect
        assert expected is None or isinstance(expected, int)
        match kind:
            case "put":
                made.append(Put(key=key, body=b"%d" % serial, expect=expected, history=flag))
            case "delete":
                made.append(Delete(key=key, expect=expected, forget=flag))
            case _:
                made.append(Guard(key=key, expect=expected))
    return made


def agree(store: Store, model: Model) -> None:
    for key in ("a", "b"):
        kept = model.keys.get(key, [])
        told = [(info.version, info.deleted, info.pinned) for info in store.versions(key)]
        assert told == [(one.number, one.body is None, one.pinned) for one in kept]
        found = store.get(key)
        assert (None if found is None else found.version) == model.head(key)
        for one in kept:
            there = store.get_version(key, one.number)
            assert (None if there is None else there.body) == one.body
    assert store.list() == [key for key in ("a", "b") if model.head(key) is not None]


HISTORY = History(count=COUNT, age_us=AGE_US)


@example(
    moves=[[("put", "a", "right", keeps)] if keeps is not None else 510 for keeps in (True, None, False, None, False)]
)
@settings(max_examples=80, deadline=None)
@given(moves=st.lists(MOVES, max_size=25))
def test_memory_answers_as_the_model_does(moves: list[object]) -> None:
    """Puts, deletes, guards, transactions, pins and the passing of time, in any order."""
    clock = ManualClock()
    follow(MemoryStore(clock, HISTORY), clock, moves)


@settings(max_examples=30, deadline=None)
@given(moves=st.lists(MOVES, max_size=25))
def test_sqlite_answers_as_the_model_does(moves: list[object]) -> None:
    """The same on a disk."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        follow(SqliteStore(Path(folder) / "ledger.db", clock, HISTORY), clock, moves)


@settings(max_examples=8, deadline=None)
@given(moves=st.lists(MOVES, max_size=25))
def test_files_answer_as_the_model_does(moves: list[object]) -> None:
    """The same in a folder."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        follow(FileStore(Path(folder) / "ledger", clock, HISTORY), clock, moves)


def follow(opened: Store, clock: ManualClock, moves: list[object]) -> None:
    """Make the moves on a store and on the model, and compare them after each."""
    model = Model()
    with opened as store:
        for serial, move in enumerate(moves):
            if isinstance(move, int):
                clock.advance(move)
                model.now_us += move
            elif isinstance(move, list):
                operations = operations_of(move, model, serial)
                try:
                    made = store.transaction(operations)
                except errors.VersionConflict:
                    made = None
                assert made == model.apply(operations)
            else:
                assert isinstance(move, tuple)
                pin(store, model, *move[1:])
            agree(store, model)


def pin(store: Store, model: Model, key: str, number: int, pinned: bool) -> None:
    known = next((one for one in model.keys.get(key, []) if one.number == number), None)
    change = store.pin if pinned else store.unpin
    if known is None:
        with pytest.raises(errors.LedgerError):
            change(key, number)
    else:
        change(key, number)
        known.pinned = pinned
