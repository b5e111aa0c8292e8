"""The ledger from the command line: versions of a pipeline's document, and the ledger as a whole."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate import errors
from tidegate.cli import main
from tidegate.ledger import audit
from tidegate.ledger.contract import Store
from tidegate.ledger.sqlite import SqliteStore
from tidegate.pipelines.documents import PipelineDocument, SinkProgress, state_key
from tidegate.progress.marks import Marks
from tidegate.progress.ranges import Range, RangeSet

YAML = """\
name: shop
sources:
  orders: {type: generator, checkpoints: 3}
pipelines:
  orders: {source: orders, sinks: [{name: lake, type: delta}]}
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tidegate.yml").write_text(YAML)
    with ledger_of(tmp_path) as store:
        for version, end in enumerate((10, 41, 58), start=1):
            put(store, end, version - 1 or None)
    return tmp_path


@pytest.fixture
def tg(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in the project."""

    def run(*argv: str) -> Answer:
        code = main(["--project", str(project), *argv])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def ledger_of(folder: Path) -> Store:
    return SqliteStore(folder / ".tidegate" / "ledger.db")


def put(store: Store, end: int, expect: int | None) -> None:
    """A pipeline that has come so far."""
    sink = SinkProgress(type="delta", required=True, start=0, delivered=RangeSet.of(Range(0, end)))
    document = PipelineDocument(
        pipeline="orders", source="orders", source_identity="s", epoch=2,
        marks=Marks(first=0, end=end, reader_lo=0), planned_end=end, sinks={"lake": sink},
    )  # fmt: skip
    store.put(state_key("orders"), document.to_body(), expect=expect)


def test_versions_are_listed_shown_and_compared(tg: Run) -> None:
    """Newest first for people; any of them as JSON; what changed place by place."""
    assert [one["version"] for one in tg("checkpoints", "show", "orders", "--versions", "--json").json] == [1, 2, 3]
    lines = tg("checkpoints", "show", "orders", "--versions").out.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["3", "2", "1"]
    newest, older = tg("checkpoints", "show", "orders").json, tg("checkpoints", "show", "orders", "--version", "2").json
    assert (newest["version"], newest["document"]["planned_end"]) == (3, 58)
    assert (older["version"], older["document"]["planned_end"]) == (2, 41)
    changed = {one["place"]: one["after"] for one in tg("checkpoints", "diff", "orders", "2", "--json").json}
    assert changed == {"marks.end": 58, "planned_end": 58, "sinks.lake.delivered": [[0, 58]]}
    assert "marks.end" in tg("checkpoints", "diff", "orders", "1", "2").out
    assert tg("checkpoints", "diff", "orders", "1", "1").out == "Nothing changed.\n"


def test_a_document_is_shown_as_it_was_at_a_time(tg: Run) -> None:
    """A time with its zone; before the first version there is none."""
    assert tg("checkpoints", "show", "orders", "--at", "2999-01-01T00:00:00Z").json["version"] == 3
    told = tg("checkpoints", "show", "orders", "--at", "2001-01-01T00:00:00Z")
    assert (told.code, told.out) == (1, "")
    assert "no such version" in told.err
    assert tg("checkpoints", "show", "orders", "--at", "2001-01-01").code == 2
    assert tg("checkpoints", "show", "orders", "--version", "99").code == 1


def test_a_version_is_pinned_and_released(tg: Run, project: Path) -> None:
    """It is written down who did."""
    assert tg("checkpoints", "pin", "orders", "1", "--json").json["pinned"] is True
    assert tg("checkpoints", "show", "orders", "--versions", "--json").json[0]["pinned"] is True
    assert "kept no longer" in tg("checkpoints", "pin", "orders", "1", "--release").out
    assert tg("checkpoints", "pin", "orders", "99").code == 1
    with ledger_of(project) as store:
        assert [(one.action, one.detail) for one in audit.read(store)] == [
            ("pinned", {"version": 1}),
            ("released", {"version": 1}),
        ]


def test_a_rollback_shows_its_plan(tg: Run) -> None:
    """What comes again, under which epoch, and what becomes of what is out."""
    told = tg("checkpoints", "rollback", "orders", "--to", "40", "--dry-run")
    assert told.out.splitlines() == [
        "checkpoints 41 to 57 of orders will be delivered again, as epoch 3",
        "sink lake (delta): retracted",
    ]
    plan = tg("checkpoints", "rollback", "orders", "--to", "40", "--dry-run", "--json").json
    assert (plan["again"], plan["sinks"]) == ([41, 57], [{"name": "lake", "type": "delta", "fate": "retracted"}])


def test_the_document_of_a_pipeline_is_not_rolled_back_alone(project: Path) -> None:
    """It is true only beside its plans, receipts and tables: exit 4."""
    with ledger_of(project) as store, pytest.raises(errors.Refused, match="cannot be rolled back alone"):
        store.rollback(state_key("orders"), 1)


def test_a_damaged_ledger_is_found_and_recovered_when_asked(tg: Run, project: Path) -> None:
    """Exit 1 until somebody says to go on from the newest good version, which is then written down."""
    assert tg("ledger", "check").out == "1 documents in 3 versions were read.\n"
    with sqlite3.connect(project / ".tidegate/ledger.db") as db:
        db.execute("UPDATE document SET body = substr(body, 1, 50)")
    told = tg("status")
    assert told.code == 1
    assert "tidegate ledger check" in told.err
    found = tg("ledger", "check", "--json")
    assert (found.code, found.json["findings"][0]["newest_good"]) == (1, 2)
    assert tg("ledger", "check").code == 1
    recovered = tg("ledger", "check", "--recover")
    assert recovered.code == 0
    assert "goes on from version 2, as version 4" in recovered.out
    assert tg("checkpoints", "show", "orders").json["document"]["planned_end"] == 41
    with ledger_of(project) as store:
        assert [one.action for one in audit.read(store)] == ["recovered"]


def test_a_ledger_goes_through_a_file(tg: Run, project: Path, tmp_path: Path) -> None:
    """Out of one project and into another; an old file is not overwritten, and a full ledger takes nothing in."""
    file = str(tmp_path / "export.jsonl")
    assert tg("ledger", "export", file).out.endswith("has 1 documents in 3 versions\n")
    assert tg("ledger", "export", file).code == 2
    assert tg("ledger", "export", "-").out.splitlines()[1:] == Path(file).read_text().splitlines()[1:]
    assert tg("ledger", "import", file).code == 1
    (project / ".tidegate/ledger.db").unlink()
    assert tg("ledger", "import", file, "--json").json == {"documents": 1, "versions": 3}
    assert tg("checkpoints", "show", "orders").json["version"] == 3
    for wrong in (str(tmp_path / "nothing"), str(tmp_path / "tidegate.yml")):
        told = tg("ledger", "import", wrong)
        assert told.code in (1, 2)
        assert len(told.err.splitlines()) <= 2


def test_a_ledger_is_copied_to_another_store(tg: Run, project: Path) -> None:
    """The copy is named by its URL; then the project can use it."""
    assert tg("ledger", "copy", "file:elsewhere").out.startswith("the copy has 1 documents in 3 versions")
    assert tg("ledger", "copy", "file:elsewhere").code == 1
    assert tg("ledger", "copy", "nowhere").code == 2
    (project / "tidegate.yml").write_text("ledger: file:elsewhere\n" + YAML)
    assert [one["version"] for one in tg("checkpoints", "show", "orders", "--versions", "--json").json] == [1, 2, 3]


def test_what_to_do_with_the_ledger_must_be_said(tg: Run) -> None:
    """Exit 2, with a command that works."""
    told = tg("ledger")
    assert told.code == 2
    assert "tidegate ledger check" in told.err
