"""Positions of sources: which is before which, and when there is no order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.ledger.positions import (
    KINDS,
    DeltaCheckpoint,
    MySqlCheckpoint,
    NumberedCheckpoint,
    Order,
    PartsCheckpoint,
    Position,
    PostgresCheckpoint,
)


def mysql(file: str, pos: int, gtid_set: str | None = None) -> MySqlCheckpoint:
    return MySqlCheckpoint(file=file, pos=pos, gtid_set=gtid_set)


def postgres(lsn: str, system_id: str | None = None, timeline: int | None = None) -> PostgresCheckpoint:
    return PostgresCheckpoint(lsn=lsn, system_id=system_id, timeline=timeline)


ASCENDING = [
    (NumberedCheckpoint(number=9), NumberedCheckpoint(number=10)),
    (PartsCheckpoint(parts={"0": 5}), PartsCheckpoint(parts={"0": 5, "1": 1})),
    (PartsCheckpoint(parts={"0": 5, "1": 1}), PartsCheckpoint(parts={"1": 2, "0": 5})),
    (DeltaCheckpoint(table_id="a", version=9), DeltaCheckpoint(table_id="a", version=10)),
    (postgres("0/FFFFFFFF"), postgres("1/0")),
    (postgres("16/B374D848", "7", 1), postgres("16/B374D849", "7", 1)),
    (mysql("binlog.000009", 999), mysql("binlog.000010", 4)),
    (mysql("binlog.999999", 4), mysql("binlog.1000000", 4)),
    (mysql("binlog.000009", 4), mysql("binlog.000009", 5)),
    (mysql("b.3", 9, "u1:1-5"), mysql("a.1", 4, "u1:1-6")),
    (mysql("b.3", 9, "u1:1-5:7"), mysql("b.3", 9, "u1:1-7, U2:1")),
]
UNORDERED = [
    (PartsCheckpoint(parts={"0": 5, "1": 1}), PartsCheckpoint(parts={"0": 4, "1": 2}), "part 0"),
    (DeltaCheckpoint(table_id="a", version=1), DeltaCheckpoint(table_id="b", version=2), "made anew"),
    (postgres("0/1", "7"), postgres("0/2", "8"), "server 7"),
    (postgres("0/1", "7", 1), postgres("0/2", "7", 2), "timeline"),
    (mysql("binlog.1", 4), mysql("mysql-bin.2", 4), "two logs"),
    (mysql("b.1", 4, "u1:1-5"), mysql("b.2", 4, "u1:1-4:6"), "parted"),
    (NumberedCheckpoint(number=1), PartsCheckpoint(parts={}), "numbered"),
]


@pytest.mark.parametrize(("earlier", "later"), ASCENDING)
def test_which_is_before_which(earlier: Position, later: Position) -> None:
    """Both ways round, and each is the same as itself."""
    assert earlier.compare(later).order is Order.BEFORE
    assert later.compare(earlier).order is Order.AFTER
    assert later.compare(later).order is Order.SAME


@pytest.mark.parametrize(("one", "other", "why"), UNORDERED)
def test_where_there_is_no_order_the_reason_is_told(one: Position, other: Position, why: str) -> None:
    """Nobody may take one for the later."""
    for left, right in ((one, other), (other, one)):
        assert left.compare(right).order is Order.NONE
    assert why in one.compare(other).why


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)), min_size=3, max_size=3))
def test_positions_of_parts_are_ordered_as_sets_are(parts: list[dict[str, int]]) -> None:
    """What is before what is before a third is before the third."""
    one, other, third = (PartsCheckpoint(parts=each) for each in parts)
    ordered = {Order.BEFORE, Order.SAME}
    if one.compare(other).order in ordered and other.compare(third).order in ordered:
        assert one.compare(third).order in ordered


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (NumberedCheckpoint, {"number": -1}),
        (NumberedCheckpoint, {"number": True}),
        (PartsCheckpoint, {"parts": {"0": -1}}),
        (PostgresCheckpoint, {"lsn": "16-B3"}),
        (MySqlCheckpoint, {"file": "binlog", "pos": 1}),
        (MySqlCheckpoint, {"file": "binlog.1", "pos": 1.5}),
        (MySqlCheckpoint, {"file": "binlog.1", "pos": 1, "gtid_set": "u1"}),
    ],
)
def test_what_is_no_position_is_refused(kind: type[Position], fields: dict[str, object]) -> None:
    """At its birth."""
    with pytest.raises(ValueError, match=r"."):
        kind(**fields)


def test_every_kind_has_a_name_of_its_own() -> None:
    """Documents are read by it."""
    assert len(KINDS) == 5
