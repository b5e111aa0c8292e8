"""What holds for every test: in CI a test that was skipped is a test that failed."""

from __future__ import annotations

import os

import pytest

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what was skipped, wherever it ran."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """CI has everything that a test may need: a skip there hides a broken set-up."""
    if os.environ.get("CI") and _skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the skipped ones in CI."""
    if os.environ.get("CI") and _skipped:
        terminalreporter.section("skipped in CI, which counts as failed", red=True)
        for nodeid in sorted(set(_skipped)):
            terminalreporter.line(nodeid)
