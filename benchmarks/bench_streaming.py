"""Checkpoints of 10,000 rows, each in a Spark job of its own, against Structured Streaming with a file a trigger."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import workbench
from benchmarks.baselines import streaming
from benchmarks.measure import Measure, interleaved, median_ratio

ROWS = 10_000
CHECKPOINTS = 12
ROUNDS = 5
WARMUPS = 2


def measures() -> list[Measure]:
    """How many times as fast, into Delta with one and with four batches in flight, and into Parquet."""
    with workbench.room() as room, workbench.warm_spark(room) as spark:
        files = room / "files"
        for number in range(CHECKPOINTS):
            workbench.write_orders(files / f"{number:08d}.json", ROWS, first_id=number * ROWS)
        sides = {
            "stream_delta": _stream(spark, room, files, "delta"),
            "tidegate_delta_1": _tidegate(room, files, "delta", 1),
            "tidegate_delta_4": _tidegate(room, files, "delta", 4),
            "stream_parquet": _stream(spark, room, files, "parquet"),
            "tidegate_parquet_1": _tidegate(room, files, "parquet", 1),
        }
        raw = interleaved(ROUNDS, WARMUPS, **sides)
    return [
        _measure("into Delta, one in flight", raw, "stream_delta", "tidegate_delta_1", 3.0),
        _measure("into Delta, four in flight", raw, "stream_delta", "tidegate_delta_4", 5.0),
        _measure("into Parquet, one in flight", raw, "stream_parquet", "tidegate_parquet_1", 1.2),
    ]


def _measure(what: str, raw: dict[str, list[float]], theirs: str, ours: str, target: float) -> Measure:
    return Measure(
        name=f"faster than Structured Streaming {what}",
        value=median_ratio(raw, theirs, ours),
        unit="times",
        target=target,
        at_most=False,
        raw={theirs: raw[theirs], ours: raw[ours]},
        note=f"{CHECKPOINTS} checkpoints of {ROWS:,} rows, one a Spark job; seconds",
    )


def _stream(spark: SparkSession, room: Path, files: Path, sink: str) -> Callable[[], None]:
    turns = count()

    def once() -> None:
        place = room / f"stream-{sink}-{next(turns)}"
        target, state = str(place / "out"), str(place / "state")
        streaming.run(spark, str(files), workbench.SCHEMA, workbench.clean, target, state, sink=sink)

    return once


def _tidegate(room: Path, files: Path, sink: str, inflight: int) -> Callable[[], None]:
    largest = max(path.stat().st_size for path in files.iterdir())
    projects = (
        workbench.Project(
            room / f"tidegate-{sink}-{inflight}-{turn}",
            sink=sink,
            batch={"max_bytes": largest, "max_inflight": inflight},
            files=files,
        )
        for turn in count()
    )

    def once() -> None:
        next(projects).run(expect_end=CHECKPOINTS)

    return once
