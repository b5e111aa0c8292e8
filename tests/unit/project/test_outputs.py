"""As-of reading: on file boundaries, and never an empty table where rows were asked for."""

from __future__ import annotations

import pytest

from tidegate import errors
from tidegate.lake.log import DataFile
from tidegate.progress.ranges import Range
from tidegate.project.outputs import Layout, Output


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
