"""What comes in wrong: told in a line of what and where, with the right exit code, and nothing is lost by it.

One project has a pipeline for each way in which data can be wrong, so that all of them share two runs:
one that meets what is wrong, and one after it was mended.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.blackbox.harness import SPARK, Project, named, wait_for

pytestmark = pytest.mark.spark

SOURCE = """\
  {name}:
    type: numbered
    path: incoming/{name}/{{number}}.{format}
    format: {format}
    schema: "{schema}"
    first_checkpoint: 0
    {more}
"""
PIPELINE = """\
  {name}:
    source: {name}
    retry: {{attempts: 2, base: 10ms, max: 20ms}}
    sinks: [{{name: lake, type: delta}}]
"""
#: Each pipeline with the format of its files, its columns, and what else its source says.
WAYS = {
    "corrupt": ("json", "id BIGINT", ""),
    "changed": ("json", "id BIGINT", ""),
    "renamed": ("csv", "id BIGINT, amount DOUBLE", "options: {header: true}"),
    "narrow": ("parquet", "id BIGINT, amount DOUBLE", ""),
    "taken": ("json", "id BIGINT", ""),
}
IDS = [0, 1, 10, 11, 20, 21]


def yaml_of(ways: dict[str, tuple[str, str, str]]) -> str:
    sources = [
        SOURCE.format(name=name, format=format_, schema=schema, more=more)
        for name, (format_, schema, more) in ways.items()
    ]
    return "\n".join(["sources:", *sources, "pipelines:", *(PIPELINE.format(name=name) for name in ways)])


def ids_of(number: int) -> list[int]:
    return [number * 10, number * 10 + 1]


def drop_json(project: Project, name: str, number: int) -> Path:
    return project.rows(f"incoming/{name}/{number}.json", [{"id": one} for one in ids_of(number)])


def drop_parquet(project: Project, number: int, columns: dict[str, Any]) -> Path:
    path = project.root / "incoming" / "narrow" / f"{number}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """The project after the run that met everything wrong, and after the one that came when it was mended."""

    project: Project
    code: int
    err: str
    bad: dict[str, Any]
    mended: dict[str, Any]

    def before(self, name: str) -> dict[str, Any]:
        return named(self.bad["pipelines"], name)

    def after(self, name: str) -> dict[str, Any]:
        return named(self.mended["pipelines"], name)

    def failure(self, name: str) -> str:
        """The line that told of the failure when it happened."""
        lines = self.err.splitlines()
        return next(line for line in lines if "level=error" in line and f"pipeline={name} " in line)


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Met:
    """Both runs."""
    project = Project(tmp_path_factory.mktemp("bad") / "shop", yaml_of(WAYS))
    for number in range(3):
        for name in ("corrupt", "changed", "taken"):
            drop_json(project, name, number)
        project.write(f"incoming/renamed/{number}.csv", "id,total\n" + "".join(f"{i},1.5\n" for i in ids_of(number)))
        drop_parquet(project, number, {"id": ids_of(number), "amount": [1.5, 2.5]})
    project.write("incoming/corrupt/1.json", '{"id": 10}\n{"id": 1\n{"id": 11}\n')
    project.write("incoming/taken/1.json", "")  # an empty file is an empty checkpoint
    drop_parquet(project, 1, {"id": ids_of(1)})
    stranger = project.root / "lake" / "taken"
    write_deltalake(str(stranger), pa.table({"secret": [42]}))

    planned = project.root / "incoming" / "changed" / "1.json"
    was, time_ns = planned.read_text(), planned.stat().st_mtime_ns
    _kill_when_planned(project, "changed")
    drop_json(project, "changed", 1).write_text('{"id": 99}\n')
    run = project.tg("run", "--once", expect=None)
    bad = project.status()

    planned.write_text(was)
    os.utime(planned, ns=(time_ns, time_ns))
    stranger.rename(project.root / "strangers_table")
    project.write("tidegate.yml", (project.root / "tidegate.yml").read_text().replace("amount", "total", 1))
    drop_parquet(project, 1, {"id": ids_of(1), "amount": [1.5, 2.5]})
    project.tg("run", "--once")
    return Met(project=project, code=run.code, err=run.err, bad=bad, mended=project.status())


def _kill_when_planned(project: Project, name: str) -> None:
    run = project.start("run", name)
    log = project.root / ".tidegate" / "logs" / "run.jsonl"
    try:
        wait_for("a plan", lambda: log.exists() and "batch_planned" in log.read_text())
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()


def test_a_run_with_failed_checkpoints_ends_with_1_and_names_each(met: Met) -> None:
    """Four of five pipelines failed; the one with a corrupt line did not."""
    assert met.code == 1
    assert not met.bad["healthy"]
    states = {one["name"]: one["state"] for one in met.bad["pipelines"]}
    assert states == {
        "corrupt": "idle",
        "changed": "failed",
        "renamed": "failed",
        "narrow": "failed",
        "taken": "failed",
    }


def test_a_corrupt_line_goes_to_the_dead_letters_and_stops_nothing(met: Met) -> None:
    """It is in `corrupt__dead` with its file and line, counted and unhealthy; all other lines are published."""
    corrupt = met.before("corrupt")
    assert (corrupt["published_hi_inclusive"], corrupt["gaps"], corrupt["dead_letters"]) == (2, [], 1)
    assert met.project.ids("corrupt") == IDS
    [dead] = met.project.read("corrupt__dead")
    assert (dead["raw"], dead["line"], dead["checkpoint"]) == ('{"id": 1', 2, 1)
    assert dead["path"].endswith("incoming/corrupt/1.json")
    assert dead["reason"]


def test_a_file_that_changed_after_it_was_planned_is_not_read(met: Met) -> None:
    """Its checkpoint fails and says how to go on; put back as it was planned it is read, and nothing is lost."""
    changed = met.before("changed")
    assert "incoming/changed/1.json is not the file that was planned" in changed["reason"]
    assert "code=TG-S003" in met.failure("changed")
    assert (changed["published_hi_inclusive"], changed["gaps"], changed["ahead"]) == (0, [[1, 1]], [[2, 2]])
    assert met.after("changed")["state"] == "idle"
    assert met.project.ids("changed") == IDS


def test_a_column_that_no_csv_file_has_fails_all_of_them(met: Met) -> None:
    """Nothing is read as nulls. With the right name in tidegate.yml everything is there."""
    renamed = met.before("renamed")
    assert "amount" in renamed["reason"]
    assert "incoming/renamed/0.csv" in renamed["reason"]
    assert "code=TG-S001" in met.failure("renamed")
    assert (renamed["published_hi_inclusive"], renamed["gaps"]) == (None, [[0, 2]])
    assert met.after("renamed")["published_hi_inclusive"] == 2
    assert met.project.ids("renamed") == IDS
    assert {row["total"] for row in met.project.read("renamed")} == {1.5}


def test_a_parquet_file_without_a_column_is_a_gap(met: Met) -> None:
    """The others are delivered, and readers see what is before the gap; with a good file in its place all is there."""
    narrow = met.before("narrow")
    assert narrow["state"] == "failed"
    assert "incoming/narrow/1.parquet" in narrow["reason"]
    assert "amount" in narrow["reason"]
    assert (narrow["published_hi_inclusive"], narrow["gaps"], narrow["ahead"]) == (0, [[1, 1]], [[2, 2]])
    assert "code=TG-S001" in met.failure("narrow")
    narrow = met.after("narrow")
    assert (narrow["state"], narrow["published_hi_inclusive"], narrow["gaps"]) == ("idle", 2, [])
    assert met.project.ids("narrow") == IDS


def test_a_table_of_somebody_else_is_left_alone(met: Met) -> None:
    """The pipeline fails and names the place; the table is as it was; with the folder free all is delivered."""
    taken = met.before("taken")
    assert "lake table taken" in taken["reason"]
    assert "code=TG-K002" in met.failure("taken")
    assert "move that folder away" in met.failure("taken")
    assert taken["published_hi_inclusive"] is None
    stranger = DeltaTable(str(met.project.root / "strangers_table"))
    assert (stranger.version(), stranger.to_pyarrow_table().to_pydict()) == (0, {"secret": [42]})
    assert met.after("taken")["published_hi_inclusive"] == 2
    assert met.project.ids("taken") == [*ids_of(0), *ids_of(2)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_loses_nothing(make_project: Callable[..., Project], small_disk: Path) -> None:
    """The run fails and says that there is no room; with room the rest is delivered, each id once."""
    yaml = yaml_of({"orders": ("json", "id BIGINT, text STRING", "")})
    project = make_project(f"lake: {small_disk / 'lake'}\n{yaml}")
    letters = random.Random(7)
    for number in range(4):
        text = letters.randbytes(150_000).hex()
        project.rows(f"incoming/orders/{number}.json", [{"id": one, "text": text} for one in ids_of(number)])
    failed = project.tg("run", "--once", expect=1)
    assert "No space left" in failed.err
    assert "code=TG-D002" in failed.err
    orders = project.pipeline("orders")
    assert orders["state"] == "failed"
    assert "No space left" in orders["reason"]
    hi = orders["published_hi_inclusive"]
    if hi is not None:  # what had room is there as it should be
        assert project.ids("orders") == [one for number in range(hi + 1) for one in ids_of(number)]

    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    project.tg("run", "--once")
    assert project.pipeline("orders")["published_hi_inclusive"] == 3
    assert project.ids("orders") == [one for number in range(4) for one in ids_of(number)]


def test_a_spark_that_does_not_start_ends_the_run_at_once(make_project: Callable[..., Project]) -> None:
    """Exit 1 and one error that names Spark's own log; the pipeline is failed, with nothing tried over and over."""
    yaml = yaml_of({"orders": ("json", "id BIGINT", "")})
    project = make_project(yaml, spark=SPARK.replace("memory: 1g", "memory: 1k"))
    drop_json(project, "orders", 0)
    failed = project.tg("run", "--once", expect=1)
    what, hint = failed.err.splitlines()[-2:]
    assert what.startswith("TG-X001 Spark cannot be used: ")
    assert ".tidegate/logs/spark.log" in hint
    orders = project.pipeline("orders")
    assert (orders["state"], orders["gaps"]) == ("failed", [[0, 0]])
    assert "Spark cannot be used" in orders["reason"]


NO_YAML = "this is not YAML"
RIGHT = yaml_of({"orders": ("json", "id BIGINT", "")})


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (
            "retry:",
            "retri:",
            "pipelines.orders.retri is not a setting; did you mean retry?",
        ),
        ("max: 20ms", "max: 20", "pipelines.orders.retry.max"),
        ("source: orders", "source: order", "pipelines.orders.source"),
        ("type: delta", "type: detla", "pipelines.orders.sinks[0].type cannot be 'detla'; did you mean delta?"),
        ("sources:", "sources: [", NO_YAML),
    ],
    ids=["unknown key", "no unit", "no such source", "no such sink", "no YAML"],
)
@pytest.mark.parametrize("command", [["run", "--once"], ["status"]], ids=["run", "status"])
def test_a_wrong_project_is_refused_before_anything_happens(
    make_project: Callable[..., Project], command: list[str], right: str, wrong: str, message: str
) -> None:
    """Exit 2, one line of what and where, one of what to do; the ledger is byte for byte as it was."""
    project = make_project(RIGHT)
    project.tg("pause", "orders")
    ledger = project.root / ".tidegate" / "ledger.db"
    before = hashlib.sha256(ledger.read_bytes()).hexdigest()
    text = (project.root / "tidegate.yml").read_text()
    assert text.count(right) == 1
    line = text[: text.index(right)].count("\n") + 1
    project.write("tidegate.yml", text.replace(right, wrong))

    refused = project.tg(*command, expect=2)
    lines = refused.err.splitlines()
    assert refused.out == ""
    assert 1 <= len(lines) <= 2, refused.err
    code, _, told = lines[0].partition(" ")
    assert code.startswith("TG-C")
    assert told.startswith(f"tidegate.yml:{line}: " if message != NO_YAML else "tidegate.yml:")
    assert message in told
    assert hashlib.sha256(ledger.read_bytes()).hexdigest() == before
    as_json = json.loads(project.tg(*command, "--json", expect=2).out)
    assert as_json["error"]["code"] == code
