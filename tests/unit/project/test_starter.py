"""`tidegate init`: what it writes is a project, and it overwrites nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.progress.cut import Mode
from tidegate.project.loading import load
from tidegate.project.starter import write_starter


def test_what_it_writes_loads(tmp_path: Path) -> None:
    """Two pipelines over two sources that agree, and a report that is gated."""
    written = write_starter(tmp_path / "my shop")
    spec = load(tmp_path / "my shop", variables={})
    assert (spec.name, list(spec.pipelines), list(spec.groups)) == ("my-shop", ["orders", "payments"], ["shop"])
    assert spec.tables["user_report"].gating is Mode.GATE
    assert spec.pipelines["orders"].transform is not None
    assert sorted(path.relative_to(spec.root).as_posix() for path in written) == [
        ".gitignore", "README.md", "pipelines/orders.py", "tables/user_report.sql", "tidegate.yml",
    ]  # fmt: skip
    assert all(path.read_text().endswith("\n") for path in written)
    ast.parse((spec.root / "pipelines/orders.py").read_text())


def test_what_a_run_makes_is_ignored_by_git(tmp_path: Path) -> None:
    """The lake and Tidegate's own folder stay out of the repository."""
    write_starter(tmp_path)
    ignored = (tmp_path / ".gitignore").read_text().split()
    assert {"/lake/", "/.tidegate/"} <= set(ignored)


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Exit 2, and not one file more."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"is not empty \(notes\.txt\)") as told:
        write_starter(tmp_path)
    assert told.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """Said in so many words."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file, not a folder"):
        write_starter(tmp_path / "file")


def test_a_fresh_repository_is_empty_enough(tmp_path: Path) -> None:
    """`git init` before `tidegate init` is fine."""
    (tmp_path / ".git").mkdir()
    assert write_starter(tmp_path)
