"""Fixtures of the black-box tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import jvm
from tests.blackbox.harness import SPARK, Project


@pytest.fixture(scope="session", autouse=True)
def archive(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The classes of Spark, for JVMs that start quickly."""
    jvm.make_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Project]:
    """Makes projects in the test's own folder."""

    def make(yaml: str, name: str = "shop", *, spark: str = SPARK) -> Project:
        return Project(tmp_path / name, yaml, spark=spark)

    return make
