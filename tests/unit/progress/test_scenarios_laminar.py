"""What LaminarDB's watermarks are tested with, scenario by scenario, with our value where ours differs, and why.

Marked ★: upstream is another, and its value is given. What belongs to its windows and sinks has its nearest
equivalent here. Numbers in the names follow the research table; the unit of time is one.
"""

from __future__ import annotations

import numpy as np
import pytest

from tidegate import errors
from tidegate.progress import event_time
from tidegate.progress.drift import Bound, drift
from tidegate.progress.groups import Group
from tidegate.progress.partition_state import PartitionId, PartState, TrackerState
from tidegate.progress.partitions import PartitionedWatermarkTracker
from tidegate.progress.retention import Hold, lowered
from tidegate.progress.watermarks import Watermark
from tidegate.progress.workers import WorkerWatermarks


def p(partition: int, source: int = 0) -> PartitionId:
    """A partition, of source 0 unless said otherwise."""
    return PartitionId(source, partition)


def of(*marks: int | None, timeout_us: int | None = None) -> PartitionedWatermarkTracker:
    """A tracker of one source, whose partitions have come so far."""
    tracker = PartitionedWatermarkTracker(idle_timeout_us=timeout_us)
    tracker.register_source(0, len(marks))
    for partition, mark in enumerate(marks):
        if mark is not None:
            tracker.update_partition(p(partition), mark)
    return tracker


def test_01_one_partition_is_its_source() -> None:
    """Its value is the combined one, and is told where it rose."""
    tracker = of(None)
    assert tracker.update_partition(p(0), 1000) == 1000
    assert tracker.current_watermark() == 1000


def test_02_the_least_of_four_holds_until_it_is_idle() -> None:
    """One advance with the fourth update, a second one with idleness."""
    tracker = of(5000, 3000, 4000)
    tracker.add_partition(p(3))
    fresh = of(None, None, None, None)
    for partition, mark in enumerate((5000, 3000, 4000)):
        assert fresh.update_partition(p(partition), mark) is None
        assert fresh.current_watermark() is None
    assert fresh.update_partition(p(3), 4500) == 3000
    assert fresh.metrics().watermark_advances == 1
    assert fresh.mark_partition_idle(p(1)) == 4000
    assert fresh.metrics().watermark_advances == 2


def test_03_an_idle_partition_is_left_out_of_the_least() -> None:
    """However far behind it was."""
    tracker = of(5000, 1000, 4000, 4500)
    assert tracker.current_watermark() == 1000
    assert tracker.mark_partition_idle(p(1)) == 4000


def test_04_all_idle_is_the_greatest() -> None:
    """So that a stream that has ended does not hold its readers."""
    tracker = of(5000, 3000)
    assert tracker.mark_partition_idle(p(0)) is None
    assert tracker.current_watermark() == 3000
    assert tracker.mark_partition_idle(p(1)) == 5000


def test_05_a_woken_partition_that_is_behind_takes_nothing_back() -> None:
    """And is active."""
    tracker = of(5000, 3000)
    tracker.mark_partition_idle(p(1))
    assert tracker.update_partition(p(1), 4000) is None
    assert (tracker.current_watermark(), tracker.is_partition_idle(p(1))) == (5000, False)


def test_06_a_woken_partition_freezes_the_value_until_it_has_caught_up() -> None:
    """Flink leaves it out until then, and would tell 7000: rows of it that come in order would be late."""
    tracker = of(5000, 3000)
    tracker.mark_partition_idle(p(0))
    tracker.mark_partition_idle(p(1))
    values = []
    for partition, mark in ((1, 3500), (0, 7000), (1, 6500)):
        tracker.update_partition(p(partition), mark)
        values.append(tracker.current_watermark())
    assert values == [5000, 5000, 6500]


def test_07_a_new_partition_holds_what_it_does_not_take_back() -> None:
    """Added while running, it speaks later of an earlier time."""
    tracker = of(5000, 4000)
    tracker.add_partition(p(2))
    assert (tracker.active_partition_count(0), tracker.current_watermark()) == (3, 4000)
    tracker.update_partition(p(2), 3000)
    assert tracker.current_watermark() == 4000


def test_08_an_advance_by_removal_is_counted() -> None:
    """★ Upstream tells nobody of it and does not count it."""
    tracker = of(5000, 2000, 4000)
    assert tracker.current_watermark() == 2000
    assert tracker.remove_partition(p(1)).watermark == 2000
    assert (tracker.current_watermark(), tracker.metrics().watermark_advances) == (4000, 2)


def test_09_a_removal_never_lowers_the_value() -> None:
    """★ Upstream assigns what is left, 4000."""
    tracker = of(5000, 3000)
    tracker.mark_partition_idle(p(1))
    tracker.update_partition(p(1), 4000)
    tracker.add_partition(p(2))
    tracker.remove_partition(p(2))
    assert tracker.current_watermark() == 5000


def test_10_a_removal_beside_a_new_partition_keeps_the_value() -> None:
    """★ Upstream tells None, for the new one never spoke."""
    tracker = of(5000, 4000, 6000)
    tracker.add_partition(p(3))
    tracker.remove_partition(p(1))
    assert tracker.current_watermark() == 4000


def test_11_the_last_partition_may_go() -> None:
    """★ Upstream tells None: what was complete would be so no more."""
    tracker = of(5000)
    tracker.remove_partition(p(0))
    assert (tracker.current_watermark(), tracker.metrics().total_partitions) == (5000, 0)


def test_12_one_that_never_spoke_holds_for_the_timeout_and_no_longer() -> None:
    """Its first event comes late, and is."""
    tracker = of(None, None, timeout_us=30_000)
    tracker.update_partition(p(0), 5000, now_us=0)
    assert tracker.check_idle_partitions(29_900) is None
    tracker.update_partition(p(0), 6000, now_us=30_000)
    assert tracker.check_idle_partitions(30_000) == 6000
    tracker.update_partition(p(1), 100)
    assert tracker.current_watermark() == 6000


def test_13_silence_of_all_is_no_news() -> None:
    """Nobody ever spoke: there is no value."""
    tracker = of(None, None)
    tracker.mark_partition_idle(p(0))
    tracker.mark_partition_idle(p(1))
    assert tracker.current_watermark() is None


def test_14_an_unregistered_partition_is_an_error() -> None:
    """★ Upstream drops the news silently; here somebody hears of it, and nothing has changed."""
    tracker = of(5, 4)
    tracker.remove_partition(p(0))
    before = tracker.state()
    with pytest.raises(errors.UnknownPartition):
        tracker.update_partition(p(0), 9)
    assert tracker.state() == before


def test_15_what_is_there_is_not_added_twice_and_lateness_saturates() -> None:
    """An event at the lowest time does not wrap around to the highest."""
    tracker = of(None)
    with pytest.raises(errors.PartitionExists):
        tracker.add_partition(p(0))
    assert tracker.update_partition_from_event(p(0), 5000, 1000) == 4000
    lowest = of(None)
    lowest.update_partition_from_event(p(0), -(2**63) + 5, 10)
    assert lowest.current_watermark() == -(2**63) + 1


def test_16_an_older_update_wakes_and_moves_nothing() -> None:
    """It is a sign of life."""
    tracker = of(5000, 3000)
    tracker.mark_partition_idle(p(1))
    assert tracker.update_partition(p(1), 2500) is None
    assert (tracker.is_partition_idle(p(1)), tracker.partition_watermark(p(1))) == (False, 3000)
    assert tracker.current_watermark() == 5000


def test_17_sources_have_their_own_values_and_counts_are_as_they_are() -> None:
    """Two sources; and four partitions of which one is idle."""
    tracker = of(5000, 3000)
    tracker.register_source(1, 2)
    tracker.update_all([4000, 6000], source_id=1)
    assert (tracker.source_watermark(0), tracker.source_watermark(1), tracker.current_watermark()) == (3000, 4000, 3000)
    four = of(None, None, None, None)
    four.mark_partition_idle(p(2))
    counts = four.metrics()
    assert (counts.total_partitions, counts.active_partitions, counts.idle_partitions) == (4, 3, 1)


def test_18_workers_tell_their_least_and_the_driver_the_least_of_all() -> None:
    """A worker's value may fall, the driver's may not."""
    worker = WorkerWatermarks(0, [p(0), p(1)])
    told = [worker.update_partition(p(at), mark) for at, mark in ((0, 5000), (1, 3000), (0, 6000), (1, 4000))]
    assert told == [None, 3000, None, 4000]
    driver = of(None, None, None)
    workers = [WorkerWatermarks(core, [p(core)]) for core in range(3)]
    for one, mark in zip(workers, (5000, 3000, 4000), strict=True):
        one.update_partition(p(one.core_id), mark)
    assert driver.collect_watermarks(workers) == 3000


def test_19_registering_fewer_removes_the_others() -> None:
    """★ Upstream goes on tracking four while it declares two."""
    tracker = of(None, None, None, None)
    tracker.register_source(0, 2)
    assert tracker.metrics().total_partitions == 2
    with pytest.raises(errors.InvalidPartition):
        tracker.update_partition(p(3), 1)


def test_20_late_is_below_the_combined_value_and_not_below_a_key() -> None:
    """★ Upstream also judges by key, where a row of a slow key is not late; ours has one value, told before the read.

    Keys as partitions give the same global value: a at 15000, b at 5000, five behind.
    """
    tracker = of(None, None)
    for at, time in ((0, 10_000), (0, 15_000), (1, 5000)):
        tracker.update_partition_from_event(p(at), time, 5000)
    assert (tracker.partition_watermark(p(0)), tracker.partition_watermark(p(1))) == (10_000, 0)
    assert tracker.current_watermark() == 0


def test_21_an_event_exactly_at_the_value_is_not_late() -> None:
    """With a bound of 100 an event at 1000 promises 900: 899 is late, 900 is not. And so "complete through" is 899."""
    state = event_time.observe(TrackerState(parts={"0": PartState()}), {"0": 1000}, max_lateness_us=100, now_us=0)
    late_below = event_time.combined(state)
    assert late_below is not None
    assert (late_below > 899, late_below > 900) == (True, False)


def test_22_the_published_value_is_monotone_even_where_the_least_falls() -> None:
    """★ Upstream lets the global value of keys fall to 2000 by design."""
    tracker = of(5000, 1000)
    tracker.mark_partition_idle(p(1))
    tracker.update_partition(p(1), 2000)
    assert (tracker.current_watermark(), tracker.partition_watermark(p(1))) == (5000, 2000)


PAIR = Bound(group=Group(name="pair", sources=("s0", "s1")), max_drift=60_000)
THREE = Bound(group=Group(name="three", sources=("s0", "s1", "s2")), max_drift=60_000)


def is_paused(source: str, bound: Bound, **values: int | None) -> bool:
    """Whether the source is throttled at these watermarks."""
    known = {name: None if value is None else Watermark.of_integer(value) for name, value in values.items()}
    return drift(source, [bound], known).is_throttled


def test_23_a_source_too_far_ahead_pauses_and_resumes_within_the_drift() -> None:
    """A pure function of the values: nothing that is reported while paused is lost."""
    assert not is_paused("s0", PAIR, s0=60_000, s1=0)
    assert is_paused("s0", PAIR, s0=60_001, s1=0)
    assert not is_paused("s0", PAIR, s0=60_001, s1=30_000)
    assert is_paused("s0", PAIR, s0=95_000, s1=30_000)
    assert not is_paused("s0", PAIR, s0=90_000, s1=30_000)


def test_24_several_may_pause_and_the_slowest_lets_them_go() -> None:
    """At a drift of exactly 60,000 and of 55,000."""
    assert is_paused("s0", THREE, s0=70_000, s1=0, s2=0)
    assert is_paused("s1", THREE, s0=70_000, s1=65_000, s2=0)
    assert not is_paused("s2", THREE, s0=70_000, s1=65_000, s2=0)
    assert not is_paused("s0", THREE, s0=70_000, s1=65_000, s2=10_000)
    assert not is_paused("s1", THREE, s0=70_000, s1=65_000, s2=10_000)


def test_25_alignment_throttles_and_drops_nothing() -> None:
    """★ Upstream can also warn or drop rows; here no row is dropped for being early."""
    told = drift("s0", [PAIR], {"s0": Watermark.of_integer(-50_000), "s1": Watermark.of_integer(-100_000)})
    assert (told.is_throttled, told.ahead) == (False, 50_000)
    ahead = drift("s0", [PAIR], {"s0": Watermark.of_integer(100_000), "s1": Watermark.of_integer(0)})
    assert (ahead.is_throttled, ahead.ahead, ahead.waits_for) == (True, 100_000, ("s1",))


def test_26_bounded_out_of_order_events_never_lower_the_value() -> None:
    """From events and from outside alike; an event of the far future moves nothing."""
    tracker = PartitionedWatermarkTracker(max_future_us=300)
    tracker.register_source(0, 1)
    told = [tracker.update_partition_from_event(p(0), time, 100, now_us=1500) for time in (1000, 800, 1200)]
    assert told == [900, None, 1100]
    assert tracker.update_partition(p(0), 1200) == 1200
    told = [tracker.update_partition_from_event(p(0), time, 100, now_us=1500) for time in (1250, 1400)]
    assert told == [None, 1300]
    assert tracker.update_partition_from_event(p(0), 9000, 100, now_us=1500) is None
    assert (tracker.current_watermark(), tracker.metrics().skewed_events) == (1300, 1)


def test_27_progress_that_is_told_and_not_seen_is_an_advance() -> None:
    """Punctuation and the like: `update_partition` takes a value as it is, and a lower one changes nothing."""
    tracker = of(None)
    assert tracker.update_partition(p(0), 1000) == 1000
    assert tracker.update_partition(p(0), 999) is None


def test_28_the_late_filter_keeps_what_is_at_the_value_or_above() -> None:
    """Over a column at once; all late leaves nothing."""
    tracker = of(250)
    late_below = tracker.current_watermark()
    assert late_below is not None
    times = np.array([100, 200, 250, 300, 400])
    assert times[times >= late_below].tolist() == [250, 300, 400]
    assert times[times >= 500].size == 0


@pytest.mark.parametrize(("late_below", "closed"), [(1500, [0]), (2000, [0, 1000]), (2500, [0, 1000])])
def test_29_a_window_is_complete_when_its_last_moment_is(late_below: int, closed: list[int]) -> None:
    """The value is exclusive: a window [0, 1000) is complete at 1000. Ours tells it as "complete through" 999."""
    tracker = of(late_below)
    value = tracker.current_watermark()
    assert value is not None
    assert [start for start in (0, 1000, 2000) if start + 1000 - 1 <= value - 1] == closed


def test_30_overlapping_windows_close_one_after_the_other() -> None:
    """Four long, every two: each when its own end is reached."""
    ends, tracker, seen = [2000, 4000, 6000], of(None), []
    for mark in (2000, 4000, 6000):
        value = tracker.update_partition(p(0), mark)
        assert value is not None
        seen.append([end for end in ends if end <= value])
    assert seen == [[2000], [2000, 4000], [2000, 4000, 6000]]


def test_31_a_revoked_partition_is_in_no_saved_state() -> None:
    """Nor does a lower position lower anything."""
    tracker = of(200, 100)
    tracker.update_partition(p(0), 100)
    assert tracker.partition_watermark(p(0)) == 200
    tracker.remove_partition(p(1))
    assert tracker.state().parts.keys() == {"0"}


def test_32_of_what_is_kept_only_the_newest_decides() -> None:
    """Markers are the ledger's versions here; in the core, an older value never replaces a newer one."""
    driver, worker = of(None), WorkerWatermarks(0, [p(0)])
    for told in (5, 4):
        worker.receive(told)
    assert worker.global_watermark == 5
    assert driver.collect_watermarks([worker]) is None


def test_33_a_lagging_sink_lowers_what_may_be_pruned_and_is_named() -> None:
    """★ Upstream prunes by the newest of the sinks; ours by the least of retention and everybody who still needs it."""
    floor = lowered(9, [Hold(holder="sink A", number=11), Hold(holder="sink B", number=8)])
    assert (floor.number, floor.held_by) == (8, (Hold(holder="sink B", number=8),))


def test_34_a_restored_value_holds_before_the_first_row() -> None:
    """Two sources at 5000 and 4500."""
    states = {
        source: TrackerState(parts={"0": PartState(watermark_us=mark)}, combined_us=mark)
        for source, mark in enumerate((5000, 4500))
    }
    tracker = PartitionedWatermarkTracker()
    tracker.restore_all({at: TrackerState.from_json(one.to_json()) for at, one in states.items()}, combined_us=4500)
    assert (tracker.source_watermark(0), tracker.source_watermark(1)) == (5000, 4500)
    assert tracker.current_watermark() == 4500
    held = PartitionedWatermarkTracker()
    held.restore_all(states, combined_us=4700)
    assert held.current_watermark() == 4700
