"""Races in a chosen order: all orders are played, each can be had again, and a lost update is found."""

from __future__ import annotations

import pytest

from tidegate import errors
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.testing.interleaving import Order, explore, sample


def careless(store: Store) -> None:
    """Adds one, whatever has happened since it read."""
    found = store.get("n")
    value = 0 if found is None else int(found.body)
    newest = store.get("n")
    store.put("n", str(value + 1).encode(), expect=None if newest is None else newest.version)


def careful(store: Store) -> None:
    """Adds one to what it has read, or reads again."""
    while True:
        found = store.get("n")
        value, version = (0, None) if found is None else (int(found.body), found.version)
        try:
            store.put("n", str(value + 1).encode(), expect=version)
        except errors.VersionConflict:
            continue
        return


def count(store: Store) -> int:
    found = store.get("n")
    return 0 if found is None else int(found.body)


def test_an_update_that_can_be_lost_is_lost_in_some_order_and_told_in_which() -> None:
    """Two careless writers; the order in the error has them both."""

    def scenario(order: Order) -> None:
        store = MemoryStore()
        watched = order.watched(store)
        order.run(a=lambda: careless(watched), b=lambda: careless(watched))
        assert count(store) == 2

    with pytest.raises(AssertionError) as lost:
        explore(scenario)
    [note] = lost.value.__notes__
    order = note.removeprefix("in the order: ").split()
    assert (order.count("a"), order.count("b")) == (4, 4)
    with pytest.raises(AssertionError):
        sample(scenario, range(40))


def test_an_update_by_compare_and_swap_is_lost_in_none() -> None:
    """Whoever lost the race reads again, in every order of two and in a hundred of three."""

    def two(order: Order) -> None:
        store = MemoryStore()
        watched = order.watched(store)
        ended = order.run(a=lambda: careful(watched), b=lambda: careful(watched))
        assert [one.error for one in ended.values()] == [None, None]
        assert count(store) == 2

    def three(order: Order) -> None:
        store = MemoryStore()
        watched = order.watched(store)
        order.run(a=lambda: careful(watched), b=lambda: careful(watched), c=lambda: careful(watched))
        assert count(store) == 3

    assert explore(two) == 20
    sample(three, range(100))


def test_every_order_is_played_once() -> None:
    """Two tasks of two points each: six orders of four steps and what begins and ends them."""
    seen = set()

    def scenario(order: Order) -> None:
        steps: list[str] = []

        def task(name: str) -> None:
            steps.append(name)
            order.point()
            steps.append(name)

        order.run(a=lambda: task("a"), b=lambda: task("b"))
        seen.add("".join(steps))

    assert explore(scenario) == 6
    assert seen == {"aabb", "abab", "abba", "baab", "baba", "bbaa"}
    with pytest.raises(ValueError, match="more than 5 orders"):
        explore(scenario, most=5)


def test_a_task_that_raises_has_that_as_its_outcome_and_the_others_end() -> None:
    """Values are kept too."""

    def fails() -> None:
        raise errors.SinkUnavailable(sink="lake", what="down")

    ended = Order().run(a=fails, b=lambda: 7)
    assert isinstance(ended["a"].error, errors.SinkUnavailable)
    assert ended["b"].value == 7


def test_the_same_seed_is_the_same_order() -> None:
    """And outside of a task a point is nothing."""

    def names(seed: int) -> list[str]:
        order = Order(seed=seed)
        order.point()
        order.run(a=lambda: [order.point() for _ in range(5)], b=lambda: [order.point() for _ in range(5)])
        return order.names

    assert names(3) == names(3)
    assert len({tuple(names(seed)) for seed in range(10)}) > 1
