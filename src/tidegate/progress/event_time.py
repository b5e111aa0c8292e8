"""Event-time progress as pure functions over a saved state: what a pipeline does with each checkpoint.

The same rules as `progress.partitions.PartitionedWatermarkTracker`, which is for streams of rows, without
NumPy and without a state of its own. Every answer is settled: its `combined_us` is what `combined` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from tidegate import errors
from tidegate.progress.partition_state import PartState, TrackerState

AllIdle: TypeAlias = Literal["max", "hold"]


def with_parts(state: TrackerState, names: Iterable[str], *, now_us: int | None = None) -> TrackerState:
    """The state in which these parts are known too, since now. One that never spoke holds the watermark."""
    added = {name: PartState(since_us=now_us) for name in names if name not in state.parts}
    return replace(state, parts={**state.parts, **added}) if added else state


def without_parts(state: TrackerState, names: Iterable[str], *, all_idle: AllIdle = "max") -> TrackerState:
    """The state in which these parts hold nobody, because they are gone."""
    gone = set(names)
    return _settled({name: part for name, part in state.parts.items() if name not in gone}, state, all_idle)


def observe(
    state: TrackerState,
    maxima: Mapping[str, int],
    *,
    max_lateness_us: int,
    now_us: int,
    all_idle: AllIdle = "max",
    source: str = "?",
) -> TrackerState:
    """The state after events whose latest times are `maxima`, by part; whoever was idle is awake.

    A part that was not made known raises `UnknownPartition`, in the name of `source`.
    """
    heard = {
        name: _raised(_known(state, name, source), latest_us - max_lateness_us, now_us)
        for name, latest_us in maxima.items()
    }
    return _settled({**state.parts, **heard}, state, all_idle)


def judge_idle(
    state: TrackerState,
    quiet_since_us: Mapping[str, int],
    *,
    timeout_us: int | None,
    now_us: int,
    all_idle: AllIdle = "max",
) -> TrackerState:
    """The state in which parts that are known to be quiet for the timeout are idle, all judged at once.

    Whoever calls knows the silence: nothing is left to read, plan or publish of the part since that time.
    Without a timeout nothing becomes idle. Nothing wakes here: `observe` and `woken` do that.
    """
    if timeout_us is None:
        return state
    silent = {
        name: replace(state.parts[name], idle=True, since_us=since_us)
        for name, since_us in quiet_since_us.items()
        if name in state.parts and not state.parts[name].idle and now_us - since_us >= timeout_us
    }
    return _settled({**state.parts, **silent}, state, all_idle) if silent else state


def woken(state: TrackerState, names: Iterable[str], *, now_us: int, all_idle: AllIdle = "max") -> TrackerState:
    """The state in which these parts are not idle: something of them is there and not yet published."""
    awake = {
        name: replace(state.parts[name], idle=False, since_us=now_us)
        for name in names
        if name in state.parts and state.parts[name].idle
    }
    return _settled({**state.parts, **awake}, state, all_idle) if awake else state


def combined(state: TrackerState, all_idle: AllIdle = "max") -> int | None:
    """The value below which no more events are expected: the least of the active parts.

    An active part that never spoke holds it; when all are idle it is the greatest of all, or stays where
    it is (`hold`). It never falls.
    """
    return _combined(state.parts, state.combined_us, all_idle)


def blocking(state: TrackerState) -> str | None:
    """The part that holds the watermark; None when all are idle. One that never spoke is lower than all."""
    active = [name for name, part in state.parts.items() if not part.idle]
    return min(active, key=lambda name: _order(state.parts[name]), default=None)


def _order(part: PartState) -> tuple[bool, int]:
    return part.watermark_us is not None, part.watermark_us or 0


def _known(state: TrackerState, name: str, source: str) -> PartState:
    part = state.parts.get(name)
    if part is None:
        raise errors.UnknownPartition(source=source, partition=name)
    return part


def _raised(part: PartState, watermark_us: int, now_us: int) -> PartState:
    if part.watermark_us is None or watermark_us > part.watermark_us:
        return PartState(watermark_us=watermark_us, since_us=now_us)
    return replace(part, idle=False, since_us=now_us) if part.idle else part


def _settled(parts: Mapping[str, PartState], state: TrackerState, all_idle: AllIdle) -> TrackerState:
    return TrackerState(parts=parts, combined_us=_combined(parts, state.combined_us, all_idle))


def _combined(parts: Mapping[str, PartState], floor_us: int | None, all_idle: AllIdle) -> int | None:
    active = [part.watermark_us for part in parts.values() if not part.idle]
    values = [value for value in active if value is not None]
    if active:
        found = min(values) if len(values) == len(active) else None
    elif all_idle == "max":
        found = max((part.watermark_us for part in parts.values() if part.watermark_us is not None), default=None)
    else:
        found = None
    return max((value for value in (found, floor_us) if value is not None), default=None)
