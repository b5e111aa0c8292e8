"""Workers mirror their partitions; whatever is read where, the driver comes to the same value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.progress.partition_state import PartitionId
from tidegate.progress.partitions import PartitionedWatermarkTracker
from tidegate.progress.workers import WorkerWatermarks

A, B, C = (PartitionId(0, partition) for partition in range(3))


def test_a_worker_knows_the_least_of_its_own() -> None:
    """And tells where it rose."""
    worker = WorkerWatermarks(3, [A, B])
    assert worker.update_partition(A, 5000) is None
    assert worker.update_partition(B, 3000) == 3000
    assert worker.update_partition(A, 6000) is None
    assert worker.update_partition(B, 4000) == 4000
    assert worker.update_partition(B, 1) is None
    assert (worker.core_id, worker.local_watermark()) == (3, 4000)
    assert worker.assigned_partitions == frozenset({A, B})


def test_a_worker_refuses_what_it_does_not_read() -> None:
    """Nor does it any more once it was taken away."""
    worker = WorkerWatermarks(0, [A])
    with pytest.raises(errors.UnknownPartition, match="partition 1 of source 0"):
        worker.update_partition(B, 1)
    worker.unassign(A)
    with pytest.raises(errors.UnknownPartition):
        worker.update_partition(A, 1)


def test_a_workers_own_value_may_fall_and_the_drivers_may_not() -> None:
    """A slower partition is assigned; what the driver told stays."""
    driver = PartitionedWatermarkTracker()
    driver.register_source(0, 2)
    worker = WorkerWatermarks(0, [A])
    driver.mark_partition_idle(B)
    worker.update_partition(A, 5000)
    assert driver.collect_watermarks([worker]) == 5000
    driver.broadcast_watermark([worker])
    worker.assign(B)
    assert (worker.local_watermark(), worker.global_watermark) == (None, 5000)
    worker.update_partition(B, 10)
    assert driver.collect_watermarks([worker]) is None
    driver.broadcast_watermark([worker])
    assert (worker.local_watermark(), worker.global_watermark, driver.current_watermark()) == (10, 5000, 5000)


def test_an_old_message_of_the_driver_changes_nothing() -> None:
    """Messages overtake each other."""
    worker = WorkerWatermarks(0)
    for told in (5, 3, None):
        worker.receive(told)
    assert worker.global_watermark == 5


def test_a_report_names_only_whom_was_heard_since_the_last() -> None:
    """Else an idle partition would wake with every report of its neighbours."""
    worker = WorkerWatermarks(0, [A, B])
    worker.update_partition(A, 5)
    worker.update_partition(B, 6)
    assert worker.report() == {A: 5, B: 6}
    worker.update_partition(B, 2)
    assert worker.report() == {B: 6}
    assert worker.report() == {}


def test_a_partition_that_was_removed_meanwhile_is_no_error() -> None:
    """The others of the report count."""
    driver = PartitionedWatermarkTracker()
    driver.register_source(0, 3)
    worker = WorkerWatermarks(0, [A, B, PartitionId(7, 0)])
    for partition in worker.assigned_partitions:
        worker.update_partition(partition, 5)
    driver.remove_partition(B)
    driver.remove_partition(C)
    assert driver.collect_watermarks([worker]) == 5


@given(
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.integers(0, 2)), max_size=40),
)
def test_it_does_not_matter_which_worker_reads_a_partition(
    cores: list[int], events: list[tuple[int, int, int]]
) -> None:
    """Nor when the workers are asked: once all were, the driver is where one tracker fed directly is."""
    direct, driver = PartitionedWatermarkTracker(), PartitionedWatermarkTracker()
    workers = [WorkerWatermarks(core) for core in range(3)]
    for tracker in (direct, driver):
        tracker.register_source(0, 6)
    for partition, core in enumerate(cores):
        workers[core].assign(PartitionId(0, partition))
    highest = None
    for partition, time, asked in events:
        at = PartitionId(0, partition)
        direct.update_partition(at, time)
        workers[cores[partition]].update_partition(at, time)
        highest = driver.collect_watermarks([workers[asked]]) or highest
        seen, truth = driver.current_watermark(), direct.current_watermark()
        assert seen is None or (truth is not None and seen <= truth)
    driver.collect_watermarks(workers)
    assert driver.state().parts.keys() == direct.state().parts.keys()
    assert driver.current_watermark() == direct.current_watermark()
    assert [driver.partition_watermark(PartitionId(0, n)) for n in range(6)] == [
        direct.partition_watermark(PartitionId(0, n)) for n in range(6)
    ]
