"""The audit: what is written inside a point is fine, what is written outside of all is found."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate import effects
from tidegate.testing import audit


def write(root: Path) -> None:
    (root / "new").write_text("x")


def append(root: Path) -> None:
    with open(root / "old", "a") as file:
        file.write("more")


def rename(root: Path) -> None:
    (root / "old").rename(root / "renamed")


def remove(root: Path) -> None:
    (root / "old").unlink()


def make_folder(root: Path) -> None:
    (root / "folder").mkdir()


def link(root: Path) -> None:
    os.link(root / "old", root / "linked")


def remove_tree(root: Path) -> None:
    shutil.rmtree(root / "tree")


def by_another_program(root: Path) -> None:
    subprocess.run(["/bin/sh", "-c", f"echo x > {root}/foreign"], check=True)


WRITES = (write, append, rename, remove, make_folder, link, remove_tree, by_another_program)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "old").write_text("old")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "leaf").write_text("leaf")
    return tmp_path


@pytest.mark.parametrize("act", WRITES)
def test_what_is_written_outside_of_a_point_is_found(root: Path, act: Callable[[Path], None]) -> None:
    with audit.Recorder(root).recording() as recorder:
        act(root)
    assert recorder.findings


@pytest.mark.parametrize("act", WRITES)
def test_what_is_written_inside_of_a_point_is_fine(root: Path, act: Callable[[Path], None]) -> None:
    with audit.Recorder(root).recording() as recorder, effects.effect(effects.LAKE_STAGE):
        act(root)
    assert recorder.findings == []


def test_a_finding_names_the_line_that_wrote(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder:
        write(root)
    assert "test_audit.py" in recorder.findings[0].by or "pathlib" in recorder.findings[0].by
    assert recorder.findings[0].path == "new"


def test_between_two_effects_is_outside(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder:
        with effects.effect(effects.LAKE_STAGE):
            write(root)
        by_another_program(root)
        with effects.effect(effects.LAKE_COMMIT):
            append(root)
    assert [str(finding) for finding in recorder.findings] == ["made between two effects: foreign"]


def test_an_effect_that_raised_is_over(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder:
        with pytest.raises(OSError, match="full"), effects.effect(effects.LAKE_STAGE):
            raise OSError("full")
        write(root)
    assert {finding.path for finding in recorder.findings} == {"new"}


def test_a_thread_may_write_for_an_effect_of_another(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder, effects.effect(effects.LAKE_SYNC):
        thread = threading.Thread(target=write, args=(root,))
        thread.start()
        thread.join()
    assert recorder.findings == []


def test_reading_is_nothing(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder:
        (root / "old").read_text()
        list(root.rglob("*"))
    assert recorder.findings == []


def test_logs_and_what_is_elsewhere_are_nobodys_business(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (root / ".tidegate" / "logs").mkdir(parents=True)
    with audit.Recorder(root).recording() as recorder:
        (root / ".run.log").write_text("x")
        (root / ".tidegate" / "logs" / "spark.txt").write_text("x")
        (tmp_path_factory.mktemp("elsewhere") / "x").write_text("x")
    assert recorder.findings == []


def test_the_folder_of_the_state_may_be_made_but_what_is_in_it_is_heard(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder:
        (root / ".tidegate").mkdir()
        subprocess.run(["touch", root / ".tidegate" / "ledger.db"], check=True)  # unheard by Python's hook
    assert [finding.path for finding in recorder.findings] == [".tidegate/ledger.db"]


def test_sqlite_is_heard_too(root: Path) -> None:
    database = sqlite3.connect(root / "ledger.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE t (x)")
    with audit.Recorder(root).recording() as recorder:
        with effects.effect(effects.LEDGER_PUT):
            database.execute("INSERT INTO t VALUES (1)")
        assert recorder.findings == []
        database.execute("INSERT INTO t VALUES (2)")
    assert {finding.path for finding in recorder.findings} == {"ledger.db-wal"}


def test_sqlite_may_move_its_log_into_the_database_when_it_closes(root: Path) -> None:
    database = sqlite3.connect(root / "ledger.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE t (x)")
    with audit.Recorder(root).recording() as recorder:
        database.execute("SELECT * FROM t").fetchall()
        database.close()
    assert recorder.findings == []


def test_nothing_is_recorded_after_the_end(root: Path) -> None:
    with audit.Recorder(root).recording() as recorder:
        pass
    write(root)
    assert recorder.findings == []
