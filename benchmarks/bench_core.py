"""The exact core: what one call costs, and what a partition, a completion or a verdict does."""

from __future__ import annotations

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice

import numpy as np

from benchmarks.measure import Measure
from tidegate.progress.board import Board, Gated
from tidegate.progress.commits import CommitTracker
from tidegate.progress.cut import Choice, InputState, Mode
from tidegate.progress.groups import Group
from tidegate.progress.partition_state import PartitionId
from tidegate.progress.partitions import PartitionedWatermarkTracker
from tidegate.progress.watermarks import Vector, Watermark

# Many rounds that are shorter than a slice of the scheduler: most of them are not interrupted.
ROUNDS = 300
SINGLE = 3_000


def measures() -> list[Measure]:
    """Every figure is the best round: of pure computing, all that a noisy machine adds is noise."""
    return [*_batches(), *_singles(), *_reads(), _memory(), *_completions(), *_verdicts()]


def _tracker(partitions: int) -> PartitionedWatermarkTracker:
    tracker = PartitionedWatermarkTracker(idle_timeout_us=30_000_000)
    tracker.register_source(0, partitions)
    tracker.update_all(np.zeros(partitions, dtype=np.int64), now_us=0)
    return tracker


def _batches() -> Iterator[Measure]:
    for partitions, target in ((100, 20.0), (10_000, 1.0)):
        calls = max(20, 20_000 // partitions)
        yield _measure(
            f"tracker: news of all {partitions:,} partitions",
            "ns a partition",
            target,
            lambda p=partitions, c=calls: _all_at_once(p, c),
            note="update_all, in which every partition rises, and the combined value with it; six passes over the"
            " arrays are left, whose calls alone take 11 ns a partition at 100, and the Python around them the rest",
        )


def _all_at_once(partitions: int, calls: int) -> float:
    tracker, values = _tracker(partitions), np.arange(partitions, dtype=np.int64)
    columns = [values + step for step in range(1, calls + 1)]
    update = tracker.update_all
    began = time.perf_counter_ns()
    for now_us, column in enumerate(columns):
        update(column, now_us=now_us)
    return (time.perf_counter_ns() - began) / calls / partitions


def _singles() -> Iterator[Measure]:
    for partitions, target in ((100, 300.0), (10_000, 1_100.0)):
        drawn = np.random.default_rng(7).integers(0, partitions, SINGLE).tolist()
        by_turns = list(islice(cycle(range(partitions)), SINGLE))
        orders = {"in random order": drawn, "by turns, the least each time": by_turns}
        for name, order in orders.items():
            yield _measure(
                f"tracker: one update of {partitions:,} partitions, {name}",
                "ns",
                1_100.0 if order is by_turns else target,
                lambda p=partitions, o=order: _one_by_one(p, o),
                note="update_partition with the combined value, and the loop; by turns is the bound: each call looks."
                " Made quicker by memoryviews, by"
                " columns that are shared until they differ, and by the least of blocks; what is left is the Python of"
                " two calls, of which one could be spared (35 ns) by saying the rules twice",
            )


def _one_by_one(partitions: int, order: Sequence[int]) -> float:
    tracker = _tracker(partitions)
    sequence = [(PartitionId(0, partition), step) for step, partition in enumerate(order, 1)]
    update = tracker.update_partition
    update(*sequence[0])
    began = time.perf_counter_ns()
    for partition, watermark in sequence:
        update(partition, watermark)
    return (time.perf_counter_ns() - began) / len(sequence)


def _reads() -> Iterator[Measure]:
    tracker = _tracker(100)
    yield _measure("tracker: the combined value, read", "ns", 50.0, lambda: _each(tracker.current_watermark))
    yield _measure(
        "tracker: idle check of 100 partitions, none stale",
        "ns",
        1_000.0,
        lambda: _each(partial(tracker.check_idle_partitions, 1_000)),
    )


def _each(call: Callable[[], object], calls: int = SINGLE) -> float:
    began = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - began) / calls


def _memory() -> Measure:
    tracker = _sized(lambda: _tracker(100_000))
    return Measure(
        name="tracker: memory of 100,000 partitions",
        value=tracker / 100_000,
        unit="bytes a partition",
        target=32.0,
        note="8 more once a lateness or single calls keep the latest event beside the watermark, once somebody was"
        " heard who did not rise, and once one was idle: 42 at most",
    )


def _sized(make: Callable[[], object]) -> int:
    """What is left allocated by making it."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del made
    return size


def _completions() -> Iterator[Measure]:
    million = list(range(1_000_000))
    random.Random(7).shuffle(million)
    yield _measure(
        "commits: a million completions in random order", "ns each", 1_000.0, lambda: _complete(million), rounds=3
    )
    gaps = [number for number in million if number % 1000]
    yield Measure(
        name="commits: memory of a million completions with 1,000 gaps",
        value=_sized(lambda: _completed(gaps)) / 1_000,
        unit="bytes a gap",
        target=512.0,
        note="a gap keeps its block of 1,024 numbers as bits; without gaps nothing is kept",
    )


def _complete(numbers: Sequence[int]) -> float:
    tracker = CommitTracker(0)
    complete = tracker.complete_one
    began = time.perf_counter_ns()
    for number in numbers:
        complete(number)
    return (time.perf_counter_ns() - began) / len(numbers)


def _completed(numbers: Sequence[int]) -> CommitTracker:
    tracker = CommitTracker(0)
    for number in numbers:
        tracker.complete_one(number)
    return tracker


SOURCES, GROUPS, TABLES = 5_000, 1_000, 10_000


def _verdicts() -> Iterator[Measure]:
    states, tables = _project()
    judged = "verdicts: 10,000 tables over 1,000 groups and 5,000 sources"
    yield _measure(
        f"{judged}, from scratch",
        "ms",
        50.0,
        lambda: _from_scratch(tables, states),
        rounds=15,
        note="a board made of all that is there, which is most of it, and all standings; a fifth are closed",
    )
    board = Board(tables, states)
    board.standings(now_us=0)
    yield _measure(
        f"{judged}, one source advanced",
        "ms",
        1.0,
        lambda: _advanced(board, states),
        note="the mean of 20 sources: their tables are judged again, and one whose standing changed is explained",
    )


def _project() -> tuple[list[InputState], list[Gated]]:
    """Sources of one lake table each; a table reads two or three of its group, every fifth one of the next too."""
    rng, size = random.Random(7), SOURCES // GROUPS
    states = [_state(number, rng.randrange(0, 4)) for number in range(SOURCES)]
    groups = [
        Group(name=f"g{n}", sources=tuple(f"s{at}" for at in range(n * size, (n + 1) * size)), tolerance=2)
        for n in range(GROUPS)
    ]
    tables = []
    for number in range(TABLES):
        at = number % GROUPS
        read = rng.sample(range(at * size, (at + 1) * size), 2 + number % 2)
        heeded = [groups[at]]
        if number % 5 == 0:
            read.append((at + 1) % GROUPS * size)
            heeded.append(groups[(at + 1) % GROUPS])
        inputs = tuple(f"t{one}" for one in read)
        tables.append(Gated(name=f"table{number}", mode=Mode.GATE, inputs=inputs, groups=tuple(heeded)))
    return states, tables


def _state(number: int, value: int) -> InputState:
    source = f"s{number}"
    choice = Choice(version=value, vector=Vector({source: Watermark.of_micros(value)}))
    return InputState(name=f"t{number}", roots=frozenset((source,)), choices=(choice,))


def _from_scratch(tables: Sequence[Gated], states: Sequence[InputState]) -> float:
    began = time.perf_counter_ns()
    board = Board(tables, states)
    board.standings(now_us=0)
    return (time.perf_counter_ns() - began) / 1e6


def _advanced(board: Board, states: Sequence[InputState]) -> float:
    moves = [(_state(number, 9), states[number]) for number in range(0, SOURCES, SOURCES // 20)]
    began = time.perf_counter_ns()
    for there, _ in moves:
        for name in board.put(there, now_us=0)[:1]:
            board.verdict(name, now_us=0)
    spent = (time.perf_counter_ns() - began) / 1e6 / len(moves)
    for _, back in moves:
        board.put(back, now_us=0)
    return spent


def _measure(
    name: str, unit: str, target: float, once: Callable[[], float], *, rounds: int = ROUNDS, note: str = ""
) -> Measure:
    with _no_collection():
        figures = [once() for _ in range(rounds)]
    return Measure(
        name=name, value=statistics.median(figures), unit=unit, target=target, raw={"rounds": figures}, note=note
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
