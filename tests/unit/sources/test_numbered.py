"""Numbered files: which names are numbers, what is there, and what lies outside of the bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import Slice
from tidegate.sources.numbered import STILL_US, NumberedSource, PathPattern
from tidegate.sources.specs import MAX_NUMBER, FileFormat, NumberedSpec, Reading, WatermarkKind
from tidegate.testing.clock import ManualClock

EVERYTHING = Range(0, MAX_NUMBER + 1)


class Folder:
    """Files with numbers, and sources over them."""

    def __init__(self, root: Path, path: str = "in ü/{number}.json") -> None:
        self.root = root
        self.path = path
        self.clock = ManualClock()

    def source(self, *, first: int | None = None, last: int | None = None) -> NumberedSource:
        spec = NumberedSpec(
            name="entries",
            watermark=WatermarkKind.CHECKPOINT,
            path=self.path,
            reading=Reading(format=FileFormat.JSON, schema="id BIGINT"),
            first_checkpoint=first,
            last_checkpoint=last,
        )
        return NumberedSource(spec, root=self.root, clock=self.clock)

    def write(self, path: str, text: str = "{}\n") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def numbers(self, *numbers: int) -> None:
        for number in numbers:
            self.write(self.path.format(number=number))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def found(source: NumberedSource, window: Range = EVERYTHING) -> list[int]:
    return list(source.discover(window).numbers.numbers())


def test_it_finds_the_numbers_that_are_there_in_the_window(folder: Folder) -> None:
    folder.numbers(3, 4, 6, 2**53 + 1)
    there = folder.source().discover(Range(4, 10))
    assert (there.numbers, there.lowest, there.highest) == (RangeSet.of(4, 6), 3, 2**53 + 1)


def test_a_folder_that_is_not_there_yet_holds_nothing(folder: Folder) -> None:
    there = folder.source().discover(EVERYTHING)
    assert (there.numbers, there.lowest, there.highest) == (RangeSet(), None, None)


def test_names_that_are_no_number_are_not_seen(folder: Folder) -> None:
    """Drafts, other endings, signs, zeros in front, other scripts' digits, numbers beyond all bounds, folders."""
    names = (".3.json.tmp", "3.json.gz", "-3.json", "+3.json", "03.json", "٣.json", "3 .json", f"{MAX_NUMBER + 1}.json")
    for name in names:
        folder.write(f"in ü/{name}")
    (folder.root / "in ü" / "9.json").mkdir()
    folder.numbers(5)
    assert found(folder.source()) == [5]


def test_numbers_outside_of_the_declared_bounds_are_not_there(folder: Folder) -> None:
    """Those below the first are counted."""
    folder.numbers(1, 2, 5, 6, 9)
    there = folder.source(first=5, last=6).discover(EVERYTHING)
    assert (list(there.numbers.numbers()), there.below_first, there.highest) == ([5, 6], 2, 6)


def test_numbers_below_a_first_one_that_was_frozen_are_counted_and_ignored(folder: Folder) -> None:
    folder.numbers(5)
    source = folder.source()
    source.starts_at(5)
    folder.numbers(3, 4)
    folder.clock.advance(1)
    there = source.discover(EVERYTHING)
    assert (list(there.numbers.numbers()), there.lowest, there.below_first) == ([5], 5, 2)


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ("{number}.json", ["0.json", "10.json"], ["00.json", "010.json"]),
        ("in/{number:08d}.json", ["in/00000007.json", "in/123456789.json"], ["in/7.json", "in/0123456789.json"]),
        ("in/part-{number:03d}", ["in/part-007", "in/part-000"], ["in/part-7", "in/part-0007"]),
        ("in/{number}/rows.json", ["in/7/rows.json"], ["in/8/other.json", "in/9"]),
        ("in/a[1]{number}.(x).json", ["in/a[1]7.(x).json"], ["in/a17.x.json"]),
    ],
)
def test_a_path_says_which_names_are_numbers(tmp_path: Path, path: str, good: list[str], bad: list[str]) -> None:
    """A number is spelt in one way, so that no two files have the same one."""
    folder = Folder(tmp_path, path)
    for name in (*good, *bad):
        folder.write(name)
    source = folder.source()
    assert len(found(source)) == len(good)
    source.verify(source.slices(source.discover(EVERYTHING).numbers))


@given(st.integers(0, MAX_NUMBER), st.integers(0, 12))
def test_a_number_is_read_back_from_the_path_that_it_makes(number: int, width: int) -> None:
    pattern = PathPattern.of(f"in/a{{number:0{width}d}}.json" if width else "in/a{number}.json")
    assert pattern.number(Path(pattern.path(number)).name) == number


def test_a_slice_knows_size_and_time_and_an_empty_file_has_no_rows(folder: Folder) -> None:
    folder.write("in ü/1.json", "")
    folder.write("in ü/2.json", "{}\n")
    one, two = folder.source().slices(RangeSet.of(1, 2))
    assert (one.number, one.size_bytes, one.rows, one.parts) == (1, 0, 0, {"0": Range(1, 2)})
    assert (two.number, two.size_bytes, two.rows) == (2, 3, None)


def test_a_file_that_changed_after_it_was_planned_does_not_verify(folder: Folder) -> None:
    path = folder.write("in ü/1.json")
    source = folder.source()
    slices = source.slices(RangeSet.of(1))
    source.verify(slices)
    path.write_text("{}\n{}\n")
    with pytest.raises(errors.SourceChanged, match="3 bytes then, 6 now"):
        source.verify(slices)
    with pytest.raises(errors.SourceChanged, match="not one of this source"):
        source.verify([Slice(number=1, parts={})])


def test_a_file_that_went_away_before_it_was_planned_is_looked_for_again(folder: Folder) -> None:
    folder.numbers(1)
    source = folder.source()
    assert found(source) == [1]
    (folder.root / "in ü" / "1.json").unlink()
    with pytest.raises(errors.SourceUnreachable):
        source.slices(RangeSet.of(1))


def test_a_listing_is_kept_only_once_the_folder_has_been_still(folder: Folder) -> None:
    """A file that came within one tick of the file system's clock would otherwise go unseen for ever."""
    folder.numbers(1)
    inside = folder.root / "in ü"
    changed_ns = inside.stat().st_mtime_ns

    def arrive(number: int) -> None:
        folder.numbers(number)
        os.utime(inside, ns=(changed_ns, changed_ns))

    source = folder.source()
    folder.clock.set_now(folder.clock.now().fromtimestamp(changed_ns / 1e9, folder.clock.now().tzinfo))
    assert found(source) == [1]
    arrive(2)
    assert found(source) == [1, 2]
    folder.clock.advance(STILL_US + 1_000_000)
    assert found(source) == [1, 2]
    arrive(3)
    assert found(source) == [1, 2]
    folder.numbers(4)
    assert found(source) == [1, 2, 3, 4]
