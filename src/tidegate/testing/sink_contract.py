"""The contract of a sink as a suite of tests. Whoever writes a sink subclasses it.

    class TestMySink(SinkContract):
        def make(self): return MySink(...)                # a new object over the same place each time
        def visible_ids(self): return [...]               # what a reader sees there, with repeats
        def frame(self, rows): return spark.createDataFrame(rows, SCHEMA)

The rows are `{"id": int, "checkpoint": int}`. One place a test: make it in a fixture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from tidegate import errors
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.sinks.contract import Delivery, Ownership, Publication, Receipt, Sink
from tidegate.testing.sinks import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA: Final = "id BIGINT, checkpoint BIGINT"
ROWS: Final = 3
FAR_FUTURE_US: Final = 2**53


def ids_of(*numbers: int) -> list[int]:
    """The ids of these checkpoints."""
    return [number * 100 + at for number in numbers for at in range(ROWS)]


def rows_of(*numbers: int) -> list[dict[str, Any]]:
    """The rows of these checkpoints."""
    return [{"id": number * 100 + at, "checkpoint": number} for number in numbers for at in range(ROWS)]


class SinkContract(ABC):
    """What every sink that can publish must do."""

    owner = Ownership(pipeline="orders", epoch=1, token=1)

    @abstractmethod
    def make(self) -> Sink:
        """A new sink over this test's place."""

    @abstractmethod
    def visible_ids(self) -> Iterable[int]:
        """The ids that a reader sees, each as often as it is seen."""

    def frame(self, rows: Sequence[dict[str, Any]]) -> DataFrame:
        """The rows as what the sink takes."""
        return cast("DataFrame", Rows(rows))

    def opened(self, *, token: int = 1) -> Sink:
        """A new sink that has taken over."""
        sink = self.make()
        sink.open(self.owner_of(token))
        return sink

    def owner_of(self, token: int) -> Ownership:
        return Ownership(pipeline=self.owner.pipeline, epoch=self.owner.epoch, token=token)

    def deliver(self, sink: Sink, first: int, last: int, *, token: int = 1, attempt: int = 0) -> Receipt:
        """Deliver the checkpoints from first to last, inclusive."""
        delivery = self.delivery(first, last, token=token, attempt=attempt)
        return sink.deliver(self.frame(rows_of(*delivery.range)), delivery)

    def delivery(self, first: int, last: int, *, token: int = 1, attempt: int = 0) -> Delivery:
        """One try for the checkpoints from first to last, inclusive."""
        batch = Range.of_inclusive(first, last)
        return Delivery(owner=self.owner_of(token), range=batch, attempt=attempt)

    def publication(self, end: int) -> Publication:
        return Publication(end=end, vector=Vector({"orders": Watermark.of_integer(end - 1)}))

    def published(self, sink: Sink, *batches: tuple[int, int]) -> None:
        """Deliver and publish these batches, each on its own."""
        for first, last in batches:
            sink.publish([self.deliver(sink, first, last)], self.publication(last + 1))

    def test_an_empty_place_has_published_nothing(self) -> None:
        state = self.make().open(self.owner)
        assert (state.end, state.epoch, state.token) == (None, 1, 1)
        assert list(self.visible_ids()) == []

    def test_a_receipt_tells_the_delivery_and_its_rows(self) -> None:
        receipt = self.deliver(self.opened(), 1, 2)
        assert (receipt.range, receipt.rows) == (Range(1, 3), 2 * ROWS)

    def test_what_is_delivered_is_not_seen_before_it_is_published(self) -> None:
        sink = self.opened()
        receipt = self.deliver(sink, 1, 1)
        assert list(self.visible_ids()) == []
        state = sink.publish([receipt], self.publication(2))
        assert state.end == 2
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_a_publication_says_how_complete_it_is(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 3))
        assert sink.state().vector == self.publication(4).vector
        assert self.make().open(self.owner_of(2)).vector == self.publication(4).vector

    def test_batches_that_were_delivered_in_another_order_are_published_together(self) -> None:
        sink = self.opened()
        later, earlier = self.deliver(sink, 3, 3), self.deliver(sink, 1, 2)
        sink.publish([earlier, later], self.publication(4))
        assert sorted(self.visible_ids()) == ids_of(1, 2, 3)
        assert [extent.range for extent in sink.extents()] == [Range(1, 3), Range(3, 4)]

    def test_publishing_again_changes_nothing(self) -> None:
        sink = self.opened()
        receipt = self.deliver(sink, 1, 1)
        once = sink.publish([receipt], self.publication(2))
        assert sink.publish([receipt], self.publication(2)) == once
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_publishing_again_after_a_restart_changes_nothing(self) -> None:
        sink = self.opened()
        receipt = self.deliver(sink, 1, 1)
        sink.publish([receipt], self.publication(2))
        restarted = self.opened(token=2)
        restarted.publish([receipt], self.publication(2))
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_a_restart_publishes_what_the_one_before_delivered(self) -> None:
        receipt = self.deliver(self.opened(), 1, 2)
        restarted = self.opened(token=2)
        restarted.publish([receipt], self.publication(3))
        assert sorted(self.visible_ids()) == ids_of(1, 2)

    def test_a_second_attempt_does_not_double_the_rows(self) -> None:
        sink = self.opened()
        self.deliver(sink, 1, 1, attempt=0)
        receipt = self.deliver(sink, 1, 1, attempt=1)
        sink.publish([receipt], self.publication(2))
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_without_receipts_only_the_claim_moves(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1))
        state = sink.publish([], self.publication(3))
        assert (state.end, state.vector) == (3, self.publication(3).vector)
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_an_empty_batch_is_published_like_any_other(self) -> None:
        sink = self.opened()
        empty = sink.deliver(self.frame([]), Delivery(owner=self.owner, range=Range(1, 2), attempt=0))
        assert empty.rows == 0
        assert sink.publish([empty], self.publication(2)).end == 2
        assert list(self.visible_ids()) == []

    def test_opening_tells_what_is_published(self) -> None:
        self.published(self.opened(), (1, 2), (3, 3))
        state = self.make().open(self.owner_of(2))
        assert (state.end, state.token) == (4, 2)
        assert sorted(self.visible_ids()) == ids_of(1, 2, 3)

    def test_opening_again_is_the_same(self) -> None:
        self.published(self.opened(), (1, 2))
        self.opened(token=2)
        assert self.make().open(self.owner_of(2)).end == 3

    def test_who_was_taken_over_cannot_publish(self) -> None:
        zombie = self.opened()
        receipt = self.deliver(zombie, 1, 1)
        other = self.opened(token=2)
        with pytest.raises(errors.StaleWriter):
            zombie.publish([receipt], self.publication(2))
        assert list(self.visible_ids()) == []
        other.publish([self.deliver(other, 1, 1, token=2)], self.publication(2))
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_who_was_taken_over_cannot_prune(self) -> None:
        zombie = self.opened()
        self.published(zombie, (1, 1), (2, 2))
        self.opened(token=2)
        with pytest.raises(errors.StaleWriter):
            zombie.prune(2)
        assert sorted(self.visible_ids()) == ids_of(1, 2)

    def test_a_late_runner_cannot_take_over_from_a_newer_one(self) -> None:
        self.opened(token=5)
        with pytest.raises(errors.StaleWriter):
            self.make().open(self.owner_of(4))

    def test_extents_are_what_is_visible_batch_by_batch(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 2), (3, 3))
        self.deliver(sink, 4, 4)
        assert [(extent.range, extent.rows) for extent in sink.extents()] == [
            (Range(1, 3), 2 * ROWS),
            (Range(3, 4), ROWS),
        ]

    def test_pruning_gives_up_what_is_below(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2), (3, 3))
        assert sink.prune(3).reader_lo == 3
        assert sorted(self.visible_ids()) == ids_of(3)
        assert [extent.range for extent in sink.extents()] == [Range(3, 4)]

    def test_pruning_steps_on_the_edges_of_batches(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 2), (3, 4))
        assert sink.prune(4).reader_lo == 3
        assert sorted(self.visible_ids()) == ids_of(3, 4)

    def test_pruning_again_changes_nothing(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2))
        once = sink.prune(2)
        assert sink.prune(2) == once
        assert sink.prune(1) == once

    def test_what_was_pruned_stays_pruned_when_more_is_published(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2))
        sink.prune(2)
        self.published(sink, (3, 3))
        assert sink.state().reader_lo == 2
        assert self.make().open(self.owner_of(2)).reader_lo == 2
        assert sorted(self.visible_ids()) == ids_of(2, 3)

    def test_deleting_removes_what_was_given_up_and_no_more(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2), (3, 3))
        sink.prune(3)
        assert sink.delete(3).end == 3
        assert sorted(self.visible_ids()) == ids_of(3)

    def test_deleting_again_removes_nothing(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2), (3, 3))
        sink.prune(3)
        first = sink.delete(3)
        again = self.opened(token=2).delete(3)
        assert (again.end, again.files) == (3, 0)
        assert first.files >= 0

    def test_nothing_that_is_visible_is_deleted(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2))
        gone_to = sink.delete(3).end
        assert gone_to is None or gone_to <= 1
        assert sorted(self.visible_ids()) == ids_of(1, 2)

    def test_a_pinned_version_holds_what_its_readers_need(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2))
        pinned = sink.state().version
        if pinned is None:  # a sink without versions has none that a reader could pin
            return
        sink.prune(2)
        held = sink.delete(2, pinned_version=pinned)
        assert (held.files, held.held, held.end) == (0, (Range(1, 2),), 1)
        assert sink.delete(2, pinned_version=sink.state().version).end == 2

    def test_a_sweep_removes_what_dead_attempts_left_and_nothing_else(self) -> None:
        dead = self.opened()
        self.published(dead, (1, 1))
        self.deliver(dead, 2, 2, attempt=0)
        kept = self.deliver(dead, 2, 2, attempt=1)
        sink = self.opened(token=2)
        ours = self.deliver(sink, 3, 3, token=2)
        assert sink.sweep([kept.delivery], older_than_us=0) == 0
        assert sink.sweep([kept.delivery], older_than_us=FAR_FUTURE_US) >= 1
        assert sink.sweep([kept.delivery], older_than_us=FAR_FUTURE_US) == 0
        sink.publish([kept, ours], self.publication(4))
        assert sorted(self.visible_ids()) == ids_of(1, 2, 3)

    def test_a_sweep_leaves_what_was_given_up_to_the_pruner(self) -> None:
        old = self.opened()
        self.published(old, (1, 1), (2, 2))
        old.prune(2)
        sink = self.opened(token=2)
        sink.sweep([], older_than_us=FAR_FUTURE_US)
        assert sink.delete(2).end == 2
        assert sorted(self.visible_ids()) == ids_of(2)
