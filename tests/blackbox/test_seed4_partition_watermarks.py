"""Seed 4: a silent part stops holding the watermark once its timeout has passed, also across runs from cron."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from tests.blackbox.harness import Project, named, wait_for

pytestmark = pytest.mark.spark

YAML = """\
sources:
  clicks:
    type: generator
    parts: 3
    rows_per_checkpoint: 30
    checkpoints: 10
    start: 2026-03-01T11:00:00Z
    step: 1s
    silent: {{2: after 2}}
    event_time: at
    idle_timeout: {idle}
pipelines:
  clicks:
    source: clicks
    sinks: [{{name: lake, type: delta, table: clicks}}]
"""


def test_a_silent_part_holds_the_watermark_only_until_its_timeout(make_project: Callable[..., Project]) -> None:
    """Two runs of `--once`, as from cron: the silence between them is known, and counts."""
    project = make_project(YAML.format(idle="2s"))
    project.tg("run", "--once")
    clicks = project.pipeline("clicks")
    assert clicks["checkpoint_hi_inclusive"] == 9
    parts = {part["partition"]: part for part in clicks["partitions"]}
    assert [part for part, seen in parts.items() if seen["blocking"]] == ["2"]
    held_at = clicks["watermark"]
    assert datetime.fromisoformat(parts["0"]["watermark"]) > datetime.fromisoformat(parts["2"]["watermark"])

    def released() -> bool:
        project.tg("run", "--once")
        parts = {part["partition"]: part for part in project.pipeline("clicks")["partitions"]}
        return bool(parts["2"]["idle"])

    wait_for("the silent part to be idle", released)
    clicks = project.pipeline("clicks")
    assert datetime.fromisoformat(clicks["watermark"]) > datetime.fromisoformat(held_at)
    assert named(project.status()["sources"], "clicks")["watermark"] == clicks["watermark"]


def test_without_a_timeout_a_silent_part_holds_the_watermark_for_good(make_project: Callable[..., Project]) -> None:
    """No idle timeout is the default: nobody guesses that a part has nothing more to say."""
    project = make_project(YAML.format(idle="1h"))
    project.tg("run", "--once")
    first = project.pipeline("clicks")["watermark"]
    project.tg("run", "--once")
    assert project.pipeline("clicks")["watermark"] == first
    told = project.tg("explain", "clicks", "--json").json
    assert "2" in str(told)
