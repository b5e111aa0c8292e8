"""The delta sink: Spark writes Parquet aside, a commit of ours shows it.

What is published is decided from the head of the table's log alone, and the log refuses a decision
that was made on an older head. Heavy: loads pyarrow and obstore; Spark is handed in.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tidegate import clock as clocks
from tidegate import errors
from tidegate.lake import schemas, staging
from tidegate.lake.attempts import Attempt, attempt_of
from tidegate.lake.log import DataFile, Entry, Kind, Metadata, TableShape, Version
from tidegate.lake.table import LakeTable
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.sinks.contract import (
    Deleted,
    Delivery,
    Extent,
    Ownership,
    Publication,
    Receipt,
    Sink,
    SinkState,
)
from tidegate.sinks.specs import DeltaSinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How often a decision is made anew because another commit came first.
_TRIES: Final = 10
_SCHEMA: Final = "schema"
_FINGERPRINT: Final = "schema_fp"
#: What Java says when the disk is to blame and not the rows.
_DISK: Final = re.compile(
    r"(?:No space left on device|Disk quota exceeded|Permission denied|AccessControlException|Read-only file system"
    r"|Mkdirs failed|Parent path is not a directory|Input/output error|Too many open files)[^\n]*"
)


class DeltaSink(Sink):
    """A lake table as a sink: complete at every version, for every reader of Delta.

    `stats_columns` are those that get statistics, where the table has them: few, and not floats.
    """

    spec: DeltaSinkSpec

    def __init__(
        self,
        spec: DeltaSinkSpec,
        table: LakeTable,
        *,
        stats_columns: tuple[str, ...] = (),
        clock: clocks.Clock | None = None,
    ) -> None:
        self.spec = spec
        self.table = table
        self._stats_columns = stats_columns
        self._clock = clocks.SystemClock() if clock is None else clock
        self._owner: Ownership | None = None
        self._state: SinkState | None = None
        # The columns of the first delivery, until there is a table that has some.
        self._schema: str | None = None
        self._lock = threading.Lock()

    def open(self, owner: Ownership) -> SinkState:
        with self._mapped():
            self.table.repair()
            self._check_owner(owner)
            self._owner = owner
            return self._seen(self._claimed())

    def state(self) -> SinkState:
        if self._state is None:
            raise ValueError(f"sink {self.spec.name} was not opened")
        return self._state

    def deliver(self, df: DataFrame, delivery: Delivery) -> Receipt:
        with self._mapped():
            self._check_right(delivery.owner)
            schema = self._agreed(staging.schema_of(df, table=self.table.name))
            attempt = _attempt(delivery)
            staged = staging.stage(
                df,
                self.table.storage,
                attempt.folder,
                table=self.table.name,
                stats_columns=self._statistics(),
                range_=delivery.range,
            )
        return Receipt(
            sink=self.spec.name,
            delivery=delivery,
            rows=staged.rows,
            files=staged.files,
            detail={_SCHEMA: staged.schema, _FINGERPRINT: schemas.fingerprint(schema)},
        )

    def publish(self, receipts: Sequence[Receipt], publication: Publication) -> SinkState:
        with self._mapped():
            for _ in range(_TRIES):
                head = self._claimed()
                known = None if head is None else self.table.shape(head.version)
                shape = self._shape(known, receipts)
                if shape is None:
                    # Nothing was ever delivered: there is no table that could say anything.
                    return self._seen(head)
                delivered = (file.path for one in receipts for file in one.files)
                there = frozenset() if head is None else self.table.among(delivered, head.version)
                step = decide_publish(self._owned, head, there, receipts, _with_fingerprint(publication, shape))
                if step is None:
                    return self._seen(head)
                try:
                    if head is None:
                        return self._seen(self.table.create(shape, step.metadata, added=step.added))
                    changed = None if shape == known else shape
                    return self._seen(self.table.commit(step.metadata, added=step.added, shape=changed, onto=head))
                except errors.LakeConflict:
                    continue
            raise self._overrun()

    def extents(self) -> list[Extent]:
        with self._mapped():
            return extents_of(self.table.published())

    def prune(self, reader_lo: int) -> SinkState:
        with self._mapped():
            for _ in range(_TRIES):
                head = self._claimed()
                step = None if head is None else decide_prune(head, self.table.files(head.version), reader_lo)
                if step is None:
                    return self._seen(head)
                try:
                    return self._seen(self.table.commit(step.metadata, removed=step.removed, onto=head))
                except errors.LakeConflict:
                    continue
            raise self._overrun()

    def delete(self, below: int, *, above: int | None = None, pinned_version: int | None = None) -> Deleted:
        with self._mapped():
            head = self._claimed()
            if head is None or head.metadata is None or head.metadata.reader_lo is None:
                return Deleted(end=None)
            given_up = _given_up(self.table.removals(), above)
            deletion = decide_delete(
                given_up, min(below, head.metadata.reader_lo), above=above, pinned_version=pinned_version
            )
            deleted = self.table.delete_files(deletion.sizes)
        size_bytes = sum(deletion.sizes[path] for path in deleted)
        return Deleted(end=deletion.end, files=len(deleted), size_bytes=size_bytes, held=deletion.held)

    def sweep(self, keep: Collection[Delivery], *, older_than_us: int) -> int:
        with self._mapped():
            self._claimed()
            folders = {_attempt(delivery).folder for delivery in keep}
            return self.table.sweep(folders, below_token=self._owned.token, older_than_us=older_than_us)

    def close(self) -> None:
        self.table.close()

    @property
    def _owned(self) -> Ownership:
        if self._owner is None:
            raise ValueError(f"sink {self.spec.name} was not opened")
        return self._owner

    def _claimed(self) -> Version | None:
        """The newest version, which is ours: whatever a writer of before squeezed in is claimed over."""
        owner = self._owned
        return self.table.claim(owner.pipeline, owner.epoch, owner.token)

    def _check_owner(self, owner: Ownership) -> None:
        metadata = self.table.metadata()
        if metadata is not None and metadata.owner != owner.pipeline:
            raise errors.NotOurs(table=self.table.name, what=f"it belongs to {metadata.owner}")

    def _check_right(self, owner: Ownership) -> None:
        metadata = self.table.metadata()
        if metadata is not None and metadata.token > owner.token:
            raise errors.StaleWriter(name=self.table.name, current=metadata.token, held=owner.token)

    def _agreed(self, delivered: str) -> str:
        """The table's schema with these rows in it; refused before Spark computes rows that do not fit."""
        with self._lock:
            shape = self.table.shape()
            known = self._schema if shape is None else shape.schema_json
            agreed = delivered if known is None else schemas.merged(known, delivered, table=self.table.name)
            self._schema = agreed
            return agreed

    def _shape(self, known: TableShape | None, receipts: Sequence[Receipt]) -> TableShape | None:
        """The table's shape once these receipts are in it. Rows of before a column was added may lack it."""
        schema = None if known is None else known.schema_json
        for delivered in dict.fromkeys(str(one.detail[_SCHEMA]) for one in receipts if _SCHEMA in one.detail):
            if schema is None:
                schema = delivered
            else:
                schema = schemas.merged(schema, delivered, table=self.table.name, may_lack=True)
        if schema is None:
            return None
        if known is not None:
            return known if schema == known.schema_json else replace(known, schema_json=schema)
        return schemas.new_shape(schema, self._stats_columns, created_us=clocks.to_micros(self._clock.now()))

    def _statistics(self) -> tuple[str, ...]:
        shape = self.table.shape()
        return self._stats_columns if shape is None else schemas.statistics_of(shape)

    def _seen(self, head: Version | None) -> SinkState:
        owner = self._owned
        metadata = None if head is None else head.metadata
        if head is None or metadata is None:
            self._state = SinkState(epoch=owner.epoch, token=owner.token)
        else:
            self._state = SinkState(
                epoch=metadata.epoch,
                token=metadata.token,
                end=metadata.end,
                version=head.version,
                published_us=head.at_us,
                reader_lo=metadata.reader_lo,
                vector=metadata.vector,
            )
        return self._state

    def _overrun(self) -> errors.SinkUnavailable:
        return errors.SinkUnavailable(sink=self.spec.name, what=f"others keep committing to {self.table.name}")

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except errors.SchemaMismatch as exc:
            raise errors.SinkRejected(sink=self.spec.name, what=exc.message, hint=exc.hint) from exc
        except errors.LakeUnavailable as exc:
            raise errors.SinkUnavailable(sink=self.spec.name, what=exc.message, hint=exc.hint) from exc
        except errors.TidegateError:
            raise
        except Exception as exc:
            # Spark's own errors come as they are, but for those that the disk is to blame for.
            found = _DISK.search(str(exc))
            if found is None and not isinstance(exc, OSError):
                raise
            what = str(exc).partition("\n")[0] if found is None else found[0]
            raise errors.SinkUnavailable(sink=self.spec.name, what=what) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One commit: what it says, and the files that come and go with it."""

    metadata: Metadata
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()


def decide_publish(
    owner: Ownership,
    head: Version | None,
    there: Collection[str],
    receipts: Sequence[Receipt],
    publication: Publication,
) -> Step | None:
    """The commit that shows the receipts; None when the table says all of it already, or more.

    `there` are the files of the receipts that the head has already.
    """
    said = None if head is None else head.metadata
    shown = None if said is None else said.end
    if shown is not None and publication.end < shown:
        return None
    fresh = [one for one in receipts if shown is None or one.range.hi > shown]
    for one in fresh:
        _check_place(one, shown, publication.end)
    added = tuple(file for one in fresh for file in one.files if file.path not in there)
    metadata = Metadata(
        kind=Kind.PUBLISH,
        table="" if said is None else said.table,
        owner=owner.pipeline,
        epoch=owner.epoch if said is None else max(owner.epoch, said.epoch),
        token=owner.token,
        end=publication.end,
        reader_lo=publication.reader_lo if said is None or said.reader_lo is None else said.reader_lo,
        positions=dict(publication.positions),
        vector=publication.vector if said is None else risen(said.vector, publication.vector),
        schema_fp=publication.schema_fp,
        source_identity=publication.source_identity,
        lateness_us=publication.lateness_us,
        rows=sum(file.rows for file in added) + (0 if said is None else said.rows or 0),
        extra={} if said is None else said.extra,
    )
    if not added and said is not None and metadata == replace(said, kind=Kind.PUBLISH, id="", at_us=0):
        return None
    return Step(metadata=metadata, added=added)


def decide_prune(head: Version, files: Sequence[DataFile], reader_lo: int) -> Step | None:
    """The commit that gives up what is below, down to the edge of a batch; None when that was done."""
    said = head.metadata
    if said is None or said.end is None:
        return None
    ranged = [(file, file.range) for file in files if file.range is not None]
    wanted = min(reader_lo, said.end)
    floor = min((range_.lo for _, range_ in ranged if range_.lo < wanted < range_.hi), default=wanted)
    removed = tuple(file for file, range_ in ranged if range_.hi <= floor)
    if said.reader_lo is not None and floor <= said.reader_lo and not removed:
        return None
    raised = floor if said.reader_lo is None else max(floor, said.reader_lo)
    rows = None if said.rows is None else said.rows - sum(file.rows for file in removed)
    return Step(metadata=replace(said, kind=Kind.PRUNE, reader_lo=raised, rows=rows), removed=removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A file that a version took away: readers of older versions may still need it."""

    path: str
    size_bytes: int
    range: Range
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Which files go for good, with their sizes; below `end` nothing is left, `held` are those that somebody needs."""

    sizes: Mapping[str, int]
    end: int
    held: tuple[Range, ...] = ()


def decide_delete(
    given_up: Iterable[GivenUp], end: int, *, above: int | None = None, pinned_version: int | None = None
) -> Deletion:
    """What of the files that were given up may go: whole batches below `end` that no pinned version has."""
    sizes: dict[str, int] = {}
    held: set[Range] = set()
    for file in given_up:
        if file.range.lo >= end or (above is not None and file.range.hi <= above):
            continue
        if file.range.hi > end:
            end = file.range.lo
        elif pinned_version is not None and pinned_version < file.version:
            held.add(file.range)
        else:
            sizes[file.path] = file.size_bytes
    return Deletion(
        sizes=sizes,
        end=min((end, *(range_.lo for range_ in held))),
        held=tuple(sorted(held)),
    )


def extents_of(published: Iterable[tuple[DataFile, int]]) -> list[Extent]:
    """The published files, batch by batch, ascending."""
    batches: dict[Range, list[tuple[DataFile, int]]] = {}
    for file, at_us in published:
        if file.range is not None:
            batches.setdefault(file.range, []).append((file, at_us))
    return [
        Extent(
            range=range_,
            rows=sum(file.rows for file, _ in files),
            size_bytes=sum(file.size_bytes for file, _ in files),
            published_us=max(at_us for _, at_us in files),
        )
        for range_, files in sorted(batches.items())
    ]


def risen(said: Vector, now: Vector) -> Vector:
    """What holds once both were said: a watermark never falls, and a source that was known stays known."""
    higher: dict[str, Watermark] = {**said}
    for root, watermark in now.items():
        higher[root] = max(higher[root], watermark) if root in higher else watermark
    return Vector(higher)


def _check_place(receipt: Receipt, shown: int | None, end: int) -> None:
    """Refuse what would show rows twice, or rows beyond the end."""
    if receipt.range.hi > end or (shown is not None and receipt.range.lo < shown):
        what = f"the batch {receipt.range} lies across what is published (to {shown}) or shall be (to {end})"
        raise errors.SinkRejected(sink=receipt.sink, what=what)


def _given_up(removals: Iterable[Entry], above: int | None) -> Iterator[GivenUp]:
    """The batches' files that commits took away, newest first, back to those that were deleted before."""
    for entry in removals:
        metadata = entry.version.metadata
        reader_lo = None if metadata is None or metadata.kind is not Kind.PRUNE else metadata.reader_lo
        if above is not None and reader_lo is not None and reader_lo <= above:
            return
        for path, size_bytes in zip(entry.removed, entry.removed_bytes, strict=True):
            attempt = attempt_of(path)
            if attempt is not None:
                yield GivenUp(path=path, size_bytes=size_bytes, range=attempt.range, version=entry.version.version)


def _attempt(delivery: Delivery) -> Attempt:
    owner = delivery.owner
    return Attempt(epoch=owner.epoch, range=delivery.range, token=owner.token, attempt=delivery.attempt)


def _with_fingerprint(publication: Publication, shape: TableShape) -> Publication:
    if publication.schema_fp is not None:
        return publication
    return replace(publication, schema_fp=schemas.fingerprint(shape.schema_json))
