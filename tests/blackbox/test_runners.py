"""What a runner does beside others and beside itself: one at a time, killed and started again, many batches at once."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.harness import SPARK, Project, named, wait_for

pytestmark = pytest.mark.spark

YAML = """\
sources:
  events:
    type: numbered
    path: incoming/{number}.json
    format: json
    schema: "id BIGINT, checkpoint BIGINT"
    first_checkpoint: 0
pipelines:
  events:
    source: events
    batch: {max_bytes: 100, max_inflight: 2}
    # TRANSFORM
    sinks:
      - {name: lake, type: delta, table: events}
      - {name: files, type: parquet, path: out/files}
"""


def drop(project: Project, *numbers: int) -> None:
    for number in numbers:
        project.rows(f"incoming/{number}.json", [{"id": number * 10 + i, "checkpoint": number} for i in range(3)])


def ids_of(*numbers: int) -> list[int]:
    return [number * 10 + i for number in numbers for i in range(3)]


def events_of(project: Project) -> list[dict[str, Any]]:
    """What the runs have logged so far."""
    log = project.root / ".tidegate" / "logs" / "run.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_runner_keeps_others_out_and_is_replaced_at_once_when_it_was_killed(
    make_project: Callable[..., Project],
) -> None:
    """A second `run` is refused with exit 4 while the first lives; after kill -9 every id is there once."""
    project = make_project(YAML)
    drop(project, *range(12))
    first = project.start("run")
    try:
        wait_for("a plan", lambda: any(one["event"] == "batch_planned" for one in events_of(project)))
        second = project.tg("run", "--once", expect=4)
        code, hint = second.err.splitlines()[-2:]
        assert code.startswith(f"TG-R002 events is run by pid {first.pid} on ")
        assert "tidegate stop events" in hint
        assert first.poll() is None
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()

    lost = project.pipeline("events")
    assert (lost["state"], lost["in_flight"]) == ("failed", [])
    assert "lost" in lost["reason"]
    project.tg("run", "--once")
    events = project.pipeline("events")
    assert (events["state"], events["published_hi_inclusive"], events["gaps"]) == ("idle", 11, [])
    assert project.ids("events") == ids_of(*range(12))
    assert [sink["rows"] for sink in events["sinks"]] == [36, 36]


HOLD = '''\
"""Holds the rows of checkpoint 0 in the middle of their job until somebody says go."""

import time
from pathlib import Path

from pyspark.sql import functions as F

GO = Path(__file__).parents[1] / "go"


def hold(df):
    def held(number):
        while number == 0 and not GO.exists():
            time.sleep(0.05)
        return number

    return df.withColumn("checkpoint", F.udf(held, "bigint", useArrow=False)("checkpoint"))
'''


def test_batches_run_at_once_and_a_later_one_may_be_delivered_first(
    make_project: Callable[..., Project], tmp_path: Path
) -> None:
    """While checkpoint 0 is still computed 1 to 3 are delivered and stored; readers see none before 0."""
    log = tmp_path / "spark-events"
    log.mkdir()
    more = f"""\
    spark.eventLog.enabled: true
    spark.eventLog.dir: {log.as_uri()}
    spark.eventLog.rolling.enabled: false
    spark.eventLog.compress: false
"""
    yaml = YAML.replace("# TRANSFORM", "transform: pipelines/hold.py:hold")
    project = make_project(yaml, spark=SPARK + more)
    project.write("pipelines/hold.py", HOLD)
    drop(project, *range(4))
    run = project.start("run", "--once")
    try:

        def all_but_the_first() -> dict[str, Any] | None:
            assert run.poll() is None, project.log()
            events = project.pipeline("events")
            return events if events["ahead"] == [[1, 3]] else None

        events = wait_for("the receipts of all but the first", all_but_the_first)
        assert (events["checkpoint_hi_inclusive"], events["in_flight"], events["gaps"]) == (None, [[0, 0]], [])
        assert [named(events["sinks"], name)["delivered"] for name in ("lake", "files")] == [[[1, 3]]] * 2
        project.tg("read", "events", expect=3)
        project.write("go", "")
        assert run.wait(timeout=120) == 0, project.log()
    finally:
        run.kill()
        run.wait()

    assert project.pipeline("events")["published_hi_inclusive"] == 3
    assert project.ids("events") == ids_of(*range(4))
    intervals = sorted(job_intervals(log))
    assert any(later < end for (_, end), (later, _) in itertools.pairwise(intervals)), intervals


def job_intervals(log: Path) -> Iterator[tuple[int, int]]:
    """From when to when each job of Spark ran, by Spark's own log."""
    [written] = log.iterdir()
    begun: dict[int, int] = {}
    for line in written.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            begun[event["Job ID"]] = event["Submission Time"]
        elif event["Event"] == "SparkListenerJobEnd":
            yield begun[event["Job ID"]], event["Completion Time"]
