"""The examples of the documentation do what the pages say, beside one Spark for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.docs.examples import DOCS, Reader
from tests.spark.sessions import small_session

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


@pytest.mark.parametrize("page", HOW_TO)
def test_a_how_to_works_in_the_project_of_the_tutorial(page: str, learned: Path, tmp_path: Path) -> None:
    """Each begins in a copy of `tides`, beside the other two."""
    shutil.copytree(learned, tmp_path / "projects")
    reader = Reader(folder=tmp_path / "projects" / "tides")
    reader.follow(page)
    assert reader.done
