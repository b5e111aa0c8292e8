"""Seed 1, its own two scenarios with every step, through files, commands and JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.blackbox.harness import Project, wait_for

pytestmark = pytest.mark.spark

ROWS = 3
YAML = """\
sources:
  entries:
    type: numbered
    path: incoming/{{number}}.json
    format: json
    schema: "id BIGINT, checkpoint BIGINT"
    first_checkpoint: {first}
pipelines:
  ledger:
    source: entries
    mode: {mode}
    {retention}
    sinks:
      - {{name: lake, type: delta, table: ledger}}
"""


def drop(project: Project, *numbers: int) -> None:
    for number in numbers:
        project.rows(f"incoming/{number}.json", [{"id": number * 100 + i, "checkpoint": number} for i in range(ROWS)])


def ids_of(*numbers: int) -> list[int]:
    return sorted(number * 100 + i for number in numbers for i in range(ROWS))


def marks(pipeline: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    return pipeline["checkpoint_hi_inclusive"], pipeline["reader_lo"], pipeline["pruner_hi"]


def test_scenario_1_a_gap_holds_the_mark_and_readers_until_it_heals(make_project: Callable[..., Project]) -> None:
    """Checkpoint 1003 is committed while 1002 is missing: the mark stays at 1001, then goes to 1003."""
    project = make_project(YAML.format(first=1000, mode="concurrent", retention=""))
    drop(project, 1000, 1001, 1003)

    project.tg("run", "--once")
    ledger = project.pipeline("ledger")
    assert marks(ledger) == (1001, 1000, None)
    assert ledger["gaps"] == [[1002, 1002]]
    assert ledger["ahead"] == [[1003, 1003]]
    assert ledger["in_flight"] == []
    assert ledger["published_hi_inclusive"] == 1001
    assert ledger["sinks"][0]["delivered"] == [[1000, 1001], [1003, 1003]]
    assert project.ids("ledger") == ids_of(1000, 1001)

    drop(project, 1002, 1005)
    project.tg("run", "--once")
    ledger = project.pipeline("ledger")
    assert marks(ledger) == (1003, 1000, None)
    assert ledger["gaps"] == [[1004, 1004]]
    assert ledger["ahead"] == [[1005, 1005]]
    assert project.ids("ledger") == ids_of(1000, 1001, 1002, 1003)


def files_on_disk(root: Path) -> set[str]:
    return {path.name for path in (root / "lake" / "ledger").rglob("*.parquet") if "_delta_log" not in path.parts}


def files_in_log(root: Path) -> set[str]:
    return {Path(path).name for path in DeltaTable(str(root / "lake" / "ledger")).file_uris()}


@pytest.mark.parametrize("mode", ["concurrent", "sequential"])
def test_scenario_2_retention_of_four_with_every_step(make_project: Callable[..., Project], mode: str) -> None:
    """retention 4: hi 1003, reader_lo 1000, pruner_hi 999; then 1004 completes, readers step, the pruner runs."""
    retention = "retention: {checkpoints: 4, interval: 1h, delay: 1s}"
    project = make_project(YAML.format(first=998, mode=mode, retention=retention))
    drop(project, 998, 999, 1000, 1001, 1002, 1003, 1006)

    project.tg("run", "--once")
    assert marks(project.pipeline("ledger"))[:2] == (1003, 1000)
    wait_for("the delay", lambda: project.tg("prune", "ledger") and project.pipeline("ledger")["pruner_hi"] == 999)
    ledger = project.pipeline("ledger")
    assert marks(ledger) == (1003, 1000, 999)
    assert (ledger["gaps"], ledger["ahead"]) == ([[1004, 1005]], [[1006, 1006]])
    assert project.ids("ledger") == ids_of(1000, 1001, 1002, 1003)

    # Step 1: 1004 completes. The readers' mark waits for its interval, the pruner for the readers' mark.
    drop(project, 1004)
    project.tg("run", "--once")
    assert marks(project.pipeline("ledger")) == (1004, 1000, 999)
    assert project.ids("ledger") == ids_of(1000, 1001, 1002, 1003, 1004)

    # Step 2: the readers' mark rises; nothing is deleted before the delay.
    before = files_on_disk(project.root)
    project.tg("prune", "ledger")
    assert marks(project.pipeline("ledger"))[:2] == (1004, 1001)
    assert project.ids("ledger") == ids_of(1001, 1002, 1003, 1004)

    # Step 3: after the delay the pruner deletes, from the log and from the disk.
    wait_for("the delay", lambda: project.tg("prune", "ledger") and project.pipeline("ledger")["pruner_hi"] == 1000)
    assert marks(project.pipeline("ledger")) == (1004, 1001, 1000)
    assert len(files_on_disk(project.root)) < len(before)
    assert files_in_log(project.root) < files_on_disk(project.root)  # 1006 is staged and not visible
    assert project.ids("ledger") == ids_of(1001, 1002, 1003, 1004)
    below = project.tg("read", "ledger", "--as-of", "1000", expect=4)
    assert "1001" in below.err
