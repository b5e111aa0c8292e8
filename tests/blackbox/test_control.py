"""A runner that is told what to do while it works: pause, resume, stop, and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.blackbox.harness import Project, wait_for

pytestmark = pytest.mark.spark

ROWS = 20
YAML = """\
sources:
  ticks: {type: generator, rows_per_checkpoint: 20, rate: 200/s}
pipelines:
  ticks: {source: ticks, sinks: [{name: lake, type: delta, table: ticks}]}
"""


def test_pause_resume_and_sigterm_leave_nothing_half(make_project: Callable[..., Project]) -> None:
    """Paused, nothing moves; resumed, it goes on; at SIGTERM it finishes what is under way and ends with 0."""
    project = make_project(YAML)
    runner = project.start("run")
    try:

        def state() -> str:
            return str(project.pipeline("ticks")["state"])

        def hi() -> int:
            found = project.pipeline("ticks")["published_hi_inclusive"]
            return -1 if found is None else int(found)

        wait_for("the first checkpoints", lambda: hi() >= 2)
        project.tg("pause", "ticks")
        wait_for("it to pause", lambda: state() == "paused")
        paused = project.pipeline("ticks")
        assert (paused["in_flight"], paused["ahead"]) == ([], [])
        at = paused["checkpoint_hi_inclusive"]
        assert project.pipeline("ticks")["checkpoint_hi_inclusive"] == paused["published_hi_inclusive"] == at
        assert len(project.ids("ticks")) == (at + 1) * ROWS
        project.tg("resume", "ticks")
        wait_for("it to go on", lambda: hi() > at)
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(120) == 0, project.log()
    finally:
        if runner.poll() is None:
            runner.kill()
    ended = project.pipeline("ticks")
    end = ended["checkpoint_hi_inclusive"]
    assert (ended["state"], ended["published_hi_inclusive"]) == ("idle", end)
    assert (ended["in_flight"], ended["ahead"]) == ([], [])
    assert project.ids("ticks") == list(range((end + 1) * ROWS))

    project.tg("stop", "ticks")
    skipped = project.tg("run", "--once")
    assert "ticks" in skipped.out + skipped.err
    assert (state(), hi()) == ("stopped", end)
