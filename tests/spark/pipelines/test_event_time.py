"""Event time in whole runs: what is late, what moves the watermark, and what does neither."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines.shop import LAKE, Shop, landing
from tidegate import errors
from tidegate.pipelines.declare import Late
from tidegate.sinks.contract import Delivery
from tidegate.sinks.specs import ParquetSinkSpec

pytestmark = pytest.mark.spark


def at(minute: int, id: int) -> dict[str, object]:
    return {"id": id, "at": f"2026-03-01T12:{minute:02d}:00Z"}


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(tmp_path, landing())


@pytest.mark.parametrize(
    ("late", "ids", "aside"), [(Late.KEEP, [1, 2, 3, 4], []), (Late.DROP, [1, 3, 4], []), (Late.SIDE, [1, 3, 4], [2])]
)
def test_a_late_row_is_counted_and_kept_dropped_or_set_aside(
    shop: Shop, late: Late, ids: list[int], aside: list[int]
) -> None:
    """Late is below the watermark of the plan; a row without a time is never late."""
    shop.land("a", at(10, 1))
    shop.run(late=late)
    shop.land("b", at(9, 2), at(10, 3), {"id": 4, "at": None})
    shop.run(late=late)
    assert (shop.ids(), shop.document.late_rows) == (ids, 1)
    assert shop.ids("__late") == aside


def test_the_late_rows_of_a_checkpoint_become_visible_with_it(shop: Shop) -> None:
    """Delivered, and held back with the checkpoint that its sink refuses."""
    shop.land("a", at(10, 1))
    shop.run(late=Late.SIDE)
    shop.land("b", at(9, 2), at(11, 3))
    unshown = {
        "lake": lambda call, delivery: errors.SinkUnavailable(sink="lake", what="down") if call == "publish" else None
    }
    shop.run(late=Late.SIDE, fail=unshown)
    assert (shop.ids(), shop.ids("__late"), shop.watermark) == ([1], [], "2026-03-01T12:09:59.999999Z")
    shop.run(late=Late.SIDE)
    assert (shop.ids(), shop.ids("__late"), shop.watermark) == ([1, 3], [2], "2026-03-01T12:10:59.999999Z")


def test_a_sink_that_catches_up_judges_lateness_as_the_first_try_did(shop: Shop) -> None:
    """The threshold is the plan's: what was in time then is in time for whoever comes later."""
    files = ParquetSinkSpec(name="files", path="out", required=False)
    down = {"files": lambda call, delivery: errors.SinkUnavailable(sink="files", what="down")}
    for name, row in (("a", at(0, 1)), ("b", at(30, 2)), ("c", at(29, 3))):
        shop.land(name, row)
        shop.run(LAKE, files, late=Late.DROP, fail=down)
    assert (shop.ids(), shop.document.late_rows) == ([1, 2], 1)
    shop.run(LAKE, files, late=Late.DROP)
    assert (shop.ids("files"), shop.document.late_rows) == ([1, 2], 1)


def test_a_checkpoint_whose_rows_are_all_filtered_away_moves_the_watermark(shop: Shop) -> None:
    """Event time is taken from the source's rows."""
    shop.land("a", at(10, 1))
    shop.run(transform=lambda df: df.where("id > 5"))
    assert (shop.ids(), shop.watermark) == ([], "2026-03-01T12:09:59.999999Z")


def test_rows_without_a_time_move_nothing(shop: Shop) -> None:
    shop.land("a", {"id": 1, "at": None}, {"id": 2})
    shop.run()
    assert (shop.ids(), shop.watermark, shop.document.marks.end) == ([1, 2], None, 1)


def test_a_clock_that_is_ahead_moves_nothing(shop: Shop) -> None:
    """A row of the future is kept and counted; it would make all others late."""
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    shop.land("a", at(10, 1), {"id": 2, "at": ahead})
    shop.run()
    assert (shop.ids(), shop.watermark, shop.document.skewed_rows) == ([1, 2], "2026-03-01T12:09:59.999999Z", 1)


def test_the_watermark_waits_for_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    """Checkpoint 1 was delivered and 0 was not: nothing is complete."""
    shop = Shop(tmp_path, landing())

    def refuses_the_first(call: str, delivery: Delivery | None) -> Exception | None:
        first = call == "deliver" and delivery is not None and 0 in delivery.range
        return errors.SinkRejected(sink="lake", what="no") if first else None

    shop.land("a", at(10, 1))
    shop.run(fail={"lake": refuses_the_first})
    shop.land("b", at(20, 2))
    assert shop.run(fail={"lake": refuses_the_first}).has_failed
    assert (shop.ids(), shop.watermark, shop.document.committed.pairs()) == ([], None, [[1, 2]])
    shop.run()
    assert (shop.ids(), shop.watermark) == ([1, 2], "2026-03-01T12:19:59.999999Z")


def test_a_part_that_was_idle_wakes_with_its_next_row(spark: SparkSession, tmp_path: Path) -> None:
    """From its next row on it holds the watermark again."""
    shop = Shop(tmp_path, landing(idle_timeout_us=3_600_000_000))
    silent_for_long = landing(idle_timeout_us=1)

    def is_idle() -> bool:
        assert shop.document.tracker is not None
        return shop.document.tracker.parts["0"].idle

    shop.land("a", at(10, 1))
    shop.run()
    shop.source = silent_for_long
    shop.run()
    shop.run()
    assert is_idle()
    shop.source = landing(idle_timeout_us=3_600_000_000)
    shop.land("b", at(11, 2))
    shop.run()
    assert not is_idle()
    assert shop.watermark == "2026-03-01T12:10:59.999999Z"
