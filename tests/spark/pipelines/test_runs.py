"""Whole runs over real files: what fails, what is split, what is drained, and what is taken up again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom

from tests.spark.pipelines.shop import LAKE, Shop, landing, numbered
from tidegate import errors
from tidegate.pipelines.declare import Batching, PipelineMode
from tidegate.pipelines.documents import ControlDocument, Phase, Wanted, control_key, read_state
from tidegate.sinks.contract import Delivery
from tidegate.sinks.specs import From, ParquetSinkSpec
from tidegate.testing.sinks import Place

pytestmark = pytest.mark.spark

FILES = ParquetSinkSpec(name="files", path="out", required=False)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(tmp_path, numbered())


def fill(shop: Shop, *numbers: int) -> None:
    for number in numbers:
        shop.land(number, {"id": number})


def until(what: str, condition: Callable[[], Any]) -> None:
    waiting = threading.Event()
    for _ in range(2400):
        if condition():
            return
        waiting.wait(0.025)
    raise AssertionError(f"waited in vain: {what}")


def raises_on(id: int) -> Callable[[DataFrame], DataFrame]:
    return lambda df: df.withColumn("x", F.when(F.col("id") == id, F.raise_error(F.lit("bad row"))))


def test_one_bad_checkpoint_of_a_batch_does_not_hold_the_others(shop: Shop) -> None:
    """The batch is tried in halves until the bad one is alone; it heals when the transform is mended."""
    fill(shop, *range(8))
    failed = shop.run(transform=raises_on(5), batch=Batching(max_inflight=1))
    assert failed.has_failed
    assert "checkpoint 5 failed" in str(failed.reason)
    assert "bad row" in str(failed.reason)
    document = shop.document
    assert (shop.ids(), document.marks.end, document.committed.pairs()) == ([0, 1, 2, 3, 4], 5, [[6, 8]])
    assert shop.run(transform=lambda df: df, batch=Batching(max_inflight=1)).phase is Phase.IDLE
    assert shop.ids() == list(range(8))


def test_a_transform_that_raises_fails_its_checkpoints_and_says_why(shop: Shop) -> None:
    fill(shop, 0)

    def wrong(df: DataFrame) -> DataFrame:
        raise KeyError("amuont")

    failed = shop.run(transform=wrong)
    assert (failed.phase, shop.document.failures[0].code) == (Phase.FAILED, "TG-P001")
    assert "KeyError: 'amuont'" in str(failed.reason)
    assert shop.run(transform=lambda df: df.select("id")).phase is Phase.IDLE
    assert shop.ids() == [0]


@pytest.mark.parametrize(("made", "name"), [(None, "NoneType"), ([], "list")])
def test_a_transform_that_returns_no_frame_is_told(shop: Shop, made: object, name: str) -> None:
    fill(shop, 0)
    failed = shop.run(transform=lambda df: made)
    assert f"it returned {name}, not a DataFrame" in str(failed.reason)


def test_a_transform_that_makes_rows_of_its_own_ends(shop: Shop) -> None:
    """Also one that never reads what it was given."""
    fill(shop, 0, 1)
    assert shop.run(transform=lambda df: df.sparkSession.range(3)).phase is Phase.IDLE
    assert set(shop.ids()) == {0, 1, 2}


def test_a_transform_that_looks_first_loses_no_corrupt_line(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path, landing())
    shop.land("a", {"id": 1}, {"id": "x"}, {"id": 2})

    def looks(df: DataFrame) -> DataFrame:
        df.first()
        return df

    shop.run(transform=looks)
    assert (shop.ids(), shop.document.dead_letters) == ([1, 2], 1)
    assert [row["line"] for row in shop.places["__dead"].visible()] == [2]


def test_a_sequential_pipeline_delivers_one_batch_after_the_other(shop: Shop) -> None:
    fill(shop, *range(6))
    under_way: list[int] = []
    most: list[int] = []

    def watch(call: str, delivery: Delivery | None) -> Exception | None:
        if call == "deliver":
            under_way.append(1)
            most.append(len(under_way))
        elif call == "publish":
            under_way.clear()
        return None

    one = Batching(max_events=1, max_bytes=1, max_inflight=4)
    shop.run(mode=PipelineMode.SEQUENTIAL, batch=one, fail={"lake": watch})
    assert (shop.ids(), max(most)) == (list(range(6)), 1)


def test_a_run_that_is_told_to_stop_finishes_what_is_under_way(shop: Shop) -> None:
    """What was delivered is published, what was not is left for the next run, and nothing is there twice."""
    fill(shop, *range(10))

    def stops(call: str, delivery: Delivery | None) -> Exception | None:
        if call == "deliver":
            shop.stop.set()
        return None

    one = Batching(max_bytes=1, max_inflight=2)
    assert shop.run(batch=one, fail={"lake": stops}, once=False).phase is Phase.IDLE
    end = shop.document.marks.end
    assert end is not None
    assert 0 < end < 10
    assert shop.ids() == list(range(end))
    shop.stop.clear()
    shop.run(batch=one)
    assert shop.ids() == list(range(10))


def wanted(shop: Shop, what: Wanted) -> None:
    found = shop.store.get(control_key("orders"))
    body = ControlDocument(wanted=what, at_us=1, by="me").to_body()
    shop.store.put(control_key("orders"), body, expect=None if found is None else found.version)


def test_pause_resume_and_stop_while_it_runs(shop: Shop) -> None:
    """Paused, nothing new is planned; resumed, it goes on in the same run; the words survive the run."""
    fill(shop, 0)
    runner = threading.Thread(target=shop.run, kwargs={"once": False})
    runner.start()
    try:

        def phase() -> Phase | None:
            document = read_state(shop.store, "orders")
            return None if document is None else document.phase

        until("the first checkpoint", lambda: "lake" in shop.places and shop.ids() == [0])
        for word, state, next_one in ((Wanted.PAUSE, Phase.PAUSED, 1), (Wanted.STOP, Phase.STOPPED, 2)):
            wanted(shop, word)
            until(f"{state}", lambda state=state: phase() is state)
            fill(shop, next_one)
            skipped = len(shop.told("pipeline_skipped"))
            until("it says that it waits", lambda skipped=skipped: skipped >= 1)
            assert shop.ids() == list(range(next_one))
            wanted(shop, Wanted.RUN)
            until("it goes on", lambda next_one=next_one: shop.ids() == list(range(next_one + 1)))
    finally:
        shop.stop.set()
        runner.join(60)
    assert not runner.is_alive()


def test_a_paused_pipeline_is_left_alone_by_the_next_run(shop: Shop) -> None:
    fill(shop, 0)
    wanted(shop, Wanted.PAUSE)
    assert (shop.run().skipped, shop.document if shop.store.get("pipelines/orders/state") else None) == (True, None)
    wanted(shop, Wanted.RUN)
    assert shop.run().skipped is False
    assert shop.ids() == [0]


def test_a_sink_that_joins_later_gets_what_comes_from_then_on(shop: Shop) -> None:
    fill(shop, 0, 1)
    shop.run()
    fill(shop, 2)
    shop.run(LAKE, replace(FILES, from_=From.NOW))
    assert (shop.ids(), shop.ids("files")) == ([0, 1, 2], [2])
    assert shop.document.sinks["files"].start == 2


def test_a_sink_whose_place_was_emptied_is_refused_until_it_is_back(shop: Shop) -> None:
    """A new table below the old mark would claim rows that it has not."""
    fill(shop, 0, 1)
    shop.run()
    kept, shop.places["lake"] = shop.places["lake"], Place()
    fill(shop, 2)
    failed = shop.run()
    assert (failed.phase, shop.ids()) == (Phase.FAILED, [])
    assert "though checkpoint 1 was published in it" in str(failed.reason)
    shop.places["lake"] = kept
    assert shop.run().phase is Phase.IDLE
    assert shop.ids() == [0, 1, 2]


def test_an_optional_sink_whose_place_was_emptied_holds_nobody(shop: Shop) -> None:
    fill(shop, 0)
    shop.run(LAKE, FILES)
    kept, shop.places["files"] = shop.places["files"], Place()
    fill(shop, 1)
    assert shop.run(LAKE, FILES).phase is Phase.IDLE
    assert (shop.ids(), shop.ids("files")) == ([0, 1], [])
    assert "was published in it" in str(shop.document.sinks["files"].error)
    shop.places["files"] = kept
    shop.run(LAKE, FILES)
    assert shop.ids("files") == [0, 1]


def test_numbers_may_begin_anywhere(shop: Shop) -> None:
    fill(shop, 2**53, 2**53 + 1)
    shop.run()
    assert (shop.ids(), shop.document.marks.first) == ([2**53, 2**53 + 1], 2**53)


def test_a_source_that_does_not_answer_is_told_and_tried_again(shop: Shop) -> None:
    (shop.root / "in").write_text("in the way")
    failed = shop.run()
    assert failed.has_failed
    assert "in cannot be read" in str(failed.reason)
    (shop.root / "in").unlink()
    fill(shop, 0)
    shop.run()
    assert shop.ids() == [0]


def test_a_publication_that_fails_is_made_up_for(shop: Shop) -> None:
    """Delivered and committed, and not shown: the next run shows it without delivering again."""
    fill(shop, 0, 1)
    down = {"lake": lambda call, _: errors.SinkUnavailable(sink="lake", what="down") if call == "publish" else None}
    failed = shop.run(fail=down)
    assert (failed.phase, shop.ids(), shop.document.marks.end) == (Phase.FAILED, [], 2)
    delivered = len(shop.places["lake"].deliveries)
    shop.run()
    assert (shop.ids(), len(shop.places["lake"].deliveries)) == ([0, 1], delivered)
