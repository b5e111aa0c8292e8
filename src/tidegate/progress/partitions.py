"""Event-time progress per partition: one slow partition holds the watermark, a silent one only for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate import errors
from tidegate.progress.event_time import AllIdle
from tidegate.progress.partition_state import PartitionId, PartState, TrackerState
from tidegate.progress.workers import WorkerWatermarks

_NEVER: Final = -(1 << 63)
_NOBODY: Final = (1 << 63) - 1
_LOWEST, _HIGHEST = _NEVER + 1, _NOBODY - 1
_INT64: Final = np.dtype(np.int64)

# From so many partitions on, a single rise looks for the new least in blocks.
_BLOCKS_FROM: Final = 1024
_BLOCK_BITS: Final = 7
_BLOCK: Final = 1 << _BLOCK_BITS

MAX_PARTITIONS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWatermarkState:
    """All that is known of one partition. Times are microseconds; None: not yet."""

    watermark: int | None
    last_event_time: int | None
    last_activity_us: int
    is_idle: bool
    since_us: int
    assigned_core: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedWatermarkMetrics:
    """Counts over the whole tracker; the last three only grow."""

    total_partitions: int
    active_partitions: int
    idle_partitions: int
    watermark_advances: int
    rebalances: int
    skewed_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """The partition that holds the watermark, and since when it has its value."""

    partition: PartitionId
    since_us: int


class PartitionedWatermarkTracker:
    """The least watermark of all active partitions, over any number of sources.

    A value says: no event below it is expected; what comes below it is late. The rules:

    - A partition's value only rises. Any news of a partition, however old, wakes it.
    - The combined value is the least of the active partitions. One that never spoke holds it, until it is idle.
    - When all are idle it is the greatest of all (`all_idle="max"`), or stays (`"hold"`).
    - What was told once never falls, whatever is woken, added or removed. A woken partition that is behind
      freezes the combined value until it has caught up.

    The tracker has no clock: calls take `now_us`, and go by the time told last where it is left out.
    `progress.event_time` has the same rules as pure functions.
    """

    __slots__ = (
        "_advances",
        "_all_idle",
        "_combined",
        "_idle_timeout_us",
        "_max_future_us",
        "_now_us",
        "_rebalances",
        "_skewed",
        "_sources",
    )

    def __init__(
        self,
        *,
        idle_timeout_us: int | None = None,
        all_idle: AllIdle = "max",
        max_future_us: int | None = None,
        now_us: int = 0,
    ) -> None:
        """Without an idle timeout a silent partition holds the watermark for good.

        Event times more than `max_future_us` ahead of the clock are counted and move nothing.
        """
        self._idle_timeout_us = idle_timeout_us
        self._all_idle: AllIdle = all_idle
        self._max_future_us = max_future_us
        self._now_us = now_us
        self._sources: dict[int, _Parts] = {}
        self._combined = _NEVER
        self._advances = self._rebalances = self._skewed = 0

    @classmethod
    def with_idle_timeout(cls, idle_timeout_us: int) -> PartitionedWatermarkTracker:
        """A tracker in which a partition that is silent for so long holds nobody."""
        return cls(idle_timeout_us=idle_timeout_us)

    # Sources and partitions

    def register_source(self, source_id: int, num_partitions: int, *, now_us: int | None = None) -> None:
        """The source has exactly the partitions 0 to `num_partitions` - 1.

        Those that are tracked already stay as they are. Fewer than before: the others are removed.
        """
        if not 0 <= num_partitions <= MAX_PARTITIONS:
            raise ValueError(f"a source cannot have {num_partitions} partitions")
        now_us = self._told(now_us)
        parts = self._sources.setdefault(source_id, _Parts())
        known = parts.present()
        extra = known[known >= num_partitions]
        parts.add(np.setdiff1d(np.arange(num_partitions), known), now_us)
        parts.remove(extra)
        parts.count = num_partitions
        self._rebalances += extra.size
        self._settle(parts)

    def add_partition(self, partition: PartitionId, *, now_us: int | None = None) -> None:
        """The source has one more partition; beyond its count, the count grows. It holds until it speaks."""
        parts = self._source(partition.source_id)
        if not 0 <= partition.partition < MAX_PARTITIONS:
            raise self._invalid(parts, partition)
        if parts.has(partition.partition):
            raise errors.PartitionExists(partition=partition.partition, source=partition.source_id)
        parts.add(np.array([partition.partition]), self._told(now_us))
        self._rebalances += 1

    def remove_partition(self, partition: PartitionId) -> PartitionWatermarkState:
        """What was known of the partition, which is no longer tracked; the combined value may have risen."""
        parts = self._parts(partition)
        state = parts.state(partition.partition)
        parts.remove(np.array([partition.partition]))
        self._rebalances += 1
        self._settle(parts)
        return state

    def assign_partition_to_core(self, partition: PartitionId, core_id: int) -> None:
        """The partition is read on this core from now on."""
        self._parts(partition).assign(partition.partition, core_id)

    def partition_core(self, partition: PartitionId) -> int | None:
        """The core that reads the partition, where that was said."""
        return self.partition_state(partition).assigned_core

    # News

    def update_partition(self, partition: PartitionId, watermark: int, *, now_us: int | None = None) -> int | None:
        """Nothing below `watermark` is expected from the partition. The combined value, where it has risen."""
        source_id, number = partition
        parts = self._sources.get(source_id) or self._source(source_id)
        if not (0 <= number < parts.count and (parts.total == parts.count or parts.views.alive[number])):
            raise self._absent(parts, partition)
        if now_us is None:
            now_us = self._now_us
        else:
            self._now_us = now_us
        value = watermark if _LOWEST <= watermark <= _HIGHEST else min(max(watermark, _LOWEST), _HIGHEST)
        return self._settle(parts) if parts.raise_one(number, value, now_us) else None

    def update_partition_from_event(
        self, partition: PartitionId, event_time: int, max_lateness: int, *, now_us: int | None = None
    ) -> int | None:
        """An event came; others up to `max_lateness` before it may still come. The combined value, where it rose."""
        parts, now_us = self._parts(partition), self._told(now_us)
        if self._max_future_us is not None and event_time > now_us + self._max_future_us:
            self._skewed += 1
            return self._settle(parts) if parts.raise_one(partition.partition, _NEVER, now_us) else None
        parts.saw(partition.partition, event_time)
        return self.update_partition(partition, event_time - max_lateness)

    def update_all(
        self, event_times: ArrayLike, *, source_id: int = 0, max_lateness: int = 0, now_us: int | None = None
    ) -> int | None:
        """News of every partition of one source: `event_times[i]` is the latest event of the i-th, by number.

        The same as `update_batch` with all partitions, for a fraction of the cost.
        """
        parts, now_us = self._source(source_id), self._told(now_us)
        times = np.asarray(event_times)
        if times.dtype is not _INT64:
            times = _whole(times)
        if times.ndim != 1 or times.size != parts.total:
            raise ValueError(f"{times.size} event times do not go with {parts.total} partitions")
        if times.size == 0:
            return None
        if self._max_future_us is not None and times.item(times.argmax()) > now_us + self._max_future_us:
            return self.update_batch(parts.present(), times, source_id=source_id, max_lateness=max_lateness)
        if parts.is_dense:
            parts.raise_all(times, max_lateness, now_us)
        else:
            present = parts.present()
            parts.hear_many(present, now_us)
            parts.raise_many(present, times, max_lateness, now_us)
        return self._settle(parts)

    def update_batch(
        self,
        partitions: ArrayLike,
        event_times: ArrayLike,
        *,
        source_id: int = 0,
        max_lateness: int = 0,
        now_us: int | None = None,
    ) -> int | None:
        """Many events of one source at once, in any order: `event_times[i]` came in `partitions[i]`.

        The same as one `update_partition_from_event` for each, in which nobody looks before the end.
        A partition that is not tracked is refused before anything is changed.
        """
        parts, now_us = self._source(source_id), self._told(now_us)
        at, times = _columns(partitions, event_times)
        self._check(parts, source_id, at)
        if at.size == 0:
            return None
        parts.hear_many(at, now_us)
        if self._max_future_us is not None:
            moving = times <= now_us + self._max_future_us
            self._skewed += int(at.size - np.count_nonzero(moving))
            at, times = at[moving], times[moving]
        parts.raise_many(at, times, max_lateness, now_us)
        return self._settle(parts)

    def mark_partition_idle(self, partition: PartitionId) -> int | None:
        """The partition is known to have nothing to say, and holds nobody. The combined value, where it rose."""
        parts = self._parts(partition)
        parts.idle_many(np.array([partition.partition]))
        return self._settle(parts)

    def mark_partition_active(self, partition: PartitionId, *, now_us: int | None = None) -> None:
        """The partition holds the watermark again."""
        parts = self._parts(partition)
        parts.raise_one(partition.partition, _NEVER, self._told(now_us))
        self._settle(parts)

    def check_idle_partitions(self, now_us: int | None = None) -> int | None:
        """Every partition silent for the idle timeout is idle, all at once. The combined value, where it rose."""
        now_us = self._told(now_us)
        if self._idle_timeout_us is None:
            return None
        limit_us = now_us - self._idle_timeout_us
        stale = [parts for parts in self._sources.values() if parts.idle_since(limit_us)]
        return self._settle_all(stale) if stale else None

    # Workers

    def collect_watermarks(self, workers: Iterable[WorkerWatermarks], *, now_us: int | None = None) -> int | None:
        """Take in what the workers have heard, all at once. The combined value, where it rose.

        A worker may still report a partition that was removed meanwhile; that is no error.
        """
        now_us = self._told(now_us)
        changed = {}
        for worker in workers:
            for (source_id, partition), watermark in worker.report().items():
                parts = self._sources.get(source_id)
                if parts is not None and parts.has(partition):
                    parts.raise_one(partition, min(max(watermark, _LOWEST), _HIGHEST), now_us)
                    changed[source_id] = parts
        return self._settle_all(changed.values())

    def broadcast_watermark(self, workers: Iterable[WorkerWatermarks]) -> None:
        """Tell every worker the combined value."""
        for worker in workers:
            worker.receive(self.current_watermark())

    # Questions

    def current_watermark(self) -> int | None:
        """The combined value: an event below it is late. None until every partition has spoken or is idle."""
        value = self._combined
        return None if value == _NEVER else value

    def partition_watermark(self, partition: PartitionId) -> int | None:
        """How far the partition has come; None before its first event."""
        return _known(int(self._parts(partition).marks[partition.partition]))

    def source_watermark(self, source_id: int) -> int | None:
        """The value of one source, by the same rules as the combined one."""
        return _known(self._source(source_id).combined)

    def is_partition_idle(self, partition: PartitionId) -> bool:
        """Whether it holds nobody."""
        return bool(self._parts(partition).idle[partition.partition])

    def active_partition_count(self, source_id: int) -> int:
        """How many partitions of the source are not idle."""
        return self._source(source_id).active_count()

    def partition_state(self, partition: PartitionId) -> PartitionWatermarkState:
        """All that is known of the partition."""
        return self._parts(partition).state(partition.partition)

    def blocking(self) -> Blocking | None:
        """Who holds the combined value, and since when; None when all are idle."""
        holders = [(parts.low, source_id) for source_id, parts in self._sources.items() if parts.low < _NOBODY]
        if not holders:
            return None
        source_id = min(holders, key=lambda holder: holder[0])[1]
        parts = self._sources[source_id]
        return Blocking(partition=PartitionId(source_id, parts.low_at), since_us=int(parts.since[parts.low_at]))

    def metrics(self) -> PartitionedWatermarkMetrics:
        """Counts as they are now."""
        total = sum(parts.total for parts in self._sources.values())
        active = sum(parts.active_count() for parts in self._sources.values())
        return PartitionedWatermarkMetrics(
            total_partitions=total,
            active_partitions=active,
            idle_partitions=total - active,
            watermark_advances=self._advances,
            rebalances=self._rebalances,
            skewed_events=self._skewed,
        )

    # What is kept

    def state(self, source_id: int = 0) -> TrackerState:
        """What is to be kept of one source; its parts are named by their numbers."""
        parts = self._source(source_id)
        kept = {str(partition): parts.state(int(partition)) for partition in parts.present()}
        return TrackerState(
            parts={
                name: PartState(watermark_us=one.watermark, idle=one.is_idle, since_us=one.since_us)
                for name, one in kept.items()
            },
            combined_us=_known(parts.combined),
        )

    def restore(
        self,
        state: TrackerState,
        *,
        source_id: int = 0,
        now_us: int | None = None,
        quiet_since_us: Mapping[str, int] | None = None,
    ) -> None:
        """Track the source as `state` says, in place of what was known of it.

        An active partition counts as heard now, unless `quiet_since_us` knows how long it has been silent:
        then the silence goes on across the restart.
        """
        combined_us = None if self._sources.keys() - {source_id} else state.combined_us
        quiet = {} if quiet_since_us is None else {source_id: quiet_since_us}
        self.restore_all({source_id: state}, combined_us=combined_us, now_us=now_us, quiet_since_us=quiet)

    def restore_all(
        self,
        states: Mapping[int, TrackerState],
        *,
        combined_us: int | None,
        now_us: int | None = None,
        quiet_since_us: Mapping[int, Mapping[str, int]] | None = None,
    ) -> None:
        """Track several sources as their states say. One after the other, the first would speak for all.

        `combined_us` is the highest value that they ever had together.
        """
        now_us = self._told(now_us)
        for source_id, state in states.items():
            quiet = {} if quiet_since_us is None else quiet_since_us.get(source_id, {})
            parts = _Parts()
            parts.restore(state.parts, [quiet.get(name, now_us) for name in state.parts])
            parts.combined = _NEVER if state.combined_us is None else state.combined_us
            parts.settle(self._all_idle)
            self._sources[source_id] = parts
        known = _NEVER if combined_us is None else combined_us
        self._combined = max(self._combined, known, self._value())

    # Inside

    def _told(self, now_us: int | None) -> int:
        if now_us is not None:
            self._now_us = now_us
        return self._now_us

    def _settle_all(self, changed: Iterable[_Parts]) -> int | None:
        told = [self._settle(parts) for parts in changed]
        return max((value for value in told if value is not None), default=None)

    def _settle(self, parts: _Parts) -> int | None:
        value = parts.low
        if value == _NOBODY:
            parts.settle(self._all_idle)
        elif value > parts.combined:
            parts.combined = value
        if len(self._sources) > 1 or value == _NOBODY:
            value = self._value()
        if value <= self._combined:
            return None
        self._combined = value
        self._advances += 1
        return value

    def _value(self) -> int:
        """What all sources together would say now: `_NEVER` for nothing."""
        sources = self._sources.values()
        low = min((parts.low for parts in sources), default=_NOBODY)
        if low < _NOBODY:
            return low
        return max((parts.top() for parts in sources), default=_NEVER) if self._all_idle == "max" else _NEVER

    def _source(self, source_id: int) -> _Parts:
        parts = self._sources.get(source_id)
        if parts is None:
            raise errors.SourceNotFound(source=source_id)
        return parts

    def _parts(self, partition: PartitionId) -> _Parts:
        parts = self._source(partition.source_id)
        if parts.has(partition.partition):
            return parts
        raise self._absent(parts, partition)

    def _absent(self, parts: _Parts, partition: PartitionId) -> errors.WatermarkError:
        if 0 <= partition.partition < parts.count:
            return errors.UnknownPartition(partition=partition.partition, source=partition.source_id)
        return self._invalid(parts, partition)

    def _invalid(self, parts: _Parts, partition: PartitionId) -> errors.InvalidPartition:
        return errors.InvalidPartition(partition=partition.partition, source=partition.source_id, count=parts.count)

    def _check(self, parts: _Parts, source_id: int, at: NDArray[np.int64]) -> None:
        if at.size == 0:
            return
        if at.min() < 0 or at.max() >= parts.count:
            outside = at[(at < 0) | (at >= parts.count)]
            raise self._invalid(parts, PartitionId(source_id, int(outside[0])))
        if parts.total < parts.count:
            unknown = at[~parts.alive[at]]
            if unknown.size:
                raise errors.UnknownPartition(partition=int(unknown[0]), source=source_id)


class _Parts:
    """The partitions of one source as a struct of arrays, indexed by partition number.

    `holds` is the watermark of an active partition and `_NOBODY` of any other, so that one reduction finds
    who holds the source. `low` and `low_at` remember its answer: while somebody else rises, it cannot change.
    Two columns are `marks` itself until they differ from it: `holds` while every partition is active, `events`
    while every mark was an event without lateness; and `since` is `heard` while every news was a rise. So a
    partition takes 18 bytes, 26 with a lateness.
    """

    __slots__ = (
        "alive",
        "blocks",
        "combined",
        "cores",
        "count",
        "events",
        "heard",
        "holds",
        "idle",
        "low",
        "low_at",
        "marks",
        "oldest",
        "since",
        "total",
        "views",
    )

    def __init__(self) -> None:
        self.count = self.total = 0
        self.combined = _NEVER
        self.low, self.low_at = _NOBODY, 0
        self.oldest = _NOBODY  # no active partition was heard before this
        self.marks = self.events = self.holds = np.empty(0, dtype=np.int64)
        self.heard = self.since = np.empty(0, dtype=np.int64)
        self.alive = self.idle = np.empty(0, dtype=np.bool_)
        self.cores: dict[int, int] = {}
        self.blocks: _Blocks | None = None
        self.views = _Views(self)

    def has(self, partition: int) -> bool:
        """Whether it is tracked."""
        return 0 <= partition < self.count and (self.total == self.count or bool(self.views.alive[partition]))

    @property
    def is_dense(self) -> bool:
        """Whether there is a partition in every place of the columns."""
        return self.total == self.marks.size

    def present(self) -> NDArray[np.int64]:
        """Those that are tracked, ascending."""
        return np.flatnonzero(self.alive)

    def active_count(self) -> int:
        """How many are not idle."""
        return self.total - int(np.count_nonzero(self.idle))

    def top(self) -> int:
        """The greatest value of all."""
        return int(self.marks.max()) if self.total else _NEVER

    def state(self, partition: int) -> PartitionWatermarkState:
        """All that is known of one."""
        return PartitionWatermarkState(
            watermark=_known(int(self.marks[partition])),
            last_event_time=_known(int(self.events[partition])),
            last_activity_us=int(self.heard[partition]),
            is_idle=bool(self.idle[partition]),
            since_us=int(self.since[partition]),
            assigned_core=self.cores.get(partition),
        )

    def assign(self, partition: int, core: int) -> None:
        """Remember who reads it."""
        self.cores[partition] = core

    def add(self, at: NDArray[np.int64], now_us: int) -> None:
        """Track these: active, and they never spoke."""
        if at.size == 0:
            return
        self._grow(int(at.max()) + 1)
        self.count = max(self.count, int(at.max()) + 1)
        self.total += at.size
        self.alive[at] = True
        self.marks[at] = self.events[at] = self.holds[at] = _NEVER
        self.heard[at] = self.since[at] = now_us
        self.oldest = min(self.oldest, now_us)
        if self.is_dense and not self.idle.any():
            self._share_holds()
        self._look()

    def restore(self, parts: Mapping[str, PartState], heard_us: Sequence[int]) -> None:
        """Track what was kept of these, each heard at that time."""
        if not parts:
            return
        at = np.array([int(name) for name in parts])
        self.add(at, 0)
        self.own_events()
        self.own_holds()
        self.own_since()
        kept = parts.values()
        self.marks[at] = [_NEVER if part.watermark_us is None else part.watermark_us for part in kept]
        self.idle[at] = [part.idle for part in kept]
        self.holds[at] = np.where(self.idle[at], _NOBODY, self.marks[at])
        self.heard[at] = heard_us
        self.since[at] = [h if part.since_us is None else part.since_us for part, h in zip(kept, heard_us, strict=True)]
        self.oldest = min(heard_us)
        self._look()

    def remove(self, at: NDArray[np.int64]) -> None:
        """Track these no longer."""
        self.own_holds()
        self.total -= at.size
        self.alive[at] = self.idle[at] = False
        self.marks[at] = _NEVER
        self.holds[at] = _NOBODY
        for partition in at.tolist():
            self.cores.pop(partition, None)
        self._look()

    def saw(self, partition: int, event_time: int) -> None:
        """An event with this time came."""
        self.own_events()
        if event_time > self.events[partition]:
            self.events[partition] = min(event_time, _HIGHEST)

    def raise_one(self, partition: int, value: int, now_us: int) -> bool:
        """News of one; whether the least value may be another now."""
        view, before = self.views, self.views.marks[partition]
        is_shared = self.holds is self.marks  # nobody is idle then
        was_idle = not is_shared and view.idle[partition]
        if value > before:
            if self.events is self.marks:
                self.own_events()
            view.marks[partition] = value
            if not is_shared:
                view.holds[partition] = value
        elif was_idle:
            view.holds[partition] = before
        else:
            self.own_since()
            self.views.heard[partition] = now_us
            return False
        view.heard[partition] = view.since[partition] = now_us
        blocks = self.blocks
        if was_idle:
            view.idle[partition] = False
            self.oldest = min(self.oldest, now_us)
        elif partition != (self.low_at if blocks is None else blocks.low_at[partition >> _BLOCK_BITS]):
            return False
        if blocks is None and self.count > _BLOCKS_FROM:
            blocks = self.blocks = _Blocks(self.holds)
        at = int(self.holds.argmin()) if blocks is None else blocks.look(view.holds, partition)
        self.low_at, self.low = at, view.holds[at]
        return True

    def raise_all(self, times: NDArray[np.int64], max_lateness: int, now_us: int) -> None:
        """Events of all, who are active by that. Nothing is looked up: each column is one pass."""
        if self.holds is not self.marks:
            np.putmask(self.since, self.idle, now_us)
            self.idle.fill(False)
            self._share_holds()
        if max_lateness or times.item(times.argmax()) > _HIGHEST:
            self.own_events()
        if self.events is not self.marks:
            np.maximum(self.events, times, out=self.events)
            times = _minus(times, max_lateness)
        marks, risen = self.marks, np.greater(times, self.marks)
        if risen.item(risen.argmin()):  # all of them; the quickest way to ask
            marks[:] = times
            if self.since is not self.heard:
                self._share_since()
        else:
            np.maximum(marks, times, out=marks)
            self.own_since()
            np.putmask(self.since, risen, now_us)
        self.heard.fill(now_us)
        self.oldest = now_us
        self._look()
        if self.low == _NEVER:  # somebody spoke at the very edge of 64 bits, which means that nobody ever did
            np.maximum(marks, _LOWEST, out=marks)
            self._look()

    def hear_many(self, at: NDArray[np.int64], now_us: int) -> None:
        """Signs of life of these; whoever was idle wakes."""
        self.own_since()
        self.heard[at] = now_us
        self.oldest = min(self.oldest, now_us)
        if self.idle.any():
            woken = at[self.idle[at]]
            self.idle[woken] = False
            self.since[woken] = now_us
            self.holds[woken] = self.marks[woken]

    def raise_many(self, at: NDArray[np.int64], times: NDArray[np.int64], max_lateness: int, now_us: int) -> None:
        """Events of these, which are active."""
        before = self.marks.copy()
        self.own_events()
        np.maximum.at(self.events, at, times)
        np.maximum.at(self.marks, at, _minus(times, max_lateness))
        risen = np.flatnonzero(self.marks > before)
        self.since[risen] = now_us
        self.holds[risen] = self.marks[risen]
        self._look()

    def idle_many(self, at: NDArray[np.int64]) -> None:
        """These hold nobody, and are silent since they were last heard."""
        fresh = at[~self.idle[at]]
        self.own_holds()
        self.own_since()
        self.idle[fresh] = True
        self.since[fresh] = self.heard[fresh]
        self.holds[fresh] = _NOBODY
        self._look()

    def idle_since(self, limit_us: int) -> bool:
        """Let all that were not heard after the limit be idle; whether there were any."""
        if self.oldest > limit_us:
            return False
        active = self.alive & ~self.idle
        stale = active & (self.heard <= limit_us)
        self.oldest = int(self.heard[active & ~stale].min(initial=_NOBODY))
        self.idle_many(np.flatnonzero(stale))
        return bool(stale.any())

    def settle(self, all_idle: AllIdle) -> None:
        """Raise the source's own value to what its partitions say now."""
        value = self.low
        if value == _NOBODY:
            value = self.top() if all_idle == "max" else _NEVER
        self.combined = max(self.combined, value)

    def own_events(self) -> None:
        """From now on the latest events are not the marks."""
        if self.events is self.marks:
            self.events = self.marks.copy()

    def own_holds(self) -> None:
        """From now on somebody holds nobody."""
        if self.holds is self.marks:
            self.holds = self.marks.copy()
            self.views = _Views(self)

    def own_since(self) -> None:
        """From now on somebody was heard who did not rise."""
        if self.since is self.heard:
            self.since = self.heard.copy()
            self.views = _Views(self)

    def _share_since(self) -> None:
        """All have risen just now."""
        self.since = self.heard
        self.views = _Views(self)

    def _share_holds(self) -> None:
        """All are active, and there is one in every place: what they hold is their marks."""
        self.holds = self.marks
        self.views = _Views(self)

    def _look(self) -> None:
        self.blocks = None
        if self.holds.size:
            self.low_at = int(self.holds.argmin())
            self.low = self.views.holds[self.low_at]
        else:
            self.low, self.low_at = _NOBODY, 0

    def _grow(self, size: int) -> None:
        have = self.marks.size
        if size <= have:
            return
        if have:
            size = max(size, min(2 * have, MAX_PARTITIONS))
        events = None if self.events is self.marks else _longer(self.events, size, _NEVER)
        since = None if self.since is self.heard else _longer(self.since, size, 0)
        self.own_holds()
        self.holds = _longer(self.holds, size, _NOBODY)
        self.marks = _longer(self.marks, size, _NEVER)
        self.events = self.marks if events is None else events
        self.heard = _longer(self.heard, size, 0)
        self.since = self.heard if since is None else since
        self.alive = np.concatenate([self.alive, np.zeros(size - have, dtype=np.bool_)])
        self.idle = np.concatenate([self.idle, np.zeros(size - have, dtype=np.bool_)])
        self.views = _Views(self)


class _Views:
    """The same memory, one number at a time: a memoryview gives one three times as fast as an array does."""

    __slots__ = ("alive", "heard", "holds", "idle", "marks", "since")

    def __init__(self, parts: _Parts) -> None:
        self.alive: memoryview[int] = parts.alive.data
        self.idle: memoryview[int] = parts.idle.data
        self.marks: memoryview[int] = parts.marks.data
        self.holds: memoryview[int] = parts.holds.data
        self.heard: memoryview[int] = parts.heard.data
        self.since: memoryview[int] = parts.since.data


class _Blocks:
    """The least of each block of a long column: whoever rises is looked for in one block, not in all."""

    __slots__ = ("_least", "_low", "_lowest", "low_at")

    def __init__(self, holds: NDArray[np.int64]) -> None:
        starts = range(0, holds.size, _BLOCK)
        self._least = [holds[start : start + _BLOCK].argmin for start in starts]
        self.low_at = [start + int(least()) for start, least in zip(starts, self._least, strict=True)]
        self._low = holds[self.low_at]
        self._lowest: memoryview[int] = self._low.data

    def look(self, view: memoryview[int], changed: int) -> int:
        """Where the least of all is, after this one has changed. `view` is the same column."""
        block = changed >> _BLOCK_BITS
        self.low_at[block] = at = (block << _BLOCK_BITS) + int(self._least[block]())
        self._lowest[block] = view[at]
        return self.low_at[self._low.argmin()]


def _longer(values: NDArray[np.int64], size: int, fill: int) -> NDArray[np.int64]:
    return np.concatenate([values, np.full(size - values.size, fill, dtype=np.int64)])


def _minus(times: NDArray[np.int64], lateness: int) -> NDArray[np.int64]:
    """The times less the lateness, without falling over an edge of 64 bits."""
    return np.clip(times, _LOWEST + max(lateness, 0), _HIGHEST + min(lateness, 0)) - lateness


def _columns(partitions: ArrayLike, event_times: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    at, times = np.asarray(partitions), np.asarray(event_times)
    if at.shape != times.shape or at.ndim != 1:
        raise ValueError(f"{at.size} partitions do not go with {times.size} event times")
    return _whole(at), _whole(times)


def _whole(column: NDArray[Any]) -> NDArray[np.int64]:
    if column.dtype is _INT64:
        return column
    if column.size and column.dtype.kind not in "iu":
        raise ValueError(f"partitions and event times are whole numbers, not {column.dtype}")
    if column.dtype == np.uint64:
        column = np.minimum(column, np.uint64(_HIGHEST))
    return column.astype(np.int64, copy=False)


def _known(value: int) -> int | None:
    return None if value == _NEVER else value
