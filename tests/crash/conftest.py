"""Fixtures of the crash suite."""

from __future__ import annotations

import pytest

from tests import jvm


@pytest.fixture(scope="session", autouse=True)
def archive(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The classes of Spark, for JVMs that start quickly."""
    jvm.make_archive(tmp_path_factory.mktemp("archive"))
