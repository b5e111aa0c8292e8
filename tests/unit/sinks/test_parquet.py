"""The parquet sink: the contract of sinks, its layout, and what can happen to its folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.unit.sinks.folders import FolderFrame
from tidegate import errors
from tidegate.progress.ranges import Range
from tidegate.sinks import manifest as manifests
from tidegate.sinks import parquet
from tidegate.sinks.contract import Delivery, Ownership
from tidegate.sinks.parquet import ParquetSink
from tidegate.sinks.specs import ParquetSinkSpec
from tidegate.testing import audit
from tidegate.testing.sink_contract import FAR_FUTURE_US, ROWS, SinkContract, ids_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ParquetCase(SinkContract):
    """A folder of its own for each test."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "out" / "files"

    def make(self) -> ParquetSink:
        return ParquetSink(ParquetSinkSpec(name="files", path="out/files"), str(self.folder))

    def frame(self, rows: Sequence[dict[str, Any]]) -> DataFrame:
        return cast("DataFrame", FolderFrame(rows))

    def visible_ids(self) -> Iterable[int]:
        manifest = parquet.read_manifest(str(self.folder))
        assert manifest is not None
        table = parquet.to_arrow(str(self.folder), manifest.files)
        return [] if table.num_columns == 0 else table.column("id").to_pylist()

    def on_disk(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")}


class TestContract(ParquetCase):
    """All of it."""


class TestFolder(ParquetCase):
    """What is special to a folder."""

    def test_the_layout_names_epoch_checkpoints_and_attempt(self) -> None:
        receipt = self.deliver(self.opened(token=7), 3, 5, token=7, attempt=2)
        assert {Path(file.path).parent.as_posix() for file in receipt.files} == {"epoch=1/checkpoints=3-5/attempt=7-2"}
        assert {file.path for file in receipt.files} == self.on_disk()
        assert sum(file.rows for file in receipt.files) == 3 * ROWS
        assert all(file.size_bytes == (self.folder / file.path).stat().st_size for file in receipt.files)

    def test_files_without_rows_are_not_listed(self) -> None:
        receipt = self.deliver(self.opened(), 1, 1)
        assert len(receipt.files) == 1
        assert len(self.on_disk()) == 2

    def test_reading_can_be_of_some_columns_and_rows(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 2), (3, 3))
        manifest = parquet.read_manifest(str(self.folder))
        assert manifest is not None
        some = parquet.to_arrow(str(self.folder), manifest.files, columns=["id"], limit=7)
        assert some.to_pydict() == {"id": ids_of(1, 2, 3)[:7]}

    def test_nobody_wrote_where_there_is_nothing(self) -> None:
        assert parquet.read_manifest(str(self.folder)) is None
        assert not self.folder.exists()

    def test_a_file_in_the_place_of_the_folder_may_go_away_again(self) -> None:
        self.folder.parent.mkdir()
        self.folder.write_text("in the way")
        with pytest.raises(errors.SinkUnavailable, match="is a file, not a folder"):
            self.make().open(self.owner)
        self.folder.unlink()
        assert self.make().open(self.owner).end is None

    def test_a_file_may_take_the_place_while_it_is_open(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1))
        receipt = self.deliver(sink, 2, 2)
        aside = self.folder.rename(self.folder.with_name("aside"))
        self.folder.write_text("in the way")
        with pytest.raises(errors.SinkUnavailable):
            self.deliver(sink, 3, 3)
        with pytest.raises(errors.SinkUnavailable):
            sink.publish([receipt], self.publication(3))
        self.folder.unlink()
        aside.rename(self.folder)
        sink.publish([receipt], self.publication(3))
        assert sorted(self.visible_ids()) == ids_of(1, 2)

    def test_a_folder_with_something_else_in_it_is_refused(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "mine.csv").write_text("1,2")
        with pytest.raises(errors.SinkRejected, match="no manifest of ours"):
            self.make().open(self.owner)
        assert {path.name for path in self.folder.iterdir()} == {"mine.csv"}

    def test_the_folder_of_another_pipeline_is_refused(self) -> None:
        self.opened()
        with pytest.raises(errors.SinkRejected, match="belongs to pipeline orders"):
            self.make().open(Ownership(pipeline="lines", epoch=1, token=9))

    def test_a_torn_entry_was_never_acknowledged(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2))
        newest = self.folder / manifests.entry_path(sink.state().version or 0)
        newest.write_bytes(newest.read_bytes()[:-20])
        assert sorted(self.visible_ids()) == ids_of(1)
        restarted = self.make()
        assert restarted.open(self.owner_of(2)).end == 2
        assert sorted(self.visible_ids()) == ids_of(1)

    def test_an_entry_that_is_lost_in_the_middle_is_told(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2), (3, 3))
        (self.folder / manifests.entry_path(2)).unlink()
        with pytest.raises(errors.SinkRejected, match="version 2"):
            parquet.read_manifest(str(self.folder))

    def test_a_newer_format_is_not_guessed_at(self) -> None:
        self.opened()
        entry = self.folder / manifests.entry_path(0)
        entry.write_text(entry.read_text().replace('"tidegate":1', '"tidegate":2'))
        with pytest.raises(errors.SinkRejected, match="newer Tidegate"):
            parquet.read_manifest(str(self.folder))

    def test_many_versions_are_read_from_few_entries(self) -> None:
        sink = self.opened()
        count = manifests.BASE_EVERY + 6
        self.published(sink, *((number, number) for number in range(1, count)))
        sink.prune(4)
        for version in range(manifests.BASE_EVERY):
            (self.folder / manifests.entry_path(version)).unlink()
        assert sorted(self.visible_ids()) == ids_of(*range(4, count))

    def test_what_was_deleted_leaves_no_folder_behind(self) -> None:
        sink = self.opened()
        self.published(sink, (1, 1), (2, 2))
        self.deliver(sink, 1, 1, attempt=5)
        sink.prune(2)
        assert sink.delete(2).files == 4
        assert {path.name for path in (self.folder / "epoch=1").iterdir()} == {"checkpoints=2-2"}

    def test_a_sweep_also_finds_what_spark_left_half_done(self) -> None:
        dead = self.opened()
        half = self.folder / "epoch=1/checkpoints=1-1/attempt=1-0/_temporary/0/part-00000.parquet"
        half.parent.mkdir(parents=True)
        half.write_bytes(b"half")
        dead.close()
        assert self.opened(token=2).sweep([], older_than_us=FAR_FUTURE_US) == 1
        assert list((self.folder / "epoch=1").iterdir()) == []

    def test_all_that_is_written_is_written_inside_of_points(self) -> None:
        self.folder.parent.mkdir()
        with audit.Recorder(self.folder.parent).recording() as recorder:
            sink = self.opened()
            self.deliver(sink, 1, 1, attempt=9)
            self.published(sink, (1, 1), (2, 2))
            sink.prune(2)
            sink.delete(2)
            self.opened(token=2).sweep([], older_than_us=FAR_FUTURE_US)
        assert recorder.findings == []

    def test_of_two_owners_only_the_newer_one_gets_through(self) -> None:
        old, new = self.opened(token=1), self.opened(token=2)
        self.deliver(old, 1, 1, attempt=3)
        with pytest.raises(errors.StaleWriter):
            old.sweep([], older_than_us=FAR_FUTURE_US)
        with pytest.raises(errors.StaleWriter):
            old.delete(1)
        receipt = new.deliver(self.frame(rows_of(1)), Delivery(owner=self.owner_of(2), range=Range(1, 2), attempt=0))
        assert new.publish([receipt], self.publication(2)).end == 2
