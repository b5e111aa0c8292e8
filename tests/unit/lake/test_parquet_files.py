"""Who reads a Parquet file: never a thread of Arrow's that holds a file of Python's when the process ends."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import errors
from tidegate.lake import parquet_files
from tidegate.lake.storage import Storage

ROWS = pa.table({"id": list(range(1000)), **{f"c{number}": [0.5] * 1000 for number in range(20)}})


class Watched(io.FileIO):
    """A file of Python's that knows which threads have read it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.threads: set[int] = set()

    def readinto(self, buffer: bytearray) -> int | None:  # type: ignore[override]
        self.threads.add(threading.get_ident())
        return super().readinto(buffer)

    def read(self, size: int = -1) -> bytes | None:  # type: ignore[override]
        self.threads.add(threading.get_ident())
        return super().read(size)


class Place(Storage):
    """A folder whose files are watched; one that is `far` is read as those of an object store."""

    def __init__(self, folder: Path, *, far: bool) -> None:
        super().__init__(str(folder), table="t")
        self.folder = folder
        self.files: list[Watched] = []
        if far:
            self.local_root = None

    def open(self, path: str) -> BinaryIO:
        self.files.append(Watched(str(self.folder / path)))
        return self.files[-1]  # type: ignore[return-value]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "a.parquet", row_group_size=100)
    return tmp_path


@pytest.mark.parametrize("limit", [None, 150])
def test_a_local_file_is_opened_by_arrow_itself(folder: Path, limit: int | None) -> None:
    place = Place(folder, far=False)
    assert parquet_files.rows(place, "a.parquet", limit=limit).equals(ROWS.slice(0, limit))
    assert [(file.threads, file.closed) for file in place.files] == [(set(), True)]


@pytest.mark.parametrize("limit", [None, 150])
def test_a_file_of_an_object_store_is_read_in_the_thread_that_asks(folder: Path, limit: int | None) -> None:
    place = Place(folder, far=True)
    assert parquet_files.rows(place, "a.parquet", limit=limit).equals(ROWS.slice(0, limit))
    assert [(file.threads, file.closed) for file in place.files] == [({threading.get_ident()}, True)]


def test_of_the_named_columns_those_come_that_it_has(folder: Path) -> None:
    place = Place(folder, far=False)
    assert parquet_files.rows(place, "a.parquet", columns=["c1", "new", "id"]).column_names == ["c1", "id"]
    pq.write_table(ROWS.slice(0, 0), folder / "empty.parquet")
    assert parquet_files.rows(place, "empty.parquet", columns=["id"], limit=3).to_pydict() == {"id": []}


def test_a_file_that_is_not_there_is_told_by_the_place(folder: Path) -> None:
    with pytest.raises((errors.LakeUnavailable, FileNotFoundError)):
        parquet_files.rows(Storage(str(folder), table="t"), "b.parquet")
