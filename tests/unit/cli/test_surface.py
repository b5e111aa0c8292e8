"""The command line as scripts meet it: exit codes, one line of what and one of what to do, one JSON document."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.cli import main

YAML = """\
name: shop
sources:
  orders: {type: landing, path: in/orders, format: json, schema: "id BIGINT", watermark: timestamp}
  clicks: {type: generator, checkpoints: 3}
  fx: {type: external, table: external/fx, watermark: integer}
pipelines:
  orders: {source: orders, sinks: [{name: lake, type: delta}]}
  clicks: {source: clicks, sinks: [{name: lake, type: delta}]}
groups:
  both: {sources: [orders, clicks], tolerance: 5m}
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
    return tmp_path


@pytest.fixture
def tg(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in the project."""

    def run(*argv: str) -> Answer:
        code = main(["--project", str(project), *argv])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def test_help_lists_what_is_built_and_only_that(tg: Run) -> None:
    """What is not built yet is absent."""
    told = tg("--help")
    assert told.code == 0
    shown = {line.split()[1] for line in told.out.splitlines() if line.startswith("│ ") and len(line.split()) > 2}
    built = {
        "init", "demo", "run", "status", "explain", "read", "advance", "groups", "tables", "refresh", "checkpoints",
        "pause", "resume", "stop", "prune", "wait", "ledger",
    }  # fmt: skip
    assert built <= shown
    assert not shown & {"plan", "serve", "doctor", "dlq"}
    assert "<bool>" not in told.out + tg("status", "--help").out


@pytest.mark.parametrize(
    "argv",
    [["serve"], ["plan"], ["doctor"], ["ledger", "install-sql"], ["dlq", "list", "orders"], ["groups", "create", "x"],
     ["checkpoints", "rollback", "orders"]],
    ids=" ".join,
)  # fmt: skip
def test_what_is_not_built_ends_with_one_line(tg: Run, argv: list[str]) -> None:
    """The command is named; exit 2."""
    told = tg(*argv)
    assert (told.code, told.out) == (2, "")
    assert len(told.err.splitlines()) == 1
    assert "not in this version" in told.err


def test_nothing_asked_is_answered_by_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and no complaint below the help."""
    code = main([])
    told = capsys.readouterr()
    assert (code, told.err) == (2, "")
    assert "Commands" in told.out


def test_an_unknown_command_names_the_nearest(tg: Run) -> None:
    """Code, what, and what to do."""
    told = tg("statsu")
    assert told.code == 2
    what, hint = told.err.splitlines()
    assert what == "TG-C003 there is no command statsu; did you mean status?"
    assert "tidegate --help" in hint


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["status", "--bogus"], "--bogus"),
        (["advance", "orders"], "VALUE"),
        (["read", "orders", "--limit", "many"], "many"),
        (["read", "orders", "--format", "xml"], "xml"),
        (["explain", "ordrs"], "did you mean orders?"),
        (["advance", "orders", "2026-03-01"], "2026-03-01T00:00:00Z"),
        (["advance", "orders", "2026-03-01T12:00:00"], "2026-03-01T12:00:00Z"),
        (["advance", "orders", "12"], "not a time"),
        (["advance", "fx", "2026-03-01T12:00:00Z"], "integer"),
        (["advance", "nothing", "12"], "no source nothing"),
        (["advance", "clicks", "2026-03-01T12:00:00Z"], "cannot be advanced"),
        (["advance", "orders", "2026-03-01T12:00:00Z", "--version", "3"], "no version"),
        (["advance", "orders", "2026-03-01T12:00:00Z", "--part", "eu"], "part"),
        (["pause", "nothing"], "no pipeline nothing"),
        (["run", "nothing", "--once"], "no pipeline or table nothing"),
        (["refresh", "orders"], "no table orders"),
        (["read", "both"], "a group, which has no rows"),
        (["wait", "orders", "--until", "2026-03-01T12:00:00Z", "--timeout", "soon"], "soon"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_ends_with_2_and_says_what_and_where(tg: Run, argv: list[str], what: str) -> None:
    """At most two lines, the first starts with a stable code; no traceback, nothing on standard output."""
    told = tg(*argv)
    assert (told.code, told.out) == (2, "")
    lines = told.err.splitlines()
    assert 1 <= len(lines) <= 2
    assert lines[0].startswith("TG-")
    assert what in told.err


def test_errors_are_json_where_json_is_asked_for(tg: Run) -> None:
    """One document on standard output also then; people still read the line on standard error."""
    told = tg("explain", "ordrs", "--json")
    assert told.json["error"]["code"].startswith("TG-C")
    assert "did you mean orders?" in told.json["error"]["message"]
    assert told.err.startswith(told.json["error"]["code"])


def test_a_folder_that_is_no_project_says_how_to_get_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first thing that a newcomer sees."""
    (tmp_path / "empty").mkdir()
    assert main(["status", "--project", str(tmp_path / "empty")]) == 2
    assert "tidegate init" in capsys.readouterr().err


def test_a_wrong_setting_is_told_with_file_and_line(project: Path, tg: Run) -> None:
    """Each problem is a line; nothing is started and the ledger is not made."""
    (project / "tidegate.yml").write_text(YAML.replace("tolerance", "tolerence"))
    told = tg("status")
    assert told.code == 2
    assert "tidegate.yml:10: groups.both.tolerence is not a setting; did you mean tolerance?" in told.err
    assert not (project / ".tidegate").exists()


@pytest.mark.parametrize("place", ["before", "after"])
def test_global_options_work_on_both_sides_of_the_command(tg: Run, project: Path, place: str) -> None:
    """`tidegate --json status` and `tidegate status --json` are the same."""
    told = tg("--json", "status") if place == "before" else tg("status", "--json")
    assert told.code == 0
    assert told.json["project"] == "shop"


def test_status_of_a_new_project(tg: Run) -> None:
    """Everything that is declared is there, with nothing known of it yet."""
    status = tg("status", "--json").json
    assert list(status) == ["project", "at", "healthy", "pipelines", "sources", "groups", "tables"]
    assert status["healthy"] is True
    orders = status["pipelines"][0]
    assert (orders["name"], orders["state"], orders["checkpoint_hi_inclusive"]) == ("orders", "idle", None)
    assert [source["watermark"] for source in status["sources"]] == [None, None, None]
    assert tg("status").code == 0


def test_advance_raises_only(tg: Run) -> None:
    """Lower is refused with exit 4, equal is a heartbeat; the value waits for its rows."""
    told = tg("advance", "orders", "2026-03-01T12:05:00Z", "--json")
    assert (told.code, told.json["name"]) == (0, "orders")
    assert tg("advance", "orders", "2026-03-01T12:05:00Z").code == 0
    refused = tg("advance", "orders", "2026-03-01T12:00:00Z")
    assert refused.code == 4
    assert refused.err.startswith("TG-R004 the watermark of orders is at 2026-03-01T12:05:00Z")


@pytest.mark.parametrize(("command", "state"), [("pause", "paused"), ("stop", "stopped"), ("resume", "idle")])
def test_control_is_remembered(tg: Run, command: str, state: str) -> None:
    """What was asked for survives the process that asked, and status says who did."""
    told = tg(command, "orders", "--json")
    assert (told.code, told.json["state"]) == (0, state)
    orders = tg("status", "--json").json["pipelines"][0]
    assert orders["state"] == state
    if command != "resume":
        assert orders["reason"].startswith(f"{state} by ")


def test_reading_what_was_never_published_is_not_an_empty_table(tg: Run) -> None:
    """Exit 3, and what to do."""
    for name in ("orders", "orders__dead"):
        told = tg("read", name)
        assert (told.code, told.out) == (3, "")
        assert "has nothing published yet" in told.err
    assert "tidegate explain orders__dead" not in tg("read", "orders__dead").err


def test_waiting_ends_with_3_when_the_time_is_up(tg: Run) -> None:
    """The data is not there yet: neither an error of the user nor a failure."""
    told = tg("wait", "orders", "--until", "2026-03-01T12:00:00Z", "--timeout", "0s")
    assert told.code == 3
    assert "orders is complete to nothing, not yet to 2026-03-01T12:00:00Z" in told.err


def test_groups_and_checkpoints_are_listed(tg: Run) -> None:
    """`groups` alone is `groups list`."""
    assert tg("groups", "--json").json == tg("groups", "list", "--json").json
    assert tg("groups", "list", "--json").json[0]["name"] == "both"
    assert tg("checkpoints", "list", "orders", "--json").json == []
    assert tg("tables", "--json").json == []


def test_quiet_leaves_only_data(tg: Run) -> None:
    """A script that only wants the exit code gets nothing else."""
    told = tg("pause", "orders", "--quiet")
    assert (told.code, told.out, told.err) == (0, "", "")


def test_an_unexpected_error_is_one_line_and_a_traceback_only_with_debug(
    project: Path, tg: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ledger that is a folder: exit 1, no traceback; --debug raises it."""
    (project / ".tidegate" / "ledger.db").mkdir(parents=True)
    told = tg("status")
    assert told.code == 1
    assert "Traceback" not in told.err
    assert told.err.startswith("TG-")
    with pytest.raises(Exception, match="ledger"):
        tg("status", "--debug")
    capsys.readouterr()
