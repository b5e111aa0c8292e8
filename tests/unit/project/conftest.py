"""Project folders made of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tidegate.project.loading import load
from tidegate.project.model import ProjectSpec
from tidegate.project.problems import BadProject

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes files of a project: the text of tidegate.yml, then others by path."""

    def write(yaml: str = "", files: Mapping[str, str] | None = None) -> Path:
        root = tmp_path / "shop"
        for path, text in {"tidegate.yml": yaml, **(files or {})}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    return write


@pytest.fixture
def loaded(write: Write) -> Callable[..., ProjectSpec]:
    """Loads a project of these texts, with these variables in its environment."""

    def loaded(
        yaml: str = "", files: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
    ) -> ProjectSpec:
        return load(write(yaml, files), variables=variables or {})

    return loaded


@pytest.fixture
def problems(loaded: Callable[..., ProjectSpec]) -> Callable[..., list[str]]:
    """What is said about a project that cannot be loaded, line by line."""

    def problems(*args: object, **kwargs: object) -> list[str]:
        with pytest.raises(BadProject) as told:
            loaded(*args, **kwargs)
        assert told.value.exit_code == 2
        assert "nothing was started" in told.value.hint
        return str(told.value).splitlines()

    return problems
