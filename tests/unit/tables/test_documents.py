"""What the ledger remembers of a table, and what it keeps from being deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.ledger.memory import MemoryStore
from tidegate.tables import documents
from tidegate.tables.documents import MAX_HISTORY, Happening, Row, TableDocument
from tidegate.tables.graph import Reference
from tidegate.testing.clock import ManualClock


def row(happening: Happening, at_us: int = 1, **more: object) -> Row:
    return Row(happening=happening, at_us=at_us, until_us=at_us, **more)  # type: ignore[arg-type]


def document(table: str = "t", *, needs_all: bool = False, **needed: Mapping[str, int]) -> TableDocument:
    return TableDocument(table=table, needs_all=needs_all, **needed)  # type: ignore[arg-type]


def test_a_document_comes_back_as_it_was() -> None:
    """With what a later version may have added."""
    full = TableDocument(
        table="t",
        definition="d",
        references=(Reference(name="orders", line=3),),
        mode="gate",
        needs_all=True,
        token=7,
        frontier={"orders": 3},
        reading={"orders": 4},
        kept_from={"orders": 1},
        gone={"fx": 2},
        readable_from=5,
        history=(
            row(Happening.REFRESHED, version=3, rows=9, how="full", took_us=5),
            row(Happening.WAITED, blocked_by=("a",)),
        ),
        extra={"later": [1]},
    )
    assert TableDocument.from_body(full.to_body()) == full
    older = full.to_body().replace(b'"kept_from":{"orders":1},', b"")
    assert TableDocument.from_body(older) == replace(full, kept_from={})


def test_waiting_for_the_same_is_one_row_with_a_count() -> None:
    """Its reason may have changed in its numbers; who is in the way has not."""
    told = document()
    for at_us in (1, 2, 3):
        told = told.told(row(Happening.WAITED, at_us, reason=f"{at_us}m behind", blocked_by=("lines",)))
    [one] = told.history
    assert (one.at_us, one.until_us, one.count, one.reason) == (1, 3, 3, "3m behind")
    told = told.told(row(Happening.WAITED, 4, blocked_by=("orders",)))
    assert [one.count for one in told.history] == [3, 1]


def test_refreshes_are_never_joined() -> None:
    told = document().told(row(Happening.REFRESHED)).told(row(Happening.REFRESHED))
    assert [one.count for one in told.history] == [1, 1]


def test_history_is_bounded_and_the_newest_stays() -> None:
    told = document()
    for version in range(MAX_HISTORY + 5):
        told = told.told(row(Happening.REFRESHED, version=version))
    assert len(told.history) == MAX_HISTORY
    assert told.last_refresh is not None
    assert told.last_refresh.version == MAX_HISTORY + 4


def test_a_failure_stays_until_a_refresh_mends_it() -> None:
    """Waiting does not mend it."""
    failed = document().told(row(Happening.REFRESHED)).told(row(Happening.FAILED, reason="no"))
    assert failed.failure is not None
    waiting = failed.told(row(Happening.WAITED))
    assert waiting.failure == failed.failure
    assert waiting.told(row(Happening.FORCED)).failure is None
    assert waiting.last_refresh is not None


def test_a_pin_is_the_oldest_version_that_anybody_needs() -> None:
    store = MemoryStore(ManualClock())
    for one in (
        document("a", frontier={"orders": 7, "lines": 3}),
        document("b", frontier={"orders": 9}, reading={"orders": 5}),
        document("c", kept_from={"lines": 1}),
    ):
        store.put(documents.state_key(one.table), one.to_body(), expect=None)
    assert documents.pins(store) == {"orders": 5, "lines": 1}
    assert documents.pins(store, frozenset({"a"})) == {"orders": 7, "lines": 3}


def test_of_a_table_only_those_need_old_versions_who_may_read_them() -> None:
    """Who reads the newest needs what it reads right now; who is held back, all from its frontier on."""
    newest = document("a", frontier={"sums": 1}, reading={"sums": 6})
    assert documents.needed_from([newest], "sums") == 6
    held_back = document("b", needs_all=True, frontier={"sums": 4})
    assert documents.needed_from([newest, held_back], "sums") == 4
    never_refreshed = document("c", needs_all=True, kept_from={"sums": 2})
    assert documents.needed_from([newest, held_back, never_refreshed], "sums") == 2
    assert documents.needed_from([newest], "others") is None
