"""A folder of Parquet files, and a manifest of which of them count.

    <path>/epoch=E/checkpoints=F-L/attempt=T-A/part-*.parquet     one folder for each try
    <path>/_tidegate/<version>.json                               the manifest

Our reader follows the manifest and sees each row once. Whoever reads the folder raw sees rows from
the moment they are written, sees them again after a crash until the sweep, and beyond gaps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegate import effects, errors
from tidegate.clock import Clock, SystemClock, to_micros
from tidegate.lake import parquet_files
from tidegate.lake.log import DataFile
from tidegate.lake.storage import Storage, Stored
from tidegate.progress.ranges import Range
from tidegate.sinks import manifest as manifests
from tidegate.sinks.contract import Deleted, Delivery, Extent, Ownership, Publication, Receipt, Sink, SinkState
from tidegate.sinks.manifest import Batch, Manifest
from tidegate.sinks.specs import ParquetSinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLAIMS: Final = 100

_PLACE: Final = re.compile(
    r"epoch=(?P<epoch>\d+)/checkpoints=(?P<first>\d+)-(?P<last>\d+)/attempt=(?P<token>\d+)-(?P<attempt>\d+)/.+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where one try has its files."""

    epoch: int
    range: Range
    token: int
    attempt: int

    @classmethod
    def of(cls, delivery: Delivery) -> _Place:
        owner = delivery.owner
        return cls(epoch=owner.epoch, range=delivery.range, token=owner.token, attempt=delivery.attempt)

    @classmethod
    def of_path(cls, path: str) -> _Place | None:
        """The try that a file belongs to; None for a file that no try made."""
        found = _PLACE.fullmatch(path)
        if found is None or int(found["last"]) < int(found["first"]):
            return None
        return cls(
            epoch=int(found["epoch"]),
            range=Range.of_inclusive(int(found["first"]), int(found["last"])),
            token=int(found["token"]),
            attempt=int(found["attempt"]),
        )

    @property
    def folder(self) -> str:
        first, last = self.range.inclusive
        return f"epoch={self.epoch}/checkpoints={first}-{last}/attempt={self.token}-{self.attempt}"


class ParquetSink(Sink):
    """Parquet files in a folder or below the URL of an object store."""

    spec: ParquetSinkSpec

    def __init__(self, spec: ParquetSinkSpec, url: str, *, clock: Clock | None = None) -> None:
        self.spec = spec
        self._storage = Storage(url, table=spec.name)
        self._clock = clock or SystemClock()
        self._owner: Ownership | None = None
        self._manifest: Manifest | None = None

    @property
    def url(self) -> str:
        """Where its files are."""
        return self._storage.url

    def open(self, owner: Ownership) -> SinkState:
        with self._mapped():
            self._check_folder()
            self._repair()
            self._manifest, self._owner = self._claimed(owner), owner
        return self.state()

    def state(self) -> SinkState:
        return _state_of(self._opened())

    def deliver(self, df: DataFrame, delivery: Delivery) -> Receipt:
        self._opened()
        folder = _Place.of(delivery).folder
        with self._mapped():
            self._check_folder()
            with effects.effect(effects.PARQUET_STAGE, sink=self.spec.name, folder=folder):
                self._write(df, folder)
                stored = [one for one in self._storage.walk(folder) if _is_data(one)]
                self._storage.sync((one.path for one in stored), new_folders=True)
            measured = [self._measured(one, delivery.range) for one in stored]
        files = tuple(file for file in measured if file.rows)
        return Receipt(sink=self.spec.name, delivery=delivery, rows=sum(file.rows for file in files), files=files)

    def publish(self, receipts: Sequence[Receipt], publication: Publication) -> SinkState:
        def step(before: Manifest) -> Manifest | None:
            at_us = self._now_us()
            new = [
                Batch(range=r.range, rows=r.rows, files=r.files, published_us=at_us, version=before.version + 1)
                for r in receipts
                if before.end is None or r.range.lo >= before.end
            ]
            goes_back = before.end is not None and publication.end < before.end
            return (
                None
                if not new and (goes_back or before.says(publication))
                else before.published(publication, new, at_us=at_us)
            )

        return self._stepped(step)

    def extents(self) -> list[Extent]:
        return [
            Extent(range=b.range, rows=b.rows, size_bytes=b.size_bytes, published_us=b.published_us)
            for b in self._opened().batches
        ]

    def prune(self, reader_lo: int) -> SinkState:
        def step(before: Manifest) -> Manifest | None:
            floor = before.floor(reader_lo)
            rises = before.end is not None and (before.reader_lo is None or floor > before.reader_lo)
            return before.pruned(floor) if rises else None

        return self._stepped(step)

    def delete(self, below: int, *, above: int | None = None, pinned_version: int | None = None) -> Deleted:
        manifest = self._current()
        if manifest.reader_lo is None:
            return Deleted(end=None)
        below = min(below, manifest.reader_lo)
        due: dict[Range, list[Stored]] = {}
        with self._mapped():
            for stored, place in self._placed():
                if place.range.hi <= below and (above is None or place.range.hi > above):
                    due.setdefault(place.range, []).append(stored)
            held = sorted(one for one in due if _is_needed(manifest.given_up_at(one.hi), pinned_version))
            gone = [stored for one in due if one not in held for stored in due[one]]
            self._remove(gone)
        lowest = min((one.lo for one in held), default=below)
        size_bytes = sum(one.size_bytes for one in gone)
        return Deleted(end=lowest, files=sum(map(_is_data, gone)), size_bytes=size_bytes, held=tuple(held))

    def sweep(self, keep: Collection[Delivery], *, older_than_us: int) -> int:
        manifest = self._current()
        known = {file.path for file in manifest.files}
        kept = {_Place.of(delivery).folder for delivery in keep}
        given_up = manifest.reader_lo if manifest.reader_lo is not None else 0
        with self._mapped():
            dead = [
                stored
                for stored, place in self._placed()
                if stored.path not in known
                and place.folder not in kept
                and place.token < manifest.token
                and place.range.hi > given_up  # below, it is the pruner's
                and stored.modified_us < older_than_us
            ]
            self._remove(dead)
            manifests.forget(self._storage, manifest, now_us=self._now_us(), where=self.spec.name)
        return sum(map(_is_data, dead))

    def _opened(self) -> Manifest:
        if self._manifest is None:
            raise ValueError(f"sink {self.spec.name} is not open")
        return self._manifest

    def _owned(self) -> Ownership:
        if self._owner is None:
            raise ValueError(f"sink {self.spec.name} is not open")
        return self._owner

    def _current(self) -> Manifest:
        """The newest manifest, which is still ours."""
        self._opened()
        with self._mapped():
            head = manifests.read_head(self._storage, where=self.spec.name)
        if head is None:
            raise errors.SinkUnavailable(sink=self.spec.name, what=f"the manifest in {self.url} is gone")
        self._check_token(head, self._owned())
        self._manifest = head
        return head

    def _stepped(self, step: Callable[[Manifest], Manifest | None]) -> SinkState:
        """Put what the step makes of the manifest; None from the step means that there is nothing to do."""
        before = self._opened()
        with self._mapped():
            self._check_folder()
            after = step(before)
            if after is None:
                return _state_of(self._current())
            put = manifests.put(self._storage, before, self._signed(after, self._owned()), where=self.spec.name)
            if put is None:
                # Since our claim only a newer owner puts: this tells whom.
                head = self._current()
                raise errors.SinkUnavailable(
                    sink=self.spec.name, what=f"version {head.version} of its manifest appeared under our own token"
                )
            self._manifest = put
        return _state_of(put)

    def _claimed(self, owner: Ownership) -> Manifest:
        for _ in range(_CLAIMS):
            head = manifests.read_head(self._storage, where=self.spec.name)
            if head is None:
                self._check_is_new()
                first = Manifest(owner=owner.pipeline, epoch=owner.epoch, token=owner.token, version=0)
                wanted = self._signed(first, owner)
            else:
                self._check_owner(head, owner)
                self._check_token(head, owner)
                if head.token == owner.token:
                    return head
                wanted = self._signed(head, owner)
            put = manifests.put(self._storage, head, wanted, where=self.spec.name)
            if put is not None:
                return put
        raise errors.SinkUnavailable(sink=self.spec.name, what=f"{_CLAIMS} others claimed it before us")

    def _signed(self, manifest: Manifest, owner: Ownership) -> Manifest:
        return replace(manifest, epoch=owner.epoch, token=owner.token, at_us=self._now_us())

    def _check_token(self, head: Manifest, owner: Ownership) -> None:
        if head.token > owner.token:
            raise errors.StaleWriter(name=owner.pipeline, current=head.token, held=owner.token)

    def _check_owner(self, head: Manifest, owner: Ownership) -> None:
        if head.owner != owner.pipeline:
            raise errors.SinkRejected(
                sink=self.spec.name,
                what=f"{self.url} belongs to pipeline {head.owner}",
                hint="give each parquet sink a `path:` of its own",
            )

    def _check_is_new(self) -> None:
        folders, files = self._storage.children()
        others = [one.rstrip("/") for one in (*folders, *(file.path for file in files))]
        others = [one for one in others if one != manifests.FOLDER and not one.startswith(".")]
        if others:
            raise errors.SinkRejected(
                sink=self.spec.name,
                what=f"{self.url} holds {others[0]} and has no manifest of ours",
                hint="choose another `path:`, or move what is in that folder away",
            )

    def _check_folder(self) -> None:
        root = self._storage.local_root
        if root is not None and os.path.lexists(root) and not os.path.isdir(root):
            raise errors.SinkUnavailable(sink=self.spec.name, what=f"{root} is a file, not a folder")

    def _repair(self) -> None:
        torn = manifests.torn_head(self._storage, where=self.spec.name)
        if torn is not None:
            with effects.effect(effects.PARQUET_DELETE, sink=self.spec.name, path=torn):
                self._storage.delete(torn)

    def _write(self, df: DataFrame, folder: str) -> None:
        try:
            # The marker of success says nothing here: the receipt names every file.
            writer = df.write.mode("errorifexists").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            writer.parquet(self._storage.at(folder))
        except Exception:
            # Whatever it is goes on to the worker's edge; only a folder in the way is told as itself.
            # Hadoop names a file in the way in many words; looking is surer than reading them.
            self._check_folder()
            raise

    def _measured(self, stored: Stored, batch: Range) -> DataFile:
        with parquet_files.opened(self._storage, stored.path) as file:
            rows = file.metadata.num_rows
        return DataFile(
            path=stored.path,
            size_bytes=stored.size_bytes,
            rows=rows,
            modified_ms=stored.modified_us // 1000,
            range=batch,
        )

    def _placed(self) -> Iterator[tuple[Stored, _Place]]:
        """Every file of every try."""
        folders, _ = self._storage.children()
        for folder in folders:
            if folder.startswith("epoch="):
                for stored in self._storage.walk(folder.rstrip("/")):
                    place = _Place.of_path(stored.path)
                    if place is not None:
                        yield stored, place

    def _remove(self, dead: Iterable[Stored]) -> None:
        folders: set[str] = set()
        for stored in dead:
            with effects.effect(effects.PARQUET_DELETE, sink=self.spec.name, path=stored.path):
                self._storage.delete(stored.path)
            folders.update(_folders_of(stored.path))
        if folders:
            with effects.effect(effects.PARQUET_DELETE, sink=self.spec.name, path=None):
                self._storage.drop_empty(folders)

    def _now_us(self) -> int:
        return to_micros(self._clock.now())

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except errors.LakeUnavailable as exc:
            raise errors.SinkUnavailable(sink=self.spec.name, what=str(exc.fields.get("what", exc))) from exc


def read_manifest(url: str, *, name: str = "") -> Manifest | None:
    """What of a folder counts now; None where no parquet sink ever wrote."""
    return manifests.read_head(Storage(url, table=name or url), where=name or url)


def to_arrow(
    url: str, files: Iterable[DataFile], *, columns: Sequence[str] | None = None, limit: int | None = None
) -> pa.Table:
    """The rows of a manifest's files, in their order, read without Spark. No files, no columns."""
    storage = Storage(url, table=url)
    tables: list[pa.Table] = []
    left = limit
    for file in files:
        if left is None or left > 0:
            tables.append(parquet_files.rows(storage, file.path, columns=columns, limit=left))
            left = None if left is None else left - tables[-1].num_rows
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def _state_of(manifest: Manifest) -> SinkState:
    return SinkState(
        epoch=manifest.epoch,
        token=manifest.token,
        end=manifest.end,
        version=manifest.version,
        published_us=manifest.published_us,
        reader_lo=manifest.reader_lo,
        vector=manifest.vector,
    )


def _folders_of(path: str) -> Iterator[str]:
    """The folders that lead to a file, without its epoch's."""
    while path.count("/") > 1:
        path = path.rpartition("/")[0]
        yield path


def _is_data(stored: Stored) -> bool:
    return stored.name.endswith(".parquet") and not stored.name.startswith(("_", "."))


def _is_needed(given_up_at: int | None, pinned_version: int | None) -> bool:
    """Whether a reader of the pinned version or a later one still reads what went at that version."""
    if given_up_at is None:
        return False
    return pinned_version is not None and pinned_version < given_up_at
