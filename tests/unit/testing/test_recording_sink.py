"""The recording sink keeps the contract of sinks, so that what is tested against it is tested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import pytest

from tidegate import errors
from tidegate.progress.ranges import Range
from tidegate.sinks.contract import Delivery, Ownership, Publication
from tidegate.testing.sink_contract import SinkContract
from tidegate.testing.sinks import Place, RecordingSink, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWNER = Ownership(pipeline="orders", epoch=1, token=1)


class TestRecordingSink(SinkContract):
    @pytest.fixture(autouse=True)
    def place(self) -> None:
        self.shelf = Place()

    def make(self) -> RecordingSink:
        return RecordingSink(self.shelf)

    def visible_ids(self) -> Iterable[int]:
        return [row["id"] for row in self.shelf.visible()]


def test_it_fails_as_it_is_told_and_remembers_the_calls() -> None:
    down = errors.SinkUnavailable(sink="recording", what="down")
    sink = RecordingSink(fail=lambda call, delivery: down if call == "deliver" and delivery.attempt == 0 else None)
    sink.open(OWNER)
    batch = Delivery(owner=OWNER, range=Range(1, 2), attempt=0)
    with pytest.raises(errors.SinkUnavailable):
        sink.deliver(cast("DataFrame", Rows([{"id": 1}])), batch)
    again = Delivery(owner=OWNER, range=Range(1, 2), attempt=1)
    receipt = sink.deliver(cast("DataFrame", Rows([{"id": 1}])), again)
    sink.publish([receipt], Publication(end=2))
    assert sink.calls == ["open", "deliver", "deliver", "publish"]
    assert sink.place.visible() == [{"id": 1}]
