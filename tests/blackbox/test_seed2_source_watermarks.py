"""Seed 2's day: orders every 5 minutes, order lines every 10, both advanced by their loaders."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.blackbox.harness import Project

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, 11, 0, tzinfo=UTC)
YAML = """\
sources:
  orders:
    type: landing
    path: incoming/orders
    format: json
    schema: "id BIGINT, at TIMESTAMP, total DOUBLE"
    watermark: timestamp
  order_lines:
    type: landing
    path: incoming/order_lines
    format: json
    schema: "order_id BIGINT, line BIGINT, at TIMESTAMP"
    watermark: timestamp
pipelines:
  orders:
    source: orders
    publish_every: 50ms
    sinks: [{name: lake, type: delta, table: orders}]
  order_lines:
    source: order_lines
    publish_every: 50ms
    sinks: [{name: lake, type: delta, table: order_lines}]
groups:
  order_pipeline: {sources: [orders, order_lines], tolerance: 0s, bootstrap: closed}
"""
ORDER_SUMMARY = "SELECT id, at, total FROM orders"
LINE_SUMMARY = "SELECT order_id AS id, count(*) AS line_count FROM order_lines GROUP BY order_id"
REPORT = "SELECT o.id, o.at, o.total, l.line_count FROM order_summary o JOIN line_summary l USING (id)"
LINES_AN_ORDER = 2


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Day:
    """The two loaders of the seed: each writes what happened since its last load, then advances."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.loaded = {"orders": START, "order_lines": START}

    def minutes(self, source: str) -> list[datetime]:
        """The minutes that are loaded, one order each."""
        span = self.loaded[source] - START
        return [START + timedelta(minutes=m + 1) for m in range(int(span.total_seconds() // 60))]

    def load(self, source: str, until: datetime) -> None:
        since = self.loaded[source]
        moments = [since + timedelta(minutes=m + 1) for m in range(int((until - since).total_seconds() // 60))]
        rows: list[dict[str, Any]] = []
        for moment in moments:
            number = int((moment - START).total_seconds() // 60)
            if source == "orders":
                rows.append({"id": number, "at": iso(moment), "total": number * 1.5})
            else:
                rows += [{"order_id": number, "line": i, "at": iso(moment)} for i in range(LINES_AN_ORDER)]
        self.project.rows(f"incoming/{source}/{until:%H%M}.json", rows)
        self.loaded[source] = until
        self.project.tg("advance", source, iso(until))


def gated(make_project: Callable[..., Project], mode: str, report: str = REPORT) -> Project:
    project = make_project(YAML)
    project.write("tables/order_summary.sql", ORDER_SUMMARY)
    project.write("tables/line_summary.sql", LINE_SUMMARY)
    project.write("tables/order_report.sql", f"-- gating: {mode}\n{report}")
    return project


def test_the_gate_waits_with_its_reason_and_opens(make_project: Callable[..., Project]) -> None:
    """12:10 of the seed: orders are complete to 12:05, lines to 11:55; the report waits for the lines."""
    project = gated(make_project, "gate")
    day = Day(project)
    aligned = START + timedelta(minutes=55)
    day.load("orders", aligned)
    day.load("order_lines", aligned)
    project.tg("run", "--once")
    assert project.table("order_report")["verdict"] == "open"
    before = project.read("order_report")
    assert [row["id"] for row in sorted(before, key=lambda row: row["id"])] == list(range(1, 56))

    day.load("orders", START + timedelta(minutes=65))
    project.tg("run", "--once")
    report = project.table("order_report")
    assert report["verdict"] == "closed"
    assert report["blocked_by"] == ["order_lines"]
    assert report["reason"] == "order_lines is 10m behind orders in group order_pipeline (tolerance 0s)"
    assert report["effective_watermark"] == iso(aligned)
    assert project.read("order_report") == before
    assert len(project.read("order_summary")) == 65  # a table over one source refreshes freely
    group = project.status()["groups"][0]
    assert (group["state"], group["lag"], group["aligned"]) == ("misaligned", "10m", False)
    assert (group["min_watermark"], group["max_watermark"]) == (iso(aligned), iso(aligned + timedelta(minutes=10)))
    assert group["effective_watermark"] == iso(aligned)
    told = project.tg("explain", "order_report", "--json").json
    assert told["blocked_by"] == ["order_lines"]
    assert told["reason"] == report["reason"]
    assert sorted(told["root_sources"]) == ["order_lines", "orders"]
    refused = project.tg("refresh", "order_report", expect=None)
    assert refused.code != 0 or "order_lines" in refused.out + refused.err
    assert project.read("order_report") == before

    day.load("order_lines", START + timedelta(minutes=65))
    project.tg("run", "--once")
    report = project.table("order_report")
    assert (report["verdict"], report["reason"], report["blocked_by"]) == ("open", None, [])
    assert report["effective_watermark"] == iso(START + timedelta(minutes=65))
    assert len(project.read("order_report")) == 65


@pytest.mark.parametrize("fresh", ["orders", "order_lines"])
def test_a_fresh_summary_over_a_stale_one_keeps_the_gate_closed(
    make_project: Callable[..., Project], fresh: str
) -> None:
    """The verdict is about the versions that would be read: live watermarks may agree already."""
    project = gated(make_project, "gate")
    stale_table = "order_summary" if fresh == "order_lines" else "line_summary"
    text = ORDER_SUMMARY if stale_table == "order_summary" else LINE_SUMMARY
    project.write(f"tables/{stale_table}.sql", f"-- schedule: manual\n{text}")
    day = Day(project)
    first = START + timedelta(minutes=10)
    day.load("orders", first)
    day.load("order_lines", first)
    project.tg("run", "--once")
    project.tg("refresh", stale_table)
    project.tg("run", "--once")
    assert len(project.read("order_report")) == 10

    second = START + timedelta(minutes=20)
    day.load("orders", second)
    day.load("order_lines", second)
    project.tg("run", "--once")
    assert project.status()["groups"][0]["aligned"] is True  # live watermarks agree
    report = project.table("order_report")
    assert report["verdict"] == "closed"
    assert report["blocked_by"] == ["orders" if stale_table == "order_summary" else "order_lines"]
    assert len(project.read("order_report")) == 10

    project.tg("refresh", stale_table)
    project.tg("run", "--once")
    assert len(project.read("order_report")) == 20


#: A loader as somebody would write it: a program of its own, which loads both sources at their own rates.
#: Orders come every 5 minutes, lines every 10 and 10 minutes late; at each point where both can agree it
#: waits for the report, as a reader would, so that each of them makes a version.
LOADERS = """
import json, pathlib, sys
from datetime import datetime, timedelta, timezone
import tidegate as tg

root, ticks, lines_an_order = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
start = datetime(2026, 3, 1, 11, tzinfo=timezone.utc)

def load(project, source, since, until):
    moments = [start + timedelta(minutes=minute) for minute in range(since + 1, until + 1)]
    numbers = range(since + 1, until + 1)
    if source == "orders":
        rows = [{"id": n, "at": at.isoformat(), "total": n * 1.5} for n, at in zip(numbers, moments)]
    else:
        rows = [{"order_id": n, "line": i, "at": at.isoformat()}
                for n, at in zip(numbers, moments) for i in range(lines_an_order)]
    folder = root / "incoming" / source
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{until:05d}.json"
    draft.write_text("".join(json.dumps(row) + "\\n" for row in rows))
    draft.rename(folder / f"{until:05d}.json")
    project.advance(source, start + timedelta(minutes=until))

with tg.open(root) as project:
    for tick in range(1, ticks + 1):
        load(project, "orders", 5 * (tick - 1), 5 * tick)
        if tick > 2 and tick % 2 == 0:
            lines = 5 * (tick - 2)
            load(project, "order_lines", lines - 10, lines)
            project.wait("order_report", start + timedelta(minutes=lines), timeout="2m")
"""
TICKS = 2 * 101


def test_hold_back_shows_exactly_the_aligned_rows_all_day(make_project: Callable[..., Project]) -> None:
    """A day of the two loaders under one runner: at least 100 versions of the report, each of them one aligned cut."""
    project = make_project(YAML)
    report = "SELECT o.id, o.at, l.line FROM orders o JOIN order_lines l ON o.id = l.order_id"
    project.write("tables/order_report.sql", f"-- gating: hold_back\n{report}")
    loaders = project.write("loaders.py", LOADERS)
    runner = project.start("run")
    try:
        arguments = [str(loaders), str(project.root), str(TICKS), str(LINES_AN_ORDER)]
        loaded = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=900)
        assert loaded.returncode == 0, loaded.stderr + project.log()
    finally:
        runner.terminate()
        assert runner.wait(60) == 0, project.log()

    complete = 5 * (TICKS - 2)
    rows = project.read("order_report")
    assert Counter(row["id"] for row in rows) == dict.fromkeys(range(1, complete + 1), LINES_AN_ORDER)
    table = project.table("order_report")
    assert table["verdict"] == "capped"  # orders are ahead, and none of theirs is shown
    assert table["effective_watermark"] == iso(START + timedelta(minutes=complete))

    log = DeltaTable(str(project.root / "lake" / "order_report"))
    cuts = []
    for version in range(log.version() + 1):
        log.load_as_version(version)
        seen = Counter(log.to_pyarrow_table(columns=["id"])["id"].to_pylist())
        assert seen == dict.fromkeys(range(1, len(seen) + 1), LINES_AN_ORDER), f"version {version} mixes"
        assert len(seen) % 10 == 0, f"version {version} shows {len(seen)} orders: no cut was ever there"
        cuts.append(len(seen))
    assert cuts == sorted(cuts), "a version showed less than the one before"
    assert len([cut for cut in cuts if cut]) >= 100
