"""The index of a landing folder: which file has which number, for ever.

An append-only list kept in segments, documents of the ledger under `sources/<name>/index/<folder>/<n>`,
where `<folder>` is a digest of its path: a source that was pointed at another folder begins anew. Whoever
lists the folder (a runner, an `advance`) appends what is new by compare-and-swap; the loser of a race
reads what the winner wrote and appends the rest. Numbers are never given twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate import errors
from tidegate.ledger.contract import Store, Versioned
from tidegate.sources.planned import PlannedFile

#: A segment is written anew with every listing that adds to it, so it is kept small.
SEGMENT_FILES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tail:
    segment: int
    version: int | None
    files: tuple[PlannedFile, ...]


class LandingIndex:
    """The numbered files of one source. `path` of a file is relative to the landing folder."""

    def __init__(self, store: Store, source: str, folder: str) -> None:
        self._store = store
        self._prefix = f"sources/{source}/index/{hashlib.blake2b(folder.encode(), digest_size=8).hexdigest()}"
        self._files: list[PlannedFile] = []
        self._positions: dict[str, int] = {}
        self._tail = _Tail(segment=0, version=None, files=())

    def __len__(self) -> int:
        return len(self._files)

    @property
    def files(self) -> Sequence[PlannedFile]:
        """The files, each at its number."""
        return self._files

    @property
    def positions(self) -> Mapping[str, int]:
        """The number of each path."""
        return self._positions

    def refresh(self) -> None:
        """Read what others have appended. One look when nothing has."""
        while True:
            document = self._store.get(self._key(self._tail.segment))
            if document is None:
                return
            if document.version != self._tail.version:
                self._take(document)
            if len(self._tail.files) < SEGMENT_FILES:
                return
            self._tail = _Tail(segment=self._tail.segment + 1, version=None, files=())

    def append(self, files: Sequence[PlannedFile]) -> None:
        """Give the files that have no number yet the next ones, in this order."""
        while True:
            new = [file for file in files if file.path not in self._positions]
            if not new:
                return
            fitting = new[: SEGMENT_FILES - len(self._tail.files)]
            grown = (*self._tail.files, *fitting)
            try:
                version = self._store.put(
                    self._key(self._tail.segment), _body(grown), expect=self._tail.version, history=False
                )
            except errors.VersionConflict:
                self.refresh()
                continue
            self._add(fitting)
            full = len(grown) == SEGMENT_FILES
            self._tail = (
                _Tail(segment=self._tail.segment + 1, version=None, files=())
                if full
                else _Tail(segment=self._tail.segment, version=version, files=grown)
            )

    def _take(self, document: Versioned) -> None:
        files = _files(document.body)
        self._add(files[len(self._tail.files) :])
        self._tail = _Tail(segment=self._tail.segment, version=document.version, files=files)

    def _add(self, files: Sequence[PlannedFile]) -> None:
        for file in files:
            self._positions[file.path] = len(self._files)
            self._files.append(file)

    def _key(self, segment: int) -> str:
        return f"{self._prefix}/{segment:08d}"


def _body(files: Sequence[PlannedFile]) -> bytes:
    rows = [[file.path, file.size_bytes, file.mtime_ns] for file in files]
    return json.dumps({"format": 1, "files": rows}, separators=(",", ":")).encode()


def _files(body: bytes) -> tuple[PlannedFile, ...]:
    rows = json.loads(body)["files"]
    return tuple(PlannedFile(path=path, size_bytes=size, mtime_ns=mtime_ns) for path, size, mtime_ns in rows)
