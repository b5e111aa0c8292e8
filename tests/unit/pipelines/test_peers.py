"""A source waits for those that the ledger shows too far behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.pipelines.builders import document_of, minute
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.pipelines.documents import state_key
from tidegate.pipelines.peers import drift_now
from tidegate.progress.drift import Drift, bounds_of
from tidegate.progress.groups import Group
from tidegate.progress.partition_state import PartState, TrackerState
from tidegate.progress.watermarks import ValueKind
from tidegate.sources import advances
from tidegate.sources.specs import EventTime, ExternalSpec, GeneratorSpec, SourceSpec, WatermarkKind

MINUTE_US = 60_000_000
GROUP = Group(name="shop", sources=("orders", "lines", "rates"), max_drift=10 * MINUTE_US)
SOURCES: dict[str, SourceSpec] = {
    name: GeneratorSpec(
        name=name,
        watermark=WatermarkKind.EVENT_TIME,
        event_time=EventTime(column="at"),
        rows_per_checkpoint=1,
        checkpoints=1,
    )
    for name in ("orders", "lines")
} | {
    "rates": ExternalSpec(name="rates", watermark=WatermarkKind.TIMESTAMP, table="rates"),
}
READERS = {"orders": ["orders"], "lines": ["lines", "lines_again"]}


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def publish(store: Store, pipeline: str, value: int | None, *, idle: bool = False) -> None:
    """The pipeline has published its source through so many minutes after noon."""
    tracker = TrackerState(parts={"0": PartState(idle=idle)}, combined_us=None)
    document = replace(document_of(), pipeline=pipeline, tracker=tracker)
    document = replace(document, watermark=None if value is None else minute(value))
    store.put(state_key(pipeline), document.to_body())


def say(store: Store, value: int) -> None:
    advances.advance(store, "rates", ValueKind.TIMESTAMP, minute(value), by="etl")


def orders(store: Store) -> Drift:
    return drift_now(store, "orders", bounds_of([GROUP]), SOURCES, READERS)


@pytest.mark.parametrize(
    ("lines", "again", "rates", "waits_for"),
    [
        (20, 20, 20, ()),
        (19, 20, 20, ("lines",)),
        (20, 19, 20, ("lines",)),
        (20, 20, 19, ("rates",)),
        (20, None, 20, ("lines",)),
    ],
    ids=["at the bound", "beyond it", "the slowest pipeline counts", "what a loader said", "one shows nothing yet"],
)
def test_it_waits_for_whoever_is_more_than_the_drift_behind(
    store: Store, lines: int, again: int | None, rates: int, waits_for: tuple[str, ...]
) -> None:
    """A source has come as far as all pipelines over it have published; one without any as far as was said."""
    publish(store, "orders", 30)
    publish(store, "lines", lines)
    publish(store, "lines_again", again)
    say(store, rates)
    assert orders(store).waits_for == waits_for


def test_it_does_not_wait_for_the_idle(store: Store) -> None:
    """Once all pipelines over them know it."""
    publish(store, "orders", 30)
    say(store, 30)
    publish(store, "lines", 0, idle=True)
    assert orders(store).waits_for == ("lines",)
    publish(store, "lines_again", 0, idle=True)
    assert not orders(store).is_throttled


def test_without_a_bound_nobody_waits(store: Store) -> None:
    publish(store, "orders", 30)
    unbound = bounds_of([replace(GROUP, max_drift=None)])
    assert not drift_now(store, "orders", unbound, SOURCES, READERS).is_throttled
