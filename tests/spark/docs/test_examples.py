"""The examples of the documentation do what the pages say, beside one Spark for all of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.docs.examples import DOCS, Reader
from tests.spark.sessions import small_session
from tidegate.cli import main

pytestmark = pytest.mark.spark

HOW_TO = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "how-to").glob("*.md"))


@pytest.fixture(scope="module", autouse=True)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that run in this process find it and use it."""
    with small_session(tmp_path_factory.mktemp("spark")):
        yield


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who has followed the tutorial."""
    folder = tmp_path_factory.mktemp("tutorial")
    Reader(folder=folder).follow("tutorial.md")
    return folder


def test_the_tutorial_leads_where_it_says(learned: Path) -> None:
    """Three projects, each with its tables."""
    for table in (
        "shop/lake/user_report",
        "tides/lake/order_report",
        "tides/lake/order_minutes",
        "entries/lake/entries",
    ):
        assert (learned / table / "_delta_log").is_dir(), table


def test_the_demo_tells_only_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is as it was told; and each number, time and name of a sentence is shown beside it."""
    assert main(["demo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["as_told"]
    assert [len(step["sentences"]) for step in told["steps"]] == [3, 3, 2]
    for step in told["steps"]:
        shown = json.dumps({name: value for name, value in step.items() if name != "sentences"})
        for sentence in step["sentences"]:
            facts = re.findall(r"[\d][\w:.-]*\w|\d+|\w+_\w+", sentence)
            assert facts
            assert [fact for fact in facts if fact not in shown] == [], sentence


def test_looking_at_a_project_that_has_run_loads_neither_spark_nor_arrow(learned: Path) -> None:
    """A status is there before Spark would have begun to start."""
    for command in (["status"], ["status", "--json"], ["tables"], ["explain", "order_report"]):
        program = f"import sys; from tidegate.cli import main; main({command!r}); print(*sys.modules, file=sys.stderr)"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=learned / "tides", capture_output=True, text=True, check=True
        )
        assert "order_report" in done.stdout
        heavy = {"pyspark", "py4j", "sqlglot", "numpy", "deltalake", "pyarrow"} & set(done.stderr.split())
        assert heavy == set(), command


@pytest.mark.parametrize("page", HOW_TO)
def test_a_how_to_works_in_the_project_of_the_tutorial(page: str, learned: Path, tmp_path: Path) -> None:
    """Each begins in a copy of `tides`, beside the other two."""
    shutil.copytree(learned, tmp_path / "projects")
    reader = Reader(folder=tmp_path / "projects" / "tides")
    reader.follow(page)
    assert reader.done
