"""Landing folders: each file has one number for ever, in the order of its time and path, and stays what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources import index
from tidegate.sources.contract import Limits, Slice
from tidegate.sources.index import LandingIndex
from tidegate.sources.landing import MAX_FILES, LandingSource
from tidegate.sources.planned import PlannedFile
from tidegate.sources.specs import FileFormat, LandingSpec, Reading, WatermarkKind

ALL = Limits(max_slices=100)


@pytest.fixture
def store() -> Store:
    return MemoryStore()


class Folder:
    """A landing folder and sources over it."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root = root
        self.store = store
        self.path = "in coming/ö"

    def source(self, path: str | None = None) -> LandingSource:
        reading = Reading(format=FileFormat.JSON, schema="id BIGINT")
        spec = LandingSpec(name="orders", watermark=WatermarkKind.TIMESTAMP, path=path or self.path, reading=reading)
        return LandingSource(spec, root=self.root, store=self.store)

    def land(self, name: str, *, at_s: int = 100, size: int = 10) -> Path:
        target = self.root / self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"x" * size)
        os.utime(target, ns=(at_s * 10**9, at_s * 10**9))
        return target

    def cut(self, source: LandingSource, limits: Limits = ALL, *, start: int = 0) -> list[Slice]:
        return source.cut({"0": start}, source.ends().ends, limits, 0)


@pytest.fixture
def folder(tmp_path: Path, store: Store) -> Folder:
    return Folder(tmp_path, store)


def names(slices: list[Slice]) -> list[str]:
    return [str(file[0]) for one in slices for file in one.detail["files"]]  # type: ignore[union-attr,index]


def test_files_are_numbered_by_time_and_then_by_path(folder: Folder) -> None:
    """Within one listing; the order of the folder itself is that of the disk."""
    folder.land("b.json", at_s=5)
    folder.land("z.json", at_s=1)
    folder.land("a.json", at_s=5)
    assert names(folder.cut(folder.source())) == ["z.json", "a.json", "b.json"]


def test_a_number_once_given_is_never_given_again(folder: Folder) -> None:
    """A file that lands later comes behind, however old it says it is, for whoever looks."""
    folder.land("b.json", at_s=50)
    source = folder.source()
    assert source.ends().ends == {"0": 1}
    folder.land("a.json", at_s=1)
    assert names(folder.cut(folder.source())) == ["b.json", "a.json"]
    assert names(folder.cut(source)) == ["b.json", "a.json"]


def test_hidden_names_are_ignored_and_folders_are_searched(folder: Folder) -> None:
    """`.` and `_` begin the names of drafts, of files and of folders."""
    for name in (".draft.json", "_tmp.json", "_spark/x.json", ".git/x.json", "2026/03/d.json", "e.json"):
        folder.land(name)
    assert sorted(names(folder.cut(folder.source()))) == ["2026/03/d.json", "e.json"]


def test_a_folder_that_is_not_there_yet_is_empty(folder: Folder) -> None:
    assert folder.source().ends().ends == {"0": 0}
    assert folder.cut(folder.source()) == []


def test_a_place_that_cannot_be_listed_may_answer_later(folder: Folder) -> None:
    """A file stands where the folder should be: that is told, and is no empty folder."""
    folder.land("x")
    folder.path = f"{folder.path}/x"
    with pytest.raises(errors.SourceUnreachable, match="in coming"):
        folder.source().ends()


def test_a_file_that_changed_is_counted_and_not_numbered_again(folder: Folder) -> None:
    """Other size or other time, whoever looks; what did not change is not counted."""
    folder.land("a.json", at_s=1)
    folder.land("b.json", at_s=2)
    folder.source().ends()
    folder.land("b.json", at_s=3)
    ends = folder.source().ends()
    assert (ends.ends, ends.changed) == ({"0": 2}, RangeSet.of(1))


@pytest.mark.parametrize("change", ["size", "time", "gone"])
def test_a_file_that_is_not_what_was_planned_does_not_verify(folder: Folder, change: str) -> None:
    """The plan's size and time count, not those of now."""
    path = folder.land("a.json", at_s=1, size=10)
    source = folder.source()
    slices = folder.cut(source)
    source.verify(slices)
    if change == "gone":
        path.unlink()
    else:
        folder.land("a.json", at_s=2 if change == "time" else 1, size=11 if change == "size" else 10)
    with pytest.raises(errors.SourceChanged, match=r"a\.json"):
        folder.source().verify(slices)


def test_a_checkpoint_is_within_its_limits_and_a_file_is_never_split(folder: Folder) -> None:
    for place, size in enumerate((40, 50, 200, 10)):
        folder.land(f"{place}.json", at_s=place, size=size)
    slices = folder.cut(folder.source(), Limits(max_bytes=100, max_slices=9))
    assert [one.parts["0"] for one in slices] == [Range(0, 2), Range(2, 3), Range(3, 4)]
    assert [one.size_bytes for one in slices] == [90, 200, 10]


def test_rows_are_estimated_from_what_a_row_has_weighed(folder: Folder) -> None:
    """Without a weight `max_events` cannot be applied, since nothing is read before it is planned."""
    for place in range(4):
        folder.land(f"{place}.json", at_s=place, size=100)
    source = folder.source()
    weighed = Limits(max_events=20, row_bytes=10.0, max_slices=9)
    assert [one.parts["0"] for one in folder.cut(source, weighed)] == [Range(0, 2), Range(2, 4)]
    assert len(folder.cut(source, Limits(max_events=20, max_slices=9))) == 1


def test_no_checkpoint_has_more_files_than_spark_lists_quickly(folder: Folder) -> None:
    source = folder.source()
    LandingIndex(folder.store, "orders", folder.path).append(
        [PlannedFile(path=str(n), size_bytes=0, mtime_ns=0) for n in range(MAX_FILES + 1)]
    )
    assert [one.parts["0"] for one in folder.cut(source)] == [Range(0, MAX_FILES), Range(MAX_FILES, MAX_FILES + 1)]


def test_no_checkpoint_reaches_over_an_advance(folder: Folder) -> None:
    """Two promises at two places cut twice; one at a border that is there already cuts nothing."""
    for place in range(5):
        folder.land(f"{place}.json", at_s=place)
    source = folder.source()
    ends = source.ends().ends
    stops = [{"0": 2}, {"0": 3}, {"0": 5}, {"0": 0}]
    assert [one.parts["0"] for one in source.cut({"0": 0}, ends, ALL, 7, stops)] == [
        Range(0, 2), Range(2, 3), Range(3, 5),
    ]  # fmt: skip


def test_an_empty_file_has_no_rows_and_a_stored_plan_of_another_source_is_refused(folder: Folder) -> None:
    folder.land("a.json", size=0)
    source = folder.source()
    (one,) = folder.cut(source)
    assert one.rows == 0
    with pytest.raises(errors.SourceChanged, match="not one of this source"):
        source.verify([Slice(number=0, parts={"0": Range(0, 1)}, detail={"mtime_ns": 1})])


def test_a_source_that_is_pointed_at_another_folder_begins_anew(folder: Folder) -> None:
    """The numbers of the old folder's files are not those of the new one's."""
    folder.land("a.json")
    folder.source().ends()
    other = folder.source("elsewhere")
    assert other.ends().ends == {"0": 0}
    assert other.identity() != folder.source().identity()


# the index


def files(*numbers: int) -> list[PlannedFile]:
    return [PlannedFile(path=f"{n}.json", size_bytes=n, mtime_ns=n) for n in numbers]


def listed(store: Store) -> list[str]:
    known = LandingIndex(store, "orders", "in")
    known.refresh()
    return [file.path for file in known.files]


def test_the_index_goes_on_in_further_segments(store: Store) -> None:
    """Segments are filled one after the other; a full one is never written again."""
    one = LandingIndex(store, "orders", "in")
    one.append(files(*range(index.SEGMENT_FILES - 1)))
    one.append(files(*range(index.SEGMENT_FILES + 2)))
    keys = store.list("sources/orders/index/")
    full = store.get(keys[0])
    one.append(files(10_000))
    assert len(keys) == 2
    assert store.get(keys[0]) == full
    assert listed(store) == [f"{n}.json" for n in [*range(index.SEGMENT_FILES + 2), 10_000]]


def test_who_loses_the_race_appends_only_what_the_winner_did_not(store: Store) -> None:
    """Two that look at the same folder at once: no file has two numbers, none is lost."""
    one, other = LandingIndex(store, "orders", "in"), LandingIndex(store, "orders", "in")
    one.append(files(0))
    other.refresh()
    one.append(files(0, 1, 2))
    other.append(files(0, 2, 3))
    one.refresh()
    assert [file.path for file in one.files] == [file.path for file in other.files] == listed(store)
    assert listed(store) == ["0.json", "1.json", "2.json", "3.json"]
    assert one.positions == {file.path: number for number, file in enumerate(one.files)}


def test_the_race_is_also_settled_where_a_segment_ends(store: Store) -> None:
    one, other = LandingIndex(store, "orders", "in"), LandingIndex(store, "orders", "in")
    one.append(files(*range(index.SEGMENT_FILES)))
    other.append(files(*range(index.SEGMENT_FILES - 1), 9000))
    one.append(files(9001))
    assert len(listed(store)) == len(set(listed(store))) == index.SEGMENT_FILES + 2
