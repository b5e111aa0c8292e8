"""Files that land in a folder under any name; Tidegate numbers them as they are seen and cuts the checkpoints."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidegate.ledger.contract import Store
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import ONLY_PART, CutSource, Ends, Json, Limits, PartEnds, Slice, SourceRows
from tidegate.sources.index import LandingIndex
from tidegate.sources.planned import PlannedFile, changed, unreachable, verify
from tidegate.sources.reading import FileReader, Unit
from tidegate.sources.specs import LandingSpec

#: So many files a checkpoint at most: reading a list of more takes seconds before the first row.
MAX_FILES = 4096


class LandingSource(CutSource):
    """One part; a position is the number of a file in the index."""

    spec: LandingSpec

    def __init__(self, spec: LandingSpec, *, root: Path, store: Store) -> None:
        self.spec = spec
        self._root = root.absolute()
        self._index = LandingIndex(store, spec.name, spec.path)
        self._reader = FileReader(spec, self._root)
        self._lock = threading.Lock()

    def identity(self) -> str:
        return f"landing {self.spec.path}"

    def ends(self) -> Ends:
        with self._lock:
            listed = sorted(self._listed(), key=lambda file: (file.mtime_ns, file.path))
            self._index.refresh()
            self._index.append(listed)
            positions, files = self._index.positions, self._index.files
            differing = RangeSet(
                Range.one(positions[file.path]) for file in listed if files[positions[file.path]] != file
            )
            return Ends(ends={ONLY_PART: len(self._index)}, changed=differing)

    def cut(
        self, start: PartEnds, ends: PartEnds, limits: Limits, first_number: int, stops: Sequence[PartEnds] = ()
    ) -> list[Slice]:
        at, end = start.get(ONLY_PART, 0), min(ends.get(ONLY_PART, 0), len(self._index))
        borders = sorted({stop[ONLY_PART] for stop in stops if at < stop.get(ONLY_PART, 0) < end} | {end})
        slices: list[Slice] = []
        while at < end and len(slices) < limits.max_slices:
            border = next(border for border in borders if border > at)
            upto = at + fitting(self._index.files[at : min(border, at + MAX_FILES)], limits)
            slices.append(self._slice(first_number + len(slices), Range(at, upto)))
            at = upto
        return slices

    def rows(self, spark: SparkSession, slices: Sequence[Slice]) -> SourceRows:
        return self._reader.rows(spark, [self._unit(one) for one in slices])

    def dead(self, spark: SparkSession, slices: Sequence[Slice]) -> DataFrame | None:
        return self._reader.dead(spark, [self._unit(one) for one in slices])

    def verify(self, slices: Sequence[Slice]) -> None:
        verify(self.spec.name, self._root, (file for one in slices for file in self._unit(one).files))

    def _slice(self, number: int, positions: Range) -> Slice:
        files = self._index.files[positions.lo : positions.hi]
        stored: list[Json] = [[file.path, file.size_bytes, file.mtime_ns] for file in files]
        size = sum(file.size_bytes for file in files)
        return Slice(
            number=number,
            parts={ONLY_PART: positions},
            size_bytes=size,
            rows=0 if size == 0 else None,
            detail={"files": stored},
        )

    def _unit(self, one: Slice) -> Unit:
        """The files as the plan stored them: the index is not asked, and so the plan always wins."""
        return Unit(number=one.number, files=tuple(self._stored(one)))

    def _stored(self, one: Slice) -> Iterator[PlannedFile]:
        rows = one.detail.get("files")
        if not isinstance(rows, list):
            raise changed(self.spec.name, f"the plan of checkpoint {one.number} is not one of this source")
        for row in rows:
            match row:
                case [str(path), int(size), int(mtime_ns)]:
                    yield PlannedFile(path=os.path.join(self.spec.path, path), size_bytes=size, mtime_ns=mtime_ns)
                case _:
                    raise changed(self.spec.name, f"the plan of checkpoint {one.number} is not one of this source")

    def _listed(self) -> list[PlannedFile]:
        """Every file below the folder that is not hidden; none when the folder is not there yet."""
        base = os.path.join(self._root, self.spec.path)
        found: list[PlannedFile] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                self._list_one(base, folder, found, folders)
            except FileNotFoundError:  # the folder itself, or one that was removed while we looked
                continue
            except OSError as unread:
                raise unreachable(self.spec.name, os.path.join(self.spec.path, folder), unread) from unread
        return found

    def _list_one(self, base: str, folder: str, found: list[PlannedFile], folders: list[str]) -> None:
        with os.scandir(os.path.join(base, folder)) as entries:
            for entry in entries:
                if entry.name.startswith((".", "_")):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir():
                    folders.append(path)
                elif entry.is_file():
                    try:
                        found.append(PlannedFile.of_stat(path, entry.stat()))
                    except FileNotFoundError:  # taken away while we looked
                        continue


def fitting(files: Sequence[PlannedFile], limits: Limits) -> int:
    """How many of the files, from the first, fit into the limits; at least one."""
    size = rows = 0.0
    for count, file in enumerate(files):
        size += file.size_bytes
        rows += file.size_bytes / limits.row_bytes if limits.row_bytes else 0
        too_large = limits.max_bytes is not None and size > limits.max_bytes
        too_many = limits.max_events is not None and rows > limits.max_events
        if count and (too_large or too_many):
            return count
    return len(files)
