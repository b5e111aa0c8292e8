"""docs/reference/benchmarks.md, from the newest figures in benchmarks/results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results"

_HEAD: Final = """\
# Benchmarks

    make bench               all suites; a table on the screen, figures in `benchmarks/results/`
    make bench ONLY=status   one of them

Ratios are taken in one run, on a warm Spark that both sides share, in turn and each round in the other order; a value
is the median of the ratios of the pairs, or of the rounds where nothing stands beside it. The baselines in
`benchmarks/baselines/` are the same work as its best users would write it. No test looks at a time, and a missed target
is shown as missed.

This page is generated from the figures: `make docs`.
"""


def benchmarks_page() -> str:
    """The page, with a table for each suite that was ever run."""
    return "".join([_HEAD, *(_suite(json.loads(path.read_text())) for path in sorted(RESULTS.glob("*.json")))])


def _suite(result: Mapping[str, Any]) -> str:
    lines = [
        f"\n## {result['suite']}",
        "",
        *_rows(result["measures"]),
        "",
        f"{result['at'][:10]}, {_told(result['host'])}",
        "",
    ]
    return "\n".join(lines)


def _rows(measures: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| measure | value | target | met | raw: median (least to most) |"
    yield "|---|---|---|---|---|"
    for one in measures:
        sign = "≤" if one["at_most"] else "≥"
        spread = "; ".join(_spread(name, figures) for name, figures in one["raw"].items())
        met = "yes" if one["met"] else "**no**"
        value = f"{one['value']:,.4g} {one['unit']}"
        yield f"| {one['name']}: {one['note']} | {value} | {sign} {one['target']:,.4g} | {met} | {spread} |"


def _spread(name: str, figures: list[float]) -> str:
    if not figures:
        return name
    return f"{name} {statistics.median(figures):,.3g} ({min(figures):,.3g} to {max(figures):,.3g})"


def _told(host: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in host.items())
