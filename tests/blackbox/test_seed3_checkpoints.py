"""Seed 3: commit policies with sinks that fail and come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.blackbox.harness import Project, named

pytestmark = pytest.mark.spark

YAML = """\
sources:
  events:
    type: numbered
    path: incoming/{{number}}.json
    format: json
    schema: "id BIGINT"
    first_checkpoint: 0
pipelines:
  events:
    source: events
    batch: {{commit_policy: {policy}}}
    retry: {{attempts: 2, base: 10ms, max: 20ms}}
    sinks:
{sinks}
"""


def project_with(make_project: Callable[..., Project], policy: str, *sinks: str) -> Project:
    return make_project(YAML.format(policy=policy, sinks="\n".join(f"      - {sink}" for sink in sinks)))


def drop(project: Project, *numbers: int) -> None:
    for number in numbers:
        project.rows(f"incoming/{number}.json", [{"id": number * 10 + i} for i in range(3)])


def ids_of(*numbers: int) -> list[int]:
    return [number * 10 + i for number in numbers for i in range(3)]


def take_down(folder: Path) -> None:
    """A file where the sink's folder should be: also root cannot write there."""
    if folder.exists():
        folder.rename(folder.with_name(folder.name + ".away"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("not a folder\n")


def bring_back(folder: Path) -> None:
    folder.unlink()
    away = folder.with_name(folder.name + ".away")
    if away.exists():
        away.rename(folder)


LAKE = "{name: lake, type: delta, table: events}"


def test_all_waits_for_the_sink_that_is_down(make_project: Callable[..., Project]) -> None:
    """`all`: nothing is committed while one sink is down, and everything is once it is back; nothing is lost."""
    project = project_with(make_project, "all", LAKE, "{name: files, type: parquet, path: out/files, required: false}")
    drop(project, 0, 1)
    take_down(project.root / "out" / "files")
    failed = project.tg("run", "--once", expect=1)
    assert "files" in failed.out + failed.err
    events = project.pipeline("events")
    assert (events["state"], events["checkpoint_hi_inclusive"], events["published_hi_inclusive"]) == (
        "failed",
        None,
        None,
    )
    assert events["gaps"] == [[0, 1]]
    project.tg("read", "events", expect=3)

    bring_back(project.root / "out" / "files")
    project.tg("run", "--once")
    events = project.pipeline("events")
    assert (events["state"], events["checkpoint_hi_inclusive"]) == ("idle", 1)
    assert project.ids("events") == ids_of(0, 1)
    assert [sink["rows"] for sink in events["sinks"]] == [6, 6]


def test_quorum_of_two_goes_on_while_failures_rotate(make_project: Callable[..., Project]) -> None:
    """`quorum: 2` of three: each run another sink is down; the mark goes on, and each sink catches up whole."""
    names = ["a", "b", "c"]
    sinks = [f"{{name: {name}, type: parquet, path: out/{name}, required: false}}" for name in names]
    project = project_with(make_project, "quorum, quorum: 2", *sinks)
    for number, down in enumerate([*names, names[0]]):
        drop(project, number)
        take_down(project.root / "out" / down)
        project.tg("run", "--once")
        events = project.pipeline("events")
        assert events["checkpoint_hi_inclusive"] == number
        assert named(events["sinks"], down)["missing"] == [[number, number]]
        bring_back(project.root / "out" / down)
    project.tg("run", "--once")
    for sink in project.pipeline("events")["sinks"]:
        assert (sink["missing"], sink["rows"], sink["published_hi_inclusive"]) == ([], 12, 3), sink


def test_an_optional_sink_that_is_down_holds_nobody_and_catches_up(make_project: Callable[..., Project]) -> None:
    """`required`: the lake goes on alone; the optional files follow once their place is back."""
    project = project_with(
        make_project, "required", LAKE, "{name: files, type: parquet, path: out/files, required: false}"
    )
    take_down(project.root / "out" / "files")
    drop(project, 0, 1, 2)
    project.tg("run", "--once")
    events = project.pipeline("events")
    assert events["checkpoint_hi_inclusive"] == 2
    files = named(events["sinks"], "files")
    assert (files["missing"], files["published_hi_inclusive"], files["rows"]) == ([[0, 2]], None, 0)
    assert project.ids("events") == ids_of(0, 1, 2)

    bring_back(project.root / "out" / "files")
    drop(project, 3)
    project.tg("run", "--once")
    files = named(project.pipeline("events")["sinks"], "files")
    assert (files["missing"], files["published_hi_inclusive"], files["rows"]) == ([], 3, 12)
    assert project.ids("events") == ids_of(0, 1, 2, 3)
