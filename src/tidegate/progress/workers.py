"""What one worker sees of the partitions that it reads; the driver collects it from all and tells all. Light."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate import errors
from tidegate.progress.partition_state import PartitionId


class WorkerWatermarks:
    """The watermarks of the partitions assigned to one core.

    It takes no decision: idleness, lateness and what is published are the driver's
    (`PartitionedWatermarkTracker.collect_watermarks`). Nothing here is shared, so nothing is locked.
    """

    __slots__ = ("_global", "_heard", "_values", "core_id")

    def __init__(self, core_id: int, partitions: Iterable[PartitionId] = ()) -> None:
        self.core_id = core_id
        self._values: dict[PartitionId, int | None] = dict.fromkeys(partitions)
        self._heard: dict[PartitionId, int] = {}
        self._global: int | None = None

    @property
    def assigned_partitions(self) -> frozenset[PartitionId]:
        """What it reads."""
        return frozenset(self._values)

    @property
    def global_watermark(self) -> int | None:
        """What the driver told last; it never falls."""
        return self._global

    def assign(self, partition: PartitionId) -> None:
        """From now on it reads this partition too."""
        self._values.setdefault(partition, None)

    def unassign(self, partition: PartitionId) -> None:
        """It no longer reads this partition; what it has heard of it is still reported."""
        self._values.pop(partition, None)

    def update_partition(self, partition: PartitionId, watermark: int) -> int | None:
        """The partition is complete below `watermark`; the worker's own value, where that has risen."""
        if partition not in self._values:
            raise errors.UnknownPartition(partition=partition.partition, source=partition.source_id)
        before, known = self.local_watermark(), self._values[partition]
        value = watermark if known is None else max(known, watermark)
        self._values[partition] = self._heard[partition] = value
        after = self.local_watermark()
        return after if after is not None and (before is None or after > before) else None

    def local_watermark(self) -> int | None:
        """The least of its partitions; None while one never spoke. It falls when a slower one is assigned."""
        values = [value for value in self._values.values() if value is not None]
        return min(values, default=None) if len(values) == len(self._values) else None

    def report(self) -> Mapping[PartitionId, int]:
        """The values of all partitions heard from since the last report."""
        heard, self._heard = self._heard, {}
        return heard

    def receive(self, watermark: int | None) -> None:
        """The driver tells the value of all workers together. An old message changes nothing."""
        if watermark is not None and (self._global is None or watermark > self._global):
            self._global = watermark
