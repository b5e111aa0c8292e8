"""The partition tracker: the seed's examples, what its original got wrong, and agreement with two slow models."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tidegate import errors
from tidegate.progress import event_time
from tidegate.progress.event_time import AllIdle
from tidegate.progress.partition_state import PartitionId, PartState, TrackerState
from tidegate.progress.partitions import MAX_PARTITIONS, Blocking, PartitionedWatermarkTracker

TIMEOUT_US = 30
LATENESS_US = 3


def p(partition: int, source: int = 0) -> PartitionId:
    """A partition, of source 0 unless said otherwise."""
    return PartitionId(source, partition)


def tracker(*marks: int | None, timeout_us: int | None = TIMEOUT_US) -> PartitionedWatermarkTracker:
    """A tracker of one source, whose partitions are there."""
    made = PartitionedWatermarkTracker(idle_timeout_us=timeout_us)
    made.register_source(0, len(marks))
    for partition, mark in enumerate(marks):
        if mark is not None:
            made.update_partition(p(partition), mark)
    return made


def test_the_seeds_own_example() -> None:
    """Four partitions; the least holds; once it is idle, the next."""
    ours = tracker(5000, 3000, 4000, 4500)
    assert (ours.current_watermark(), ours.metrics().watermark_advances) == (3000, 1)
    assert ours.mark_partition_idle(p(1)) == 4000
    assert (ours.current_watermark(), ours.metrics().watermark_advances) == (4000, 2)


def test_an_update_tells_the_combined_value_only_where_it_rose() -> None:
    """The last of the partitions to speak is the first to move it."""
    ours = tracker(None, None)
    assert ours.update_partition(p(0), 1000) is None
    assert ours.update_partition(p(1), 500) == 500
    assert ours.update_partition(p(1), 500) is None
    assert ours.update_partition(p(1), 400) is None
    assert ours.update_partition(p(1), 2000) == 1000


def test_all_idle_is_the_greatest_of_all() -> None:
    """Or nothing moves, where `hold` was chosen."""
    ours = tracker(5000, 3000)
    assert ours.mark_partition_idle(p(0)) is None
    assert ours.mark_partition_idle(p(1)) == 5000
    held = PartitionedWatermarkTracker(all_idle="hold")
    held.register_source(0, 2)
    held.update_batch([0, 1], [5000, 3000])
    held.mark_partition_idle(p(0))
    assert held.mark_partition_idle(p(1)) is None
    assert (held.current_watermark(), held.source_watermark(0)) == (3000, 3000)


def test_a_woken_partition_freezes_the_value_until_it_has_caught_up() -> None:
    """It is in the minimum at once; what was told stays."""
    ours = tracker(5000, 3000)
    ours.mark_partition_idle(p(1))
    assert ours.update_partition(p(1), 2500) is None
    assert (ours.is_partition_idle(p(1)), ours.partition_watermark(p(1))) == (False, 3000)
    assert ours.update_partition(p(0), 7000) is None
    assert ours.current_watermark() == 5000
    assert ours.update_partition(p(1), 6500) == 6500


def test_a_partition_marked_active_holds_again() -> None:
    """Without an event."""
    ours = tracker(5000, 3000)
    ours.mark_partition_idle(p(1))
    ours.mark_partition_active(p(1), now_us=9)
    assert ours.update_partition(p(0), 9000) is None
    assert ours.blocking() == Blocking(partition=p(1), since_us=9)


def test_partitions_come_and_go_while_it_runs() -> None:
    """The state of one that goes is told, and the value may rise by that; each is counted."""
    ours = tracker(5000, 2000, 4000)
    gone = ours.remove_partition(p(1))
    assert (gone.watermark, gone.is_idle) == (2000, False)
    assert (ours.current_watermark(), ours.metrics().watermark_advances) == (4000, 2)
    ours.add_partition(p(3))
    assert (ours.active_partition_count(0), ours.current_watermark()) == (3, 4000)
    assert ours.update_partition(p(3), 3000) is None
    assert ours.current_watermark() == 4000
    assert ours.metrics().rebalances == 2


def test_removing_a_partition_takes_nothing_back() -> None:
    """Three ways in which the design this follows lets its value fall."""
    woken = tracker(5000, 3000)
    woken.mark_partition_idle(p(1))
    woken.update_partition(p(1), 4000)
    woken.add_partition(p(2))
    woken.remove_partition(p(2))
    assert woken.current_watermark() == 5000
    with_a_new_one = tracker(5000, 4000, 6000)
    with_a_new_one.add_partition(p(3))
    with_a_new_one.remove_partition(p(1))
    assert with_a_new_one.current_watermark() == 4000
    last = tracker(5000)
    last.remove_partition(p(0))
    assert (last.current_watermark(), last.metrics().total_partitions, last.blocking()) == (5000, 0, None)


def test_a_silent_partition_is_idle_at_the_timeout() -> None:
    """Also one that never spoke; and its first event, far behind, takes nothing back."""
    ours = tracker(None, None)
    ours.update_partition(p(0), 5000, now_us=0)
    assert ours.check_idle_partitions(TIMEOUT_US - 1) is None
    ours.update_partition(p(0), 6000, now_us=TIMEOUT_US)
    assert ours.check_idle_partitions(TIMEOUT_US) == 6000
    assert ours.is_partition_idle(p(1))
    assert ours.update_partition(p(1), 100, now_us=TIMEOUT_US) is None
    assert (ours.current_watermark(), ours.source_watermark(0)) == (6000, 6000)


def test_several_silent_partitions_are_judged_at_once() -> None:
    """The value moves once, to what is left; however they are numbered."""
    ours = tracker(1000, 2000, 3000)
    ours.update_partition(p(2), 3000, now_us=20)
    advances = ours.metrics().watermark_advances
    assert ours.check_idle_partitions(TIMEOUT_US) == 3000
    assert ours.metrics().watermark_advances == advances + 1
    assert ours.check_idle_partitions(TIMEOUT_US) is None


def test_without_a_timeout_nothing_becomes_idle() -> None:
    """Nobody guesses."""
    ours = tracker(5000, 3000, timeout_us=None)
    assert ours.check_idle_partitions(10**15) is None
    assert ours.current_watermark() == 3000


def test_nothing_is_known_while_nobody_ever_spoke() -> None:
    """Not even when all are idle."""
    ours = tracker(None, None)
    ours.check_idle_partitions(TIMEOUT_US)
    assert (ours.current_watermark(), ours.source_watermark(0), ours.partition_watermark(p(0))) == (None, None, None)


def test_every_source_has_its_own_value() -> None:
    """And all together theirs."""
    ours = PartitionedWatermarkTracker()
    for source, marks in enumerate([(5000, 3000), (4000, 6000)]):
        ours.register_source(source, 2)
        ours.update_batch([0, 1], marks, source_id=source)
    assert (ours.source_watermark(0), ours.source_watermark(1), ours.current_watermark()) == (3000, 4000, 3000)
    for partition in (0, 1):
        ours.mark_partition_idle(p(partition))
    assert (ours.source_watermark(0), ours.current_watermark()) == (5000, 4000)
    assert ours.blocking() == Blocking(partition=p(0, 1), since_us=0)


def test_counts_are_as_they_are() -> None:
    """Four registered, one idle; two more in another source."""
    ours = tracker(None, None, None, None)
    ours.register_source(1, 2)
    ours.mark_partition_idle(p(2))
    counts = ours.metrics()
    assert (counts.total_partitions, counts.active_partitions, counts.idle_partitions) == (6, 5, 1)
    assert ours.active_partition_count(0) == 3


def test_registering_again_sets_the_count() -> None:
    """More: the old ones stay as they are. Fewer: the others are gone, and hold nobody."""
    ours = tracker(5000, 4000, 1000)
    ours.register_source(0, 4)
    assert (ours.partition_watermark(p(0)), ours.active_partition_count(0)) == (5000, 4)
    ours.register_source(0, 2)
    assert (ours.metrics().total_partitions, ours.current_watermark()) == (2, 4000)
    with pytest.raises(errors.InvalidPartition, match="source 0 has 2 partitions; there is no partition 2"):
        ours.update_partition(p(2), 1)


def test_cores_are_remembered() -> None:
    """Until the partition is gone."""
    ours = tracker(None, None)
    ours.assign_partition_to_core(p(1), 7)
    assert (ours.partition_core(p(0)), ours.partition_core(p(1))) == (None, 7)
    assert ours.remove_partition(p(1)).assigned_core == 7
    ours.add_partition(p(1))
    assert ours.partition_core(p(1)) is None


CALLS: dict[str, Callable[[PartitionedWatermarkTracker, PartitionId], object]] = {
    "update_partition": lambda ours, at: ours.update_partition(at, 1),
    "update_partition_from_event": lambda ours, at: ours.update_partition_from_event(at, 1, 0),
    "update_batch": lambda ours, at: ours.update_batch([0, at.partition], [9, 9], source_id=at.source_id),
    "mark_partition_idle": lambda ours, at: ours.mark_partition_idle(at),
    "mark_partition_active": lambda ours, at: ours.mark_partition_active(at),
    "remove_partition": lambda ours, at: ours.remove_partition(at),
    "partition_watermark": lambda ours, at: ours.partition_watermark(at),
    "is_partition_idle": lambda ours, at: ours.is_partition_idle(at),
    "partition_core": lambda ours, at: ours.partition_core(at),
    "assign_partition_to_core": lambda ours, at: ours.assign_partition_to_core(at, 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    ("at", "error"),
    [
        (p(1), errors.UnknownPartition),
        (p(3), errors.InvalidPartition),
        (p(-1), errors.InvalidPartition),
        (p(0, 9), errors.SourceNotFound),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_changes(
    call: Callable[[PartitionedWatermarkTracker, PartitionId], object], at: PartitionId, error: type[Exception]
) -> None:
    """A removed partition, one beyond the count, a source that nobody registered."""
    ours = tracker(5, 4, 6)
    ours.remove_partition(p(1))
    before = (ours.state(), ours.metrics())
    with pytest.raises(error):
        call(ours, at)
    assert (ours.state(), ours.metrics()) == before


def test_adding_what_cannot_be_added_is_refused() -> None:
    """Twice, to no source, or out of all bounds."""
    ours = tracker(5)
    with pytest.raises(errors.PartitionExists, match="partition 0 of source 0"):
        ours.add_partition(p(0))
    with pytest.raises(errors.SourceNotFound, match="source 4"):
        ours.add_partition(p(0, 4))
    for beyond in (-1, MAX_PARTITIONS):
        with pytest.raises(errors.InvalidPartition):
            ours.add_partition(p(beyond))
    with pytest.raises(ValueError, match="cannot have -1 partitions"):
        ours.register_source(0, -1)


def test_the_edges_of_64_bits_are_no_edges() -> None:
    """A lateness below the lowest time, and a time above the highest, saturate; in both calls alike."""
    lowest, highest = -(2**63), 2**63 - 1
    singly, batch = tracker(None, None), tracker(None, None)
    singly.update_partition_from_event(p(0), lowest + 5, 10)
    singly.update_partition_from_event(p(1), highest, 0)
    batch.update_batch(np.array([0, 0]), np.array([lowest + 5, lowest]), max_lateness=10)
    batch.update_batch(np.array([1]), np.array([2**64 - 1], dtype=np.uint64))
    assert singly.state() == batch.state()
    assert singly.current_watermark() == lowest + 1


def test_events_of_the_future_are_counted_and_move_nothing() -> None:
    """They are a sign of life all the same."""
    for batch in (False, True):
        ours = PartitionedWatermarkTracker(max_future_us=100, idle_timeout_us=TIMEOUT_US)
        ours.register_source(0, 1)
        for event, now_us in [(1100, 1000), (1102, 1001), (1050, 1001)]:
            if batch:
                ours.update_batch([0], [event], now_us=now_us)
            else:
                ours.update_partition_from_event(p(0), event, 0, now_us=now_us)
        assert (ours.current_watermark(), ours.metrics().skewed_events) == (1100, 1)
        assert ours.partition_state(p(0)).last_event_time == 1100
        assert ours.check_idle_partitions(1001 + TIMEOUT_US - 1) is None
        assert not ours.is_partition_idle(p(0))


@pytest.mark.parametrize(
    ("partitions", "times", "why"),
    [
        ([0, 1], [5], "do not go with"),
        ([0.0], [5], "whole numbers"),
        ([0], [5.5], "whole numbers"),
        ([[0]], [[5]], "go with"),
    ],
)
def test_a_batch_that_is_no_two_columns_is_refused(partitions: list[int], times: list[int], why: str) -> None:
    """Nothing is broadcast or rounded quietly."""
    with pytest.raises(ValueError, match=why):
        tracker(None, None).update_batch(partitions, times)


def test_an_empty_batch_is_no_news() -> None:
    """Of anybody."""
    assert tracker(1, 2).update_batch([], []) is None


# Two models. `Plain` is this seed's pseudo-code over a dictionary; `event_time` is what pipelines use.


@dataclass
class PlainPart:
    """A partition of the plain model."""

    heard_us: int
    mark: int | None = None
    idle: bool = False


@dataclass
class Plain:
    """All sources in one dictionary, the value computed from nothing each time."""

    all_idle: AllIdle
    parts: dict[PartitionId, PlainPart] = field(default_factory=dict)
    told: int | None = None

    def settle(self) -> None:
        active = [part.mark for part in self.parts.values() if not part.idle]
        ever = [part.mark for part in self.parts.values() if part.mark is not None]
        value = None
        if active and None not in active:
            value = min(mark for mark in active if mark is not None)
        if not active and ever and self.all_idle == "max":
            value = max(ever)
        if value is not None and (self.told is None or value > self.told):
            self.told = value


@dataclass(frozen=True)
class Event:
    source: int
    partition: int
    time: int
    passed_us: int


@dataclass(frozen=True)
class Batch:
    source: int
    events: tuple[tuple[int, int], ...]
    passed_us: int


@dataclass(frozen=True)
class All:
    source: int
    times: tuple[int, int, int, int]
    passed_us: int


@dataclass(frozen=True)
class Mark:
    source: int
    partition: int
    mark: int
    passed_us: int


@dataclass(frozen=True)
class Look:
    passed_us: int


@dataclass(frozen=True)
class Idle:
    source: int
    partition: int


@dataclass(frozen=True)
class Wake:
    source: int
    partition: int


@dataclass(frozen=True)
class Add:
    source: int
    partition: int


@dataclass(frozen=True)
class Remove:
    source: int
    partition: int


Step = Event | Batch | All | Mark | Look | Idle | Wake | Add | Remove
SOURCE, PARTITION = st.integers(0, 1), st.integers(0, 3)
PASSED, TIME = st.integers(0, 20), st.integers(-50, 50)
STEPS = st.lists(
    st.one_of(
        st.builds(Event, SOURCE, PARTITION, TIME, PASSED),
        st.builds(Batch, SOURCE, st.lists(st.tuples(PARTITION, TIME), max_size=6).map(tuple), PASSED),
        st.builds(All, SOURCE, st.tuples(TIME, TIME, TIME, TIME), PASSED),
        st.builds(Mark, SOURCE, PARTITION, TIME, PASSED),
        st.builds(Look, PASSED),
        st.builds(Idle, SOURCE, PARTITION),
        st.builds(Wake, SOURCE, PARTITION),
        st.builds(Add, SOURCE, PARTITION),
        st.builds(Remove, SOURCE, PARTITION),
    ),
    max_size=25,
)
ALL_IDLE: st.SearchStrategy[AllIdle] = st.sampled_from(["max", "hold"])


def fits(step: Step, there: set[PartitionId]) -> bool:
    """Whether the step can be done with these partitions."""
    match step:
        case Look() | All():
            return True
        case Add():
            return PartitionId(step.source, step.partition) not in there
        case Batch():
            return all(PartitionId(step.source, partition) in there for partition, _ in step.events)
        case _:
            return PartitionId(step.source, step.partition) in there


def there_of(ours: PartitionedWatermarkTracker, source: int) -> list[int]:
    """The partitions of a source, ascending."""
    return sorted(int(name) for name in ours.state(source).parts)


def do(ours: PartitionedWatermarkTracker, step: Step, now_us: int) -> int | None:
    """The step, on the tracker."""
    match step:
        case All(source, times):
            values = [times[partition] for partition in there_of(ours, source)]
            return ours.update_all(
                np.array(values, dtype=np.int64), source_id=source, max_lateness=LATENESS_US, now_us=now_us
            )
        case Mark(source, partition, mark):
            return ours.update_partition(p(partition, source), mark, now_us=now_us)
        case Event(source, partition, time):
            return ours.update_partition_from_event(p(partition, source), time, LATENESS_US, now_us=now_us)
        case Batch(source, events):
            at, times = [partition for partition, _ in events], [time for _, time in events]
            columns = np.array(at, dtype=np.int32), np.array(times, dtype=np.int64)
            return ours.update_batch(*columns, source_id=source, max_lateness=LATENESS_US, now_us=now_us)
        case Look():
            return ours.check_idle_partitions(now_us)
        case Idle(source, partition):
            return ours.mark_partition_idle(p(partition, source))
        case Wake(source, partition):
            ours.mark_partition_active(p(partition, source), now_us=now_us)
        case Add(source, partition):
            ours.add_partition(p(partition, source), now_us=now_us)
        case Remove(source, partition):
            ours.remove_partition(p(partition, source))
    return None


def do_plainly(model: Plain, step: Step, now_us: int) -> None:
    """The step, on the model."""
    match step:
        case Event(source, partition, time):
            do_plainly(model, Batch(source, ((partition, time),), 0), now_us)
        case Mark(source, partition, mark):
            do_plainly(model, Batch(source, ((partition, mark + LATENESS_US),), 0), now_us)
        case All(source, times):
            here = sorted(at.partition for at in model.parts if at.source_id == source)
            do_plainly(model, Batch(source, tuple((at, times[at]) for at in here), 0), now_us)
        case Batch(source, events):
            for partition, time in events:
                part = model.parts[p(partition, source)]
                part.heard_us, part.idle = now_us, False
                part.mark = max(time - LATENESS_US, time - LATENESS_US if part.mark is None else part.mark)
        case Look():
            for part in model.parts.values():
                part.idle = part.idle or now_us - part.heard_us >= TIMEOUT_US
        case Idle(source, partition):
            model.parts[p(partition, source)].idle = True
        case Wake(source, partition):
            part = model.parts[p(partition, source)]
            part.heard_us, part.idle = now_us, False
        case Add(source, partition):
            model.parts[p(partition, source)] = PlainPart(heard_us=now_us)
        case Remove(source, partition):
            del model.parts[p(partition, source)]
    model.settle()


def agrees(kind: type[PartitionedWatermarkTracker], all_idle: AllIdle, steps: list[Step]) -> bool:
    """Whether the tracker and the plain model say the same after every step."""
    ours = kind(idle_timeout_us=TIMEOUT_US, all_idle=all_idle)
    model, now_us = Plain(all_idle), 0
    for source in (0, 1):
        ours.register_source(source, 2)
        model.parts |= {p(partition, source): PlainPart(heard_us=0) for partition in (0, 1)}
    for step in steps:
        now_us += getattr(step, "passed_us", 0)
        if not fits(step, set(model.parts)):
            continue
        before = model.told
        answer = do(ours, step, now_us)
        do_plainly(model, step, now_us)
        if answer != (model.told if model.told != before and not isinstance(step, Wake | Add | Remove) else None):
            return False
        if ours.current_watermark() != model.told:
            return False
        for partition, part in model.parts.items():
            if (ours.partition_watermark(partition), ours.is_partition_idle(partition)) != (part.mark, part.idle):
                return False
    counts = ours.metrics()
    return (counts.total_partitions, counts.idle_partitions) == (
        len(model.parts),
        sum(part.idle for part in model.parts.values()),
    )


@given(ALL_IDLE, STEPS)
def test_the_tracker_follows_the_pseudo_code_of_the_seed(all_idle: AllIdle, steps: list[Step]) -> None:
    """Values, idleness, answers and counts, over two sources, after every step."""
    assert agrees(PartitionedWatermarkTracker, all_idle, steps)


class Falling(PartitionedWatermarkTracker):
    """A broken one: the value follows whoever wakes."""

    def current_watermark(self) -> int | None:
        value = self._value()
        return None if value in (-(2**63), None) else value


class Deaf(PartitionedWatermarkTracker):
    """A broken one: an old event does not wake its partition."""

    def update_partition_from_event(
        self, partition: PartitionId, event_time: int, max_lateness: int, *, now_us: int | None = None
    ) -> int | None:
        known = self.partition_watermark(partition)
        if known is not None and event_time - max_lateness <= known:
            return None
        return super().update_partition_from_event(partition, event_time, max_lateness, now_us=now_us)


TRIES = settings(database=None, derandomize=True, max_examples=500, phases=[Phase.generate])
FEW_KINDS = st.lists(
    st.one_of(
        st.builds(Event, SOURCE, PARTITION, TIME, PASSED),
        st.builds(Idle, SOURCE, PARTITION),
        st.builds(Wake, SOURCE, PARTITION),
    ),
    max_size=25,
)


@pytest.mark.parametrize("broken", [Falling, Deaf])
def test_the_comparison_finds_a_broken_tracker(broken: type[PartitionedWatermarkTracker]) -> None:
    """A harness that cannot fail is no test."""
    assert find(FEW_KINDS, lambda steps: not agrees(broken, "max", steps), settings=TRIES)


@given(ALL_IDLE, STEPS)
def test_pipelines_and_the_tracker_have_the_same_rules(all_idle: AllIdle, steps: list[Step]) -> None:
    """The pure functions over a saved state give the tracker's state, after every step, with every time in it."""
    ours = PartitionedWatermarkTracker(idle_timeout_us=TIMEOUT_US, all_idle=all_idle)
    ours.register_source(0, 2)
    state = event_time.with_parts(TrackerState(), ["0", "1"], now_us=0)
    heard_us, now_us = {"0": 0, "1": 0}, 0
    for step in steps:
        now_us += getattr(step, "passed_us", 0)
        there = {p(int(name)) for name in state.parts}
        if not fits(step, there) or getattr(step, "source", 0) == 1:
            continue
        do(ours, step, now_us)
        maxima: dict[str, int] = {}
        match step:
            case Event(_, partition, time):
                maxima = {str(partition): time}
            case Mark(_, partition, mark):
                maxima = {str(partition): mark + LATENESS_US}
            case All(_, times):
                maxima = {name: times[int(name)] for name in state.parts}
            case Batch(_, events):
                for partition, time in events:
                    maxima[str(partition)] = max(time, maxima.get(str(partition), time))
            case Look():
                state = event_time.judge_idle(state, heard_us, timeout_us=TIMEOUT_US, now_us=now_us, all_idle=all_idle)
            case Idle(_, partition):
                quiet = {str(partition): heard_us[str(partition)]}
                state = event_time.judge_idle(state, quiet, timeout_us=0, now_us=now_us, all_idle=all_idle)
            case Wake(_, partition):
                state = event_time.woken(state, [str(partition)], now_us=now_us, all_idle=all_idle)
                heard_us[str(partition)] = now_us
            case Add(_, partition):
                state = event_time.with_parts(state, [str(partition)], now_us=now_us)
                heard_us[str(partition)] = now_us
            case Remove(_, partition):
                state = event_time.without_parts(state, [str(partition)], all_idle=all_idle)
        if maxima:
            state = event_time.observe(state, maxima, max_lateness_us=LATENESS_US, now_us=now_us, all_idle=all_idle)
            heard_us |= dict.fromkeys(maxima, now_us)
        assert ours.state() == state
        assert ours.current_watermark() == event_time.combined(state, all_idle) == ours.source_watermark(0)
        holder = ours.blocking()
        named = None if holder is None else state.parts[str(holder.partition.partition)]
        name = event_time.blocking(state)
        assert (named and named.watermark_us) == (name and state.parts[name].watermark_us)


def on_source_0(step: Step) -> Step:
    """The same step, for a tracker of one source."""
    return step if isinstance(step, Look) else replace(step, source=0)


@given(ALL_IDLE, STEPS, STEPS)
def test_a_restored_tracker_goes_on_as_the_first(all_idle: AllIdle, steps: list[Step], more: list[Step]) -> None:
    """Values and idleness survive; so does a silence, where somebody knows of it."""
    first = PartitionedWatermarkTracker(idle_timeout_us=TIMEOUT_US, all_idle=all_idle)
    first.register_source(0, 4)
    now_us = 0
    run, then = (
        [step for step in some if isinstance(step, Event | Batch | All | Mark | Look | Idle | Wake)]
        for some in (steps, more)
    )
    for step in run:
        now_us += getattr(step, "passed_us", 0)
        do(first, on_source_0(step), now_us)
    again = PartitionedWatermarkTracker(idle_timeout_us=TIMEOUT_US, all_idle=all_idle)
    heard = {str(n): first.partition_state(p(n)).last_activity_us for n in range(4)}
    kept = TrackerState.from_json(first.state().to_json())
    again.restore(kept, now_us=now_us, quiet_since_us=heard)
    assert (again.state(), again.current_watermark()) == (kept, first.current_watermark())
    for step in then:
        now_us += getattr(step, "passed_us", 0)
        assert do(again, on_source_0(step), now_us) == do(first, on_source_0(step), now_us)
    assert again.state() == first.state()


def test_a_restored_partition_whose_silence_nobody_knows_starts_anew() -> None:
    """It holds for a whole timeout."""
    ours = PartitionedWatermarkTracker(idle_timeout_us=TIMEOUT_US)
    kept = TrackerState(parts={"0": PartState(watermark_us=9, since_us=1), "1": PartState(since_us=0)})
    ours.restore(kept, now_us=1000, quiet_since_us={"0": 980})
    assert ours.check_idle_partitions(980 + TIMEOUT_US) is None
    assert (ours.is_partition_idle(p(0)), ours.is_partition_idle(p(1))) == (True, False)
    assert ours.check_idle_partitions(1000 + TIMEOUT_US) == 9


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(-(10**6), 10**6)), max_size=60), st.integers(0, 1000))
def test_a_batch_is_each_event_after_the_other(events: list[tuple[int, int]], lateness: int) -> None:
    """In any order and over any number of partitions."""
    batch, singly = tracker(*[None] * 41), tracker(*[None] * 41)
    batch.update_batch(
        np.array([partition for partition, _ in events], dtype=np.int64),
        np.array([time for _, time in events], dtype=np.int64),
        max_lateness=lateness,
        now_us=5,
    )
    for partition, time in events:
        singly.update_partition_from_event(p(partition), time, lateness, now_us=5)
    assert batch.state() == singly.state()
    states = [[one.partition_state(p(n)) for n in range(41)] for one in (batch, singly)]
    assert states[0] == states[1]


COLUMN = st.lists(st.integers(-50, 50), min_size=5, max_size=5)


@given(st.lists(st.tuples(COLUMN, st.integers(0, 3)), max_size=4), st.sets(st.integers(0, 4)), st.booleans())
def test_news_of_all_is_a_batch_with_all(
    columns: list[tuple[list[int], int]], idle: set[int], without_lateness: bool
) -> None:
    """Also between other news, with a partition gone, and with a lateness or none."""
    at_once, batch = tracker(*[None] * 5), tracker(*[None] * 5)
    for now_us, (times, gone) in enumerate(columns):
        for ours in (at_once, batch):
            for partition in sorted(idle - {gone}):
                ours.mark_partition_idle(p(partition))
        lateness = 0 if without_lateness else LATENESS_US
        answers = (
            at_once.update_all(times, max_lateness=lateness, now_us=now_us),
            batch.update_batch(range(5), times, max_lateness=lateness, now_us=now_us),
        )
        assert answers[0] == answers[1]
        if gone == now_us:
            for ours in (at_once, batch):
                ours.update_partition(p(gone), 60)
        states = [[ours.partition_state(p(n)) for n in range(5)] for ours in (at_once, batch)]
        assert states[0] == states[1]


def test_news_of_all_reaches_the_edges_of_64_bits_and_the_future_as_a_batch_does() -> None:
    """The very lowest and highest times are times; what is too far ahead is counted."""
    for times in ([-(2**63), 5], [2**63 - 1, 5]):
        at_once, batch = tracker(None, None), tracker(None, None)
        at_once.update_all(times)
        batch.update_batch([0, 1], times)
        assert at_once.state() == batch.state()
        assert at_once.current_watermark() == batch.current_watermark()
    ours = PartitionedWatermarkTracker(max_future_us=10, now_us=100)
    ours.register_source(0, 2)
    assert ours.update_all([110, 110]) == 110
    assert ours.update_all([111, 120], now_us=100) is None
    assert ours.metrics().skewed_events == 2


def test_news_of_all_is_one_time_for_each() -> None:
    """Fewer or more are refused; of nobody there is no news."""
    with pytest.raises(ValueError, match="1 event times do not go with 2 partitions"):
        tracker(None, None).update_all([1])
    with pytest.raises(ValueError, match="whole numbers"):
        tracker(None).update_all([1.5])
    assert tracker().update_all([]) is None


@given(st.lists(st.none() | st.integers(0, 9), min_size=4, max_size=4), st.permutations(range(4)), st.integers(0, 4))
def test_the_order_in_which_partitions_go_idle_is_irrelevant(
    marks: list[int | None], order: list[int], count: int
) -> None:
    """The value at the end is that of who is left, or the greatest of all: not of who went last."""
    ours, by_number = tracker(*marks), tracker(*marks)
    for partition in order[:count]:
        ours.mark_partition_idle(p(partition))
    for partition in sorted(order[:count]):
        by_number.mark_partition_idle(p(partition))
    assert ours.current_watermark() == by_number.current_watermark()
    assert ours.blocking() == by_number.blocking()


def test_among_thousands_the_least_is_found_after_every_single_rise() -> None:
    """The search in blocks tells what a search through all would tell."""
    ours, marks = tracker(*[0] * 2000), [0] * 2000
    order = [*range(0, 2000, 7), *range(0, 2000, 3), *range(2000), *range(1999, 0, -5), 1999, 0, 1]
    for step, partition in enumerate(order):
        marks[partition] = marks[partition] + 1 + step % 5
        ours.update_partition(p(partition), marks[partition])
        assert ours.current_watermark() == min(marks)
        if step % 500 == 499:
            ours.mark_partition_idle(p(partition))
            ours.update_partition(p(partition), 0)


def test_a_hundred_thousand_partitions_are_registered_and_updated_in_no_time() -> None:
    """Each registration and update looks at what it must, not at all of them for each one."""
    ours = PartitionedWatermarkTracker()
    ours.register_source(0, 100_000)
    ours.update_batch(np.arange(100_000), np.arange(100_000) + 7)
    assert ours.current_watermark() == 7
    assert ours.blocking() == Blocking(partition=p(0), since_us=0)


def test_a_source_may_have_as_many_partitions_as_there_may_be() -> None:
    ours = PartitionedWatermarkTracker()
    ours.register_source(0, MAX_PARTITIONS)
    assert ours.metrics().total_partitions == MAX_PARTITIONS
    with pytest.raises(ValueError, match="cannot have"):
        ours.register_source(0, MAX_PARTITIONS + 1)


def test_partitions_that_a_registration_takes_away_are_counted() -> None:
    ours = tracker(1, 2, 3, 4)
    ours.register_source(0, 1)
    assert ours.metrics().rebalances == 3


@pytest.mark.parametrize(("first", "second", "holder"), [(9, 5, 1), (5, 9, 0)])
def test_the_source_with_the_least_value_blocks(first: int, second: int, holder: int) -> None:
    """Not the first, and not the last."""
    ours = tracker(first)
    ours.register_source(1, 1)
    ours.update_partition(p(0, 1), second)
    assert ours.blocking() == Blocking(partition=p(0, holder), since_us=0)


def test_the_partition_that_does_not_fit_is_named() -> None:
    """Not one that does."""
    with pytest.raises(errors.InvalidPartition) as refused:
        tracker(5, 5, 5).update_batch([0, 2, 7], [9, 9, 9])
    assert (refused.value.fields["partition"], refused.value.fields["count"]) == (7, 3)


def test_a_partition_that_is_added_is_the_last_there_is() -> None:
    """However far beyond the others it is, and whatever room was made for more."""
    ours = tracker(5, 6)
    ours.add_partition(p(10))
    ours.update_partition(p(10), 7)
    assert ours.partition_watermark(p(10)) == 7
    with pytest.raises(errors.InvalidPartition, match="source 0 has 11 partitions; there is no partition 11"):
        ours.update_partition(p(11), 1)


def test_room_for_one_more_is_not_room_for_all_there_may_be() -> None:
    ours = tracker(*[1] * 10)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    ours.add_partition(p(10))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 100_000


def test_an_idle_partition_holds_nobody_when_others_fill_the_room() -> None:
    ours = tracker(None, 50)
    ours.mark_partition_idle(p(0))
    for partition in (2, 3):
        ours.add_partition(p(partition))
        ours.update_partition(p(partition), 60)
    assert ours.current_watermark() == 50
    assert ours.update_partition(p(1), 55) == 55


def test_what_is_known_of_a_partition_outlives_room_for_more() -> None:
    """Its latest event beside its watermark, and since when it has that beside when it was last heard."""
    ours = tracker(None)
    ours.update_partition_from_event(p(0), 100, 10, now_us=5)
    ours.update_partition(p(0), 1, now_us=9)
    ours.add_partition(p(1))
    state = ours.partition_state(p(0))
    assert (state.watermark, state.last_event_time, state.since_us, state.last_activity_us) == (90, 100, 5, 9)


def test_a_partition_that_woke_may_fall_silent_again() -> None:
    """Also when nobody else was awake."""
    ours = tracker(1)
    ours.check_idle_partitions(TIMEOUT_US)
    ours.update_partition(p(0), 2, now_us=100)
    ours.check_idle_partitions(99 + TIMEOUT_US)
    assert not ours.is_partition_idle(p(0))
    ours.check_idle_partitions(100 + TIMEOUT_US)
    assert ours.is_partition_idle(p(0))


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("lateness", [5, -5])
def test_a_lateness_counts_from_the_highest_time(beyond: int, lateness: int) -> None:
    """A later event counts as one at that time, and a lateness below nothing leads no further."""
    highest, ours = 2**63 - 2, tracker(None)
    ours.update_batch([0], np.array([highest + beyond]), max_lateness=lateness)
    assert ours.partition_watermark(p(0)) == highest - max(lateness, 0)
