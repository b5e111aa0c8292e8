"""What holds for every test: how many examples a law is tried with; in CI a skipped test is a failed one."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

# `make check` tries each law with a few examples, other ones each time; `make test` with many. No example
# is too slow by the clock: the machine may be busy.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=25, **_COMMON)
settings.register_profile("thorough", max_examples=300, **_COMMON)
# For scripts/mutants.py: the same examples each time, and no search for the smallest one that fails.
settings.register_profile(
    "mutants", max_examples=40, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], **_COMMON
)
settings.load_profile(os.environ.get("TIDEGATE_EXAMPLES") or "quick")

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
