"""What a terminal shows: tables of 100 columns, worst first, and nothing that the values do not say."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from tests.unit.cli import samples
from tidegate.cli import show
from tidegate.cli.output import Shell
from tidegate.service import CheckpointRange


def lines(*renderables: RenderableType, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False)
    for renderable in renderables:
        console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def at(found: list[str], start: str) -> int:
    """The place of the first line that starts so."""
    return next(place for place, line in enumerate(found) if line.startswith(start))


def test_every_line_fits_100_columns_and_every_row_is_one_line() -> None:
    """Names and hosts that are too long give way; marks and times stay whole."""
    found = lines(*show.status(samples.STATUS))
    assert max(map(len, found)) <= 100
    row = found[at(found, "a_pipe")]
    assert "123456789" in row
    assert "2026-03-01T12:05:00.123456Z" in row
    assert "…" in row
    source = found[at(found, "Sources") + 2]
    assert source.startswith("orders")
    assert "2026-03-01T11:55:00Z" in source
    assert source.rstrip().endswith("2026-03-01T12:10:00Z")


def test_the_worst_comes_first_in_every_table() -> None:
    """A failed pipeline before a running one, a failed table before a closed one before an open one."""
    found = lines(*show.status(samples.STATUS))
    assert at(found, "orders ") < at(found, "a_pipe") < at(found, "new ")
    assert at(found, "z_broken") < at(found, "order_report") < at(found, "a_summary")


def test_the_headline_names_what_is_unhealthy() -> None:
    """Whoever reads two lines knows what to do."""
    head, _, problem = lines(*show.status(samples.STATUS))[:3]
    assert head == "shop · 2026-03-01T12:10:00Z · not healthy"
    assert "checkpoint 1004 failed in sink lake" in problem


def test_the_reason_of_a_closed_gate_is_whole() -> None:
    """Reasons are sentences below the table, never cut."""
    found = lines(*show.status(samples.STATUS))
    assert any(samples.REASON in line for line in found)


def test_gaps_are_cut_after_two_and_counted() -> None:
    """Thousands of gaps must not fill a cell."""
    assert show.spans(samples.FAILED.gaps) == "1004, 1007–1009 +1"
    assert show.spans(samples.NEW.gaps) == show.NOTHING


def test_sinks_are_shown_where_there_is_something_to_see() -> None:
    """A pipeline with one healthy sink needs no second table."""
    assert not any(line.startswith("Sinks") for line in lines(*show.pipelines([samples.RUNNING])))
    found = lines(*show.pipelines([samples.FAILED]))
    files = found[at(found, "Sinks") + 2]
    assert "files" in files
    assert "1000–1003" in files
    assert any("out/files is not a folder" in line for line in found)


def test_an_empty_project_says_what_to_do() -> None:
    """Not an empty page."""
    empty = samples.Status(project="new", at=samples.AT, healthy=True, pipelines={}, sources={}, groups={}, tables={})
    assert "tidegate.yml" in lines(*show.status(empty))[-1]


def test_an_explanation_has_reason_remedy_and_every_fact() -> None:
    """What `explain --json` says, a terminal says too."""
    found = "\n".join(lines(*show.explanation(samples.EXPLANATION)))
    for text in (samples.REASON, "tidegate advance order_lines", "order_lines, orders", "full", "frontier", "closed"):
        assert text in found


def test_an_explanation_has_no_empty_counts_and_no_fraction_of_a_second() -> None:
    """Noise is left to the JSON; reasons in its tables are never cut."""
    facts = {
        "late_rows": 0,
        "dead_letters": 2,
        "reader_lo": 0,
        "heard_at": samples.AT.replace(microsecond=5),
        "history": [{"what": "waited", "reason": f"{samples.REASON}, and {samples.REASON}"}],
    }
    found = lines(*show.explanation(replace(samples.EXPLANATION, facts=facts)))
    text = "\n".join(found)
    assert "late rows" not in text
    assert "reader_lo" in text
    assert "dead letters" in text
    assert "2026-03-01T12:10:00Z" in text
    assert "…" not in text
    assert max(map(len, found)) <= 100


def test_a_member_that_never_reported_is_not_called_behind() -> None:
    """How far behind nobody knows."""
    new = replace(samples.GROUP, state="bootstrapping", min_watermark=None)
    assert any("order_lines has not reported yet" in line for line in lines(*show.groups([new])))
    assert any("order_lines is behind" in line for line in lines(*show.groups([samples.GROUP])))


def test_what_is_printed_has_no_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich fills lines up; whoever copies them would have that too."""
    Shell().show(*show.status(samples.STATUS), *show.explanation(samples.EXPLANATION))
    printed = capsys.readouterr().out.splitlines()
    assert printed
    assert [line for line in printed if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_width_makes_rows_wrap(width: int) -> None:
    """Cells are cut instead."""
    found = lines(*show.pipelines([samples.RUNNING, samples.FAILED]), width=width)
    rows = found[at(found, "name") + 1 : at(found, "name") + 3]
    assert rows[0].startswith("or")
    assert rows[1].startswith("a_")


def test_checkpoints_are_listed_newest_first() -> None:
    """The newest are what people look for."""
    ranges = [CheckpointRange(first=1, last=9, state="published"), CheckpointRange(first=10, last=10, state="missing")]
    found = lines(*show.checkpoints("orders", ranges))
    assert at(found, "10 – 10") < at(found, "1 – 9")
