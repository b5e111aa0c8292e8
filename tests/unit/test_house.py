"""The house keeps its order: rooms import to the left, Spark's driver is touched in one room, and looking is light."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.project.starter import write_starter

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"
HEAVY = ("pyspark", "py4j", "sqlglot", "numpy", "deltalake", "pyarrow", "pandas", "pydantic")
JVM = re.compile(r"\b(SparkContext|sparkContext|_jvm|_jsc|_gateway)\b")


@pytest.mark.parametrize(
    ("file", "planted"),
    [("progress/ranges.py", "tidegate.ledger.contract"), ("tables/judge.py", "tidegate.service")],
)
def test_a_planted_wrong_import_is_found(tmp_path: Path, file: str, planted: str) -> None:
    """The check of the architecture can fail, and names the import; also one inside a function."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "src" / "tidegate" / file).open("a") as module:
        module.write(f"\n\ndef planted() -> None:\n    import {planted}\n")
    found = subprocess.run(
        [LINTER, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    importer = f"tidegate.{file.removesuffix('.py').replace('/', '.')}"
    assert found.returncode == 1, found.stdout + found.stderr
    assert f"{importer} -> {planted}" in found.stdout


def test_only_the_room_of_spark_touches_its_driver() -> None:
    """Spark Connect has neither a context nor a JVM."""
    source = ROOT / "src" / "tidegate"
    touching = {path.relative_to(source).parts[0] for path in source.rglob("*.py") if JVM.search(path.read_text())}
    assert touching == {"spark"}


def test_help_and_status_load_nothing_heavy(tmp_path: Path) -> None:
    """Neither `import tidegate` nor help, status and tables of a project with a table wait for Spark or arrays."""
    write_starter(tmp_path / "shop")
    program = f"""
import sys
def loaded(what):
    found = [name for name in {HEAVY!r} if name in sys.modules]
    assert not found, (what, found)
import tidegate
loaded("import")
from tidegate.cli import main
for command in (["--help"], ["status"], ["status", "--json"], ["tables"], ["pause", "orders"], ["plan"]):
    main(["--project", {str(tmp_path / "shop")!r}, *command])
    loaded(command)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "user_report" in done.stdout
