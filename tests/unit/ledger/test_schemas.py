"""Schemas by version, position and time; rules of compatibility; and going back together with a checkpoint."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from obstore.store import MemoryStore as Bucket

from tidegate import errors
from tidegate.ledger.checkpoints import CheckpointStore
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.ledger.positions import MySqlCheckpoint, NumberedCheckpoint
from tidegate.ledger.schemas import Column, Rule, Schema, SchemaRegistry, refusals
from tidegate.testing.clock import ManualClock


def schema(*columns: str, key: tuple[str, ...] = ()) -> Schema:
    """Columns as `name type`, with `!` behind those that are not null and `=` behind those with a default."""
    made = []
    for column in columns:
        name, _, kind = column.rstrip("!=").partition(" ")
        made.append(Column(name=name, type=kind, nullable="!" not in column, has_default="=" in column))
    return Schema(columns=tuple(made), primary_key=key)


A = schema("id bigint!", "total double", key=("id",))
B = schema("id bigint!", "total double", "city string", key=("id",))


def at(number: int) -> NumberedCheckpoint:
    return NumberedCheckpoint(number=number)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "objects"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Store:
    if request.param == "memory":
        return MemoryStore(clock)
    return ObjectStoreLedger("test://bucket", clock, bucket=Bucket())


@pytest.fixture
def registry(store: Store) -> SchemaRegistry:
    return SchemaRegistry(store)


def test_the_same_schema_is_one_version_and_one_that_came_back_is_a_new_one(registry: SchemaRegistry) -> None:
    """A, A, B, A: three entries, and the newest is A's second."""
    made = [registry.register("shop", "orders", one, position=at(n)).version for n, one in enumerate((A, A, B, A))]
    assert made == [1, 1, 2, 3]
    entries = registry.versions("shop", "orders")
    assert [entry.schema for entry in entries] == [A, B, A]
    assert entries[0].fingerprint == entries[2].fingerprint != entries[1].fingerprint
    assert registry.latest("shop", "orders") == entries[2]
    assert registry.tables("shop") == ["orders"]


def test_a_schema_is_found_by_version_position_and_time(registry: SchemaRegistry, clock: ManualClock) -> None:
    """What was valid then, and nothing before the first one."""
    began = clock.now()
    for position, one in ((10, A), (20, B), (30, A)):
        clock.advance(60_000_000)
        registry.register("shop", "orders", one, position=at(position))
    by_position = {n: registry.at_position("shop", "orders", at(n)) for n in (9, 10, 19, 20, 29, 30, 99)}
    assert {n: e and e.version for n, e in by_position.items()} == {9: None, 10: 1, 19: 1, 20: 2, 29: 2, 30: 3, 99: 3}
    by_time = [registry.at_time("shop", "orders", began + timedelta(seconds=s)) for s in (59, 60, 120, 179, 999)]
    assert [entry and entry.version for entry in by_time] == [None, 1, 2, 2, 3]
    found = registry.version("shop", "orders", 2)
    assert found is not None
    assert (found.schema, found.position) == (B, at(20))
    assert registry.version("shop", "orders", 9) is None
    assert registry.latest("shop", "lines") is None


def test_a_position_without_an_order_finds_nothing_and_says_why(registry: SchemaRegistry) -> None:
    """After a failover to a server with another log nobody can say."""
    registry.register("shop", "orders", A, position=MySqlCheckpoint(file="binlog.1", pos=4))
    with pytest.raises(errors.LedgerError, match="two logs"):
        registry.at_position("shop", "orders", MySqlCheckpoint(file="other.9", pos=4))


def test_the_schemas_go_back_together_with_the_checkpoint(store: Store, registry: SchemaRegistry) -> None:
    """What was first seen after it is gone, of every table of the source; its number is not given again."""
    checkpoints = CheckpointStore(store)
    for number, (orders, lines) in enumerate(((A, A), (B, A), (A, B)), start=1):
        registry.register("shop", "orders", orders, position=at(number * 10))
        registry.register("shop", "lines", lines, position=at(number * 10))
        registry.register("else", "orders", orders, position=at(number * 10))
        checkpoints.put("reader", at(number * 10))
    assert registry.roll_back("shop", checkpoints, "reader", 2) == 4
    assert checkpoints.get("reader", NumberedCheckpoint) == at(20)
    assert [entry.schema for entry in registry.versions("shop", "orders")] == [A, B]
    assert [entry.schema for entry in registry.versions("shop", "lines")] == [A]
    assert [entry.schema for entry in registry.versions("else", "orders")] == [A, B, A]
    assert registry.register("shop", "orders", A, position=at(25)).version == 4
    with pytest.raises(errors.LedgerError, match="not kept"):
        registry.roll_back("shop", checkpoints, "reader", 99)


def test_registered_by_many_at_once_a_schema_is_one_version(registry: SchemaRegistry) -> None:
    """And each of them learns the same one."""
    made: list[int] = []
    barrier = threading.Barrier(8)

    def register() -> None:
        barrier.wait()
        made.append(registry.register("shop", "orders", A, position=at(1)).version)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1] * 8
    assert len(registry.versions("shop", "orders")) == 1


OLD = schema("id bigint!", "n int", "must int!", "set int!=")
CHANGES = {
    "nothing": (OLD, "full"),
    "a column that may be null comes": (schema("id bigint!", "n int", "must int!", "set int!=", "new int"), "full"),
    "a column with a default comes": (schema("id bigint!", "n int", "must int!", "set int!=", "new int!="), "full"),
    "a column that must be there comes": (schema("id bigint!", "n int", "must int!", "set int!=", "x int!"), "forward"),
    "a column that may be null goes": (schema("id bigint!", "must int!", "set int!="), "full"),
    "a column that must be there goes": (schema("id bigint!", "n int", "set int!="), "backward"),
    "a type grows": (schema("id bigint!", "n bigint", "must int!", "set int!="), "backward"),
    "a type shrinks": (schema("id bigint!", "n smallint", "must int!", "set int!="), "forward"),
    "a type becomes another": (schema("id bigint!", "n string", "must int!", "set int!="), "none"),
    "null is allowed": (schema("id bigint!", "n int", "must int", "set int!="), "backward"),
    "null is forbidden": (schema("id bigint!", "n int!", "must int!", "set int!="), "forward"),
    "the key changes": (schema("id bigint!", "n int", "must int!", "set int!=", key=("id",)), "none"),
}


@pytest.mark.parametrize(("new", "allowed"), CHANGES.values(), ids=CHANGES)
def test_what_each_rule_allows(new: Schema, allowed: str) -> None:
    """By example; `full` is both, and `none` allows all."""
    by_rule = {rule: not refusals(rule, OLD, new) for rule in Rule}
    assert by_rule[Rule.NONE]
    assert by_rule[Rule.BACKWARD] == (allowed in ("backward", "full"))
    assert by_rule[Rule.FORWARD] == (allowed in ("forward", "full"))
    assert by_rule[Rule.FULL] == (allowed == "full")


def test_a_refusal_names_the_column_and_nothing_is_registered(registry: SchemaRegistry) -> None:
    """The rule stays until another is given."""
    registry.register("shop", "orders", A, rule=Rule.BACKWARD)
    narrow = schema("id bigint!", "total float", "must int!", key=("id",))
    with pytest.raises(errors.Incompatible) as refused:
        registry.register("shop", "orders", narrow)
    assert "must" in refused.value.message
    assert "total was double, which cannot be read as float" in refused.value.message
    assert len(registry.versions("shop", "orders")) == 1
    assert registry.register("shop", "orders", narrow, rule=Rule.NONE).version == 2


@pytest.mark.parametrize("columns", [(), ("a int", "a int")])
def test_what_is_no_schema_is_refused(columns: tuple[str, ...]) -> None:
    """At its birth; a key of columns that are not there, too."""
    with pytest.raises(ValueError, match="make no schema"):
        schema(*columns)
    with pytest.raises(ValueError, match="make no schema"):
        schema("a int", key=("b",))
