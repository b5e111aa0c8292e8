"""`make bench [ONLY=name]`: every benchmark, a table on the screen and a file in benchmarks/results."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measure
from tidegate.clock import SystemClock

HERE = Path(__file__).parent
PACKAGES = ("pyspark", "deltalake", "obstore", "numpy", "pyarrow", "sqlglot")


def suites() -> list[str]:
    """The benchmarks there are, by the name of their module."""
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def host() -> dict[str, object]:
    """What the figures were measured on, without naming the machine."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "java": _java(),
        **{name: metadata.version(name) for name in PACKAGES},
    }


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = [os.path.join(home, "bin", "java") if home else "java", "-version"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    found = re.search(r'version "([^"]+)"', told)
    return "unknown" if found is None else found[1]


def save(suite: str, measures: Sequence[Measure]) -> Path:
    """Write the figures of one suite to its file."""
    at = SystemClock().now().isoformat(timespec="seconds")
    document = {"suite": suite, "at": at, "host": host(), "measures": [m.to_json() for m in measures]}
    path = HERE / "results" / f"{suite}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def show(console: Console, suite: str, measures: Sequence[Measure]) -> None:
    """The figures of one suite as a table, with targets beside them."""
    table = Table("measure", "value", "target", "met", title=suite, title_justify="left")
    for measure in measures:
        sign = "≤" if measure.at_most else "≥"
        met = "[green]yes[/]" if measure.met else "[red]no[/]"
        table.add_row(measure.name, f"{measure.value:,.4g} {measure.unit}", f"{sign} {measure.target:,.4g}", met)
    console.print(table)


def main(wanted: Sequence[str]) -> int:
    """Run the wanted suites, or all of them. A missed target is a finding, not a failure."""
    unknown = set(wanted) - set(suites())
    if unknown:
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(suites())}", file=sys.stderr)
        return 2
    console = Console()
    for suite in wanted or suites():
        measures = importlib.import_module(f"benchmarks.bench_{suite}").measures()
        show(console, suite, measures)
        console.print(f"[dim]{save(suite, measures).relative_to(HERE.parent)}[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
