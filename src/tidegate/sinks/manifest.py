"""The manifest of a parquet sink: which of the files in its folder count, and what they are complete to.

A numbered entry for each step, `_tidegate/<version>.json`, put only where there is none yet, so that
of two writers one wins and the other learns of it. An entry tells the state in full and the batches
that came with it; each `BASE_EVERY`-th tells all batches, so that a reader opens a few entries only.
Batches wholly below `reader_lo` no longer count; nothing else ever leaves.
"""

from __future__ import annotations

import json
import re
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegate import effects, errors
from tidegate.lake.log import DataFile
from tidegate.lake.storage import Storage
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Vector
from tidegate.sinks.contract import Publication

FORMAT: Final = 1
FOLDER: Final = "_tidegate"
BASE_EVERY: Final = 64
#: Entries that no reader needs stay for longer than a reader takes.
KEPT_US: Final = 3_600_000_000
_STEPS: Final = 256

_ENTRY: Final = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that counts: its files, relative to the sink's folder, and the version it came with."""

    range: Range
    rows: int
    files: tuple[DataFile, ...]
    published_us: int
    version: int

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        return {
            "range": [self.range.lo, self.range.hi],
            "rows": self.rows,
            "files": [file.to_json() for file in self.files],
            "published_us": self.published_us,
            "version": self.version,
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Batch:
        return cls(
            range=Range(*read["range"]),
            rows=read["rows"],
            files=tuple(DataFile.from_json(file) for file in read["files"]),
            published_us=read["published_us"],
            version=read["version"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What counts at one version. `end` is exclusive, and None when nothing was ever published.

    `steps` are the rises of `reader_lo`, each with the version that made it; `schema` is the one of
    the rows delivered last, as Spark writes it.
    """

    owner: str
    epoch: int
    token: int
    version: int
    id: str = ""
    at_us: int = 0
    base: int = 0
    end: int | None = None
    published_us: int | None = None
    reader_lo: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    vector: Vector = field(default_factory=Vector)
    schema_fp: str | None = None
    source_identity: str | None = None
    lateness_us: int | None = None
    steps: tuple[tuple[int, int], ...] = ()
    batches: tuple[Batch, ...] = ()

    @property
    def files(self) -> list[DataFile]:
        """What a reader reads, in the order of the checkpoints."""
        return [file for batch in self.batches for file in batch.files]

    def published(self, publication: Publication, new: Iterable[Batch], *, at_us: int) -> Manifest:
        """What counts after a publication."""
        reader_lo = publication.reader_lo if self.reader_lo is None else self.reader_lo
        return replace(
            self,
            end=publication.end if self.end is None else max(self.end, publication.end),
            published_us=at_us,
            reader_lo=reader_lo,
            positions=dict(publication.positions),
            vector=publication.vector,
            schema_fp=publication.schema_fp,
            source_identity=publication.source_identity,
            lateness_us=publication.lateness_us,
            batches=tuple(sorted((*self.batches, *new), key=lambda batch: batch.range)),
        )

    def says(self, publication: Publication) -> bool:
        """Whether this publication has been made already."""
        same_end = self.end is not None and publication.end == self.end
        return same_end and (self.vector, dict(self.positions)) == (publication.vector, dict(publication.positions))

    def floor(self, reader_lo: int) -> int:
        """The edge of a batch at or below the mark."""
        return next((batch.range.lo for batch in self.batches if reader_lo in batch.range), reader_lo)

    def pruned(self, reader_lo: int) -> Manifest:
        """What counts when everything below is given up; `reader_lo` lies on an edge."""
        kept = tuple(batch for batch in self.batches if batch.range.hi > reader_lo)
        steps = (*self.steps, (reader_lo, self.version + 1))[-_STEPS:]
        return replace(self, reader_lo=reader_lo, batches=kept, steps=steps)

    def given_up_at(self, end: int) -> int | None:
        """The version that gave up the batches which end at or below `end`; None: they still count."""
        at = bisect_left(self.steps, (end, -1))
        return self.steps[at][1] if at < len(self.steps) else None


def encode(manifest: Manifest, came: Iterable[Batch]) -> bytes:
    """The entry of a version. `came` are the batches that the one before did not have."""
    told = manifest.batches if manifest.base == manifest.version else tuple(came)
    document = {
        "tidegate": FORMAT,
        **{name: getattr(manifest, name) for name in _PLAIN},
        "positions": dict(manifest.positions),
        "vector": manifest.vector.to_json(),
        "steps": [list(step) for step in manifest.steps],
        "batches": [batch.to_json() for batch in told],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


_PLAIN: Final = (
    "owner",
    "epoch",
    "token",
    "version",
    "id",
    "at_us",
    "base",
    "end",
    "published_us",
    "reader_lo",
    "schema_fp",
    "source_identity",
    "lateness_us",
)


def decode(body: bytes, *, where: str) -> Manifest:
    """One entry, with the batches it tells of. ValueError when it is torn; `SinkError` when it is too new."""
    if not body.endswith(b"\n"):
        raise ValueError("it ends in the middle")
    read = json.loads(body)
    if read["tidegate"] > FORMAT:
        raise errors.SinkRejected(
            sink=where,
            what=f"its manifest was written by a newer Tidegate (format {read['tidegate']})",
            hint="install the Tidegate that wrote it, or a newer one",
        )
    return Manifest(
        positions=read["positions"],
        vector=Vector.from_json(read["vector"]),
        steps=tuple((lo, version) for lo, version in read["steps"]),
        batches=tuple(Batch.from_json(batch) for batch in read["batches"]),
        **{name: read[name] for name in _PLAIN},
    )


def entry_path(version: int) -> str:
    """Where the entry of a version is, relative to the sink's folder."""
    return f"{FOLDER}/{version:020d}.json"


def read_head(storage: Storage, *, where: str) -> Manifest | None:
    """What counts now; None where there is no manifest.

    A newest entry that a power cut tore was never acknowledged and is passed over.
    """
    versions = _versions(storage)
    while versions:
        found = _read(storage, versions[-1], where=where)
        if found is not None:
            return _with_batches(storage, found, where=where)
        versions.pop()
    return None


def torn_head(storage: Storage, *, where: str) -> str | None:
    """The path of a newest entry that does not parse; None when it does, or there is none."""
    versions = _versions(storage)
    is_torn = bool(versions) and _read(storage, versions[-1], where=where) is None
    return entry_path(versions[-1]) if is_torn else None


def put(storage: Storage, before: Manifest | None, after: Manifest, *, where: str) -> Manifest | None:
    """Put the next version durably, and answer it; None when somebody else was first.

    An outcome that is not known is looked up: the entry carries an id of its own.
    """
    version = 0 if before is None else before.version + 1
    base = version if before is None or version - before.base >= BASE_EVERY else before.base
    after = replace(after, version=version, base=base, id=uuid.uuid4().hex)
    known = set() if before is None else {batch.range for batch in before.batches}
    body = encode(after, [batch for batch in after.batches if batch.range not in known])
    path = entry_path(version)
    with effects.effect(effects.PARQUET_MANIFEST, sink=where, version=version):
        try:
            won = storage.put_if_absent(path, body)
        except errors.LakeUnavailable:
            if not _is_ours(storage, after, where=where):
                raise
            won = True
        won = won or _is_ours(storage, after, where=where)
        if won:
            storage.sync([path], new_folders=version == 0)
    return after if won else None


def forget(storage: Storage, head: Manifest, *, now_us: int, where: str) -> int:
    """Delete the entries that no reader needs any more; how many went."""
    old = [
        stored.path
        for stored in storage.walk(FOLDER)
        if (version := _version_of(stored.name)) is not None
        and version < head.base
        and stored.modified_us < now_us - KEPT_US
    ]
    for path in old:
        with effects.effect(effects.PARQUET_DELETE, sink=where, path=path):
            storage.delete(path)
    return len(old)


def _with_batches(storage: Storage, head: Manifest, *, where: str) -> Manifest:
    batches = list(head.batches)
    for version in range(head.base, head.version):
        entry = _read(storage, version, where=where)
        if entry is None:
            raise errors.SinkRejected(
                sink=where,
                what=f"version {version} of its manifest is missing or does not parse",
                hint=f"restore {storage.at(entry_path(version))} from a copy",
            )
        batches += entry.batches
    floor = head.reader_lo
    kept = (batch for batch in batches if floor is None or batch.range.hi > floor)
    return replace(head, batches=tuple(sorted(kept, key=lambda batch: batch.range)))


def _versions(storage: Storage) -> list[int]:
    found = (_version_of(stored.name) for stored in storage.walk(FOLDER))
    return sorted(version for version in found if version is not None)


def _version_of(name: str) -> int | None:
    found = _ENTRY.fullmatch(name)
    return None if found is None else int(found[1])


def _read(storage: Storage, version: int, *, where: str) -> Manifest | None:
    body = storage.get(entry_path(version))
    try:
        return None if body is None else decode(body, where=where)
    except (ValueError, KeyError, TypeError):
        return None


def _is_ours(storage: Storage, manifest: Manifest, *, where: str) -> bool:
    found = _read(storage, manifest.version, where=where)
    return found is not None and found.id == manifest.id
