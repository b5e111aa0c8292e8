"""As-of reading: on file boundaries, and never an empty table where rows were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import errors
from tidegate.lake.log import DataFile
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Watermark
from tidegate.project.outputs import Layout, Output
from tidegate.service import Service


def output(*spans: tuple[int, int], reader_lo: int) -> Output:
    """A pipeline's table whose files hold those half-open ranges, in order."""
    files = tuple(
        DataFile(path=f"data/{lo}.parquet", size_bytes=1, rows=1, modified_ms=0, range=Range(lo, hi))
        for lo, hi in spans
    )
    return Output(
        name="orders", layout=Layout.LAKE, url="", version=3, files=files, reader_lo=reader_lo, end=spans[-1][1]
    )


def test_as_of_a_boundary_gives_what_is_below_it() -> None:
    """Nothing to remark: that is exactly what was asked for."""
    found = output((0, 5), (5, 10), reader_lo=0).as_of(4)
    assert (len(found.files), found.end, found.remarks) == (1, 5, ())


def test_as_of_the_inside_of_a_file_is_rounded_down_and_says_so() -> None:
    """Files hold whole batches."""
    found = output((0, 5), (5, 10), reader_lo=0).as_of(7)
    assert (len(found.files), found.end) == (1, 5)
    assert found.remarks == ("as of checkpoint 4: the files hold whole batches, and 7 lies inside one",)


@pytest.mark.parametrize("reader_lo", [0, 5])
def test_as_of_the_inside_of_the_first_file_is_refused(reader_lo: int) -> None:
    """Rounded down nothing would be left: that is not an empty table."""
    with pytest.raises(errors.BelowReaderLo) as refused:
        output((reader_lo, reader_lo + 5), (reader_lo + 5, 20), reader_lo=reader_lo).as_of(reader_lo + 1)
    assert f"read at {reader_lo + 4} or later" in refused.value.hint


def test_as_of_what_is_not_published_is_not_there_yet() -> None:
    """Exit 3 for the surface."""
    with pytest.raises(errors.NotComplete):
        output((0, 5), reader_lo=0).as_of(5)


def test_as_of_below_the_readers_mark_is_refused() -> None:
    """It may be half deleted."""
    with pytest.raises(errors.BelowReaderLo):
        output((3, 5), reader_lo=3).as_of(2)


@pytest.mark.parametrize("version", [-1, 0, 3])
def test_an_advance_speaks_of_a_version_that_is_there(version: int, tmp_path: Path) -> None:
    """One that its owner cleaned away, or that is still to come, would close every gate over it."""
    (tmp_path / "tidegate.yml").write_text("sources: {fx: {type: external, table: fx, watermark: integer}}\n")
    log = tmp_path / "fx" / "_delta_log"
    log.mkdir(parents=True)
    for number in range(3):
        (log / f"{number:020d}.json").write_text('{"commitInfo":{}}\n')
    with Service.open(tmp_path) as service:
        assert service.advance("fx", 1, version=2).watermark == Watermark.of_integer(1)
        (log / f"{0:020d}.json").unlink()
        with pytest.raises(errors.ConfigError, match=f"fx has no version {version}; its newest is 2"):
            service.advance("fx", 2, version=version)
