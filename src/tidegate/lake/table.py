"""A Delta table of ours by its log: what is in it, and how it is changed, one commit at a time.

A commit is one put-if-absent of the next log entry, so the log is its own compare-and-swap. Who
loses finds out by reading the entry that won, and whose put ended in an error finds out in the same
way whether it happened after all (docs/decisions/0001-we-write-the-delta-log.md).

`head`, `files` and the like belong to everybody; `claim`, `commit`, `repair` and `sweep` to the one
owner, whose token only grows.
"""

from __future__ import annotations

import json
import threading
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field, replace
from typing import Final

from tidegate import clock as clocks
from tidegate import effects, errors
from tidegate.lake import attempts, log
from tidegate.lake.log import DataFile, Entry, Kind, Metadata, TableShape, Version
from tidegate.lake.storage import Storage
from tidegate.quick import dataclass

#: How often a put is tried of which nothing is found afterwards.
_PUT_TRIES: Final = 3
_CLAIM_TRIES: Final = 100
#: Versions that are remembered; the oldest half is forgotten beyond.
_REMEMBERED: Final = 20_000
#: In `Metadata.extra`: the newest version at or before this one that took files away.
_REMOVED_AT: Final = "removed_at"
_LOG: Final = "_delta_log"
_HINT: Final = f"{_LOG}/_last_checkpoint"
#: What of ours may be in a folder before there is a table.
_OUR_FOLDERS: Final = frozenset({_LOG, "data", "_claims"})
_CLAIMS: Final = "_claims"
CHECKPOINT_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class _Placed:
    """A file, and when it became visible: of one that only a log checkpoint tells of, when it was written."""

    file: DataFile
    at_us: int


@dataclass(slots=True)
class _Contents:
    """What a version holds. Replayed forward, never back."""

    version: int = -1
    files: dict[str, _Placed] = field(default_factory=dict)
    shape: TableShape | None = None

    def apply(self, entry: Entry) -> None:
        for path in entry.removed:
            self.files.pop(path, None)
        for file in entry.added:
            self.files[file.path] = _Placed(file, entry.version.at_us)
        if entry.shape is not None:
            self.shape = entry.shape
        self.version = entry.version.version


class LakeTable:
    """The table at `url`, a folder or a prefix of an object store. Nothing is read before it is asked for.

    May be used from several threads. Two objects, in one process or in two, may be of the same
    table: versions are won by one of them each.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        clock: clocks.Clock | None = None,
        checkpoint_every: int = CHECKPOINT_EVERY,
        storage: Storage | None = None,
    ) -> None:
        self.url = url
        self.name = name
        self.storage = Storage(url, table=name) if storage is None else storage
        self._clock = clocks.SystemClock() if clock is None else clock
        self._checkpoint_every = checkpoint_every
        self._lock = threading.RLock()
        self._head: Version | None = None
        # A put whose outcome is unknown: the head that we know may not be the newest any more.
        self._unsure = True
        self._contents: _Contents | None = None
        self._versions: dict[int, Version] = {}
        self._checkpointed: int | None = None
        self._checkpointing: threading.Thread | None = None
        #: Why the newest log checkpoint could not be written; nothing depends on one.
        self.checkpoint_failure: BaseException | None = None

    # What is there

    def head(self) -> Version | None:
        """The newest version, looked for beyond the one that is known; None before the first commit.

        A newest entry that a power cut tore is not there: nobody was ever told of it.
        """
        with self._lock:
            newest = self._newest()
            if newest is None:
                self._head = None
            elif self._head is None or self._head.version != newest:
                self._head = self._whole(newest)
            self._unsure = False
            return self._head

    def known_head(self) -> Version | None:
        """The newest version as this object knows it; looked for only when it cannot know."""
        with self._lock:
            return self.head() if self._unsure else self._head

    @property
    def exists(self) -> bool:
        """Whether anything was ever committed."""
        return self.head() is not None

    def metadata(self) -> Metadata | None:
        """What the newest version says of the table; None without one, or when it is somebody else's."""
        head = self.head()
        return None if head is None else head.metadata

    def version(self, number: int) -> Version:
        """One version. Raises `LakeError` when there is none of that number."""
        with self._lock:
            known = self._versions.get(number)
            return (
                self._remember(log.decode_version(self._body(number), number, table=self.name))
                if known is None
                else known
            )

    def entry(self, number: int) -> Entry:
        """The whole commit of a version."""
        return log.decode(self._body(number), number, table=self.name)

    def versions(self, since: int = 0) -> list[Version]:
        """All versions from `since` on, ascending."""
        head = self.head()
        return [] if head is None else [self.version(number) for number in range(max(0, since), head.version + 1)]

    def first_version(self, reached: Callable[[Metadata], bool]) -> Version | None:
        """The first version for which something that only ever rises is true. A binary search."""
        head = self.head()
        if head is None:
            return None
        found = bisect_left(range(head.version + 1), True, key=lambda number: self._reached(number, reached))
        return None if found > head.version else self.version(found)

    def files(self, version: int | None = None) -> tuple[DataFile, ...]:
        """The files of a version, the newest if none is named, in the order in which they came."""
        with self._lock:
            return tuple(placed.file for placed in self._at(version).files.values())

    def among(self, paths: Iterable[str], version: int | None = None) -> frozenset[str]:
        """Those of the paths that are files of a version, the newest if none is named. Costs what is asked."""
        with self._lock:
            there = self._at(version).files
            return frozenset(path for path in paths if path in there)

    def published(self) -> list[tuple[DataFile, int]]:
        """The files of the newest known version, each with the time when it became visible."""
        with self._lock:
            return [(placed.file, placed.at_us) for placed in self._at(None).files.values()]

    def shape(self, version: int | None = None) -> TableShape | None:
        """The columns and properties of a version, the newest if none is named; None without a table."""
        return self._at(version).shape

    def files_between(self, after: int, to: int) -> tuple[DataFile, ...]:
        """The files that came in the versions (after, to]: new rows, not rows that were only rewritten."""
        entries = (self.entry(number) for number in range(after + 1, to + 1))
        fresh = (entry for entry in entries if entry.version.metadata is None or not _rewrites(entry.version.metadata))
        return tuple(file for entry in fresh for file in entry.added)

    def removals(self) -> Iterator[Entry]:
        """The commits that took files away, newest first. Costs what they are, not what lies between."""
        head = self.head()
        number = None if head is None else _removed_at(head)
        while number is not None:
            entry = self.entry(number)
            yield entry
            number = None if number == 0 else _removed_at(self.version(number - 1))

    # Changing it

    def create(self, shape: TableShape, metadata: Metadata, *, added: Iterable[DataFile] = ()) -> Version:
        """The first version. Raises `LakeConflict` when somebody was faster, `NotOurs` when the folder is in use."""
        return self._commit(metadata, tuple(added), (), shape, after=-1)

    def claim(self, owner: str, epoch: int, token: int) -> Version | None:
        """Take the table over: from now on a lower token cannot commit. None when there is no table yet.

        A claim that was made already is found again. Raises `StaleWriter` when a higher token was here.
        """
        for _ in range(_CLAIM_TRIES):
            head = self.head()
            if head is None:
                self._reserve(token)
                return None
            current = self._ours(head)
            self._check_token(current.token, token)
            if (current.owner, current.token) == (owner, token) and current.epoch >= epoch:
                return head
            # Its writer may have died between putting and flushing it.
            self.storage.sync([log.entry_path(head.version)])
            claim = replace(current, kind=Kind.CLAIM, owner=owner, epoch=max(epoch, current.epoch), token=token)
            try:
                return self.commit(claim)
            except errors.LakeConflict:
                continue
        raise errors.LakeUnavailable(table=self.name, what="others commit faster than it can be claimed")

    def commit(
        self,
        metadata: Metadata,
        *,
        added: Iterable[DataFile] = (),
        removed: Iterable[DataFile] = (),
        shape: TableShape | None = None,
        onto: Version | None = None,
    ) -> Version:
        """Commit the version after the known head, and give it. `id` and `at_us` of the metadata are set here.

        `onto` is the version that was looked at when this was decided: another head is a conflict.
        What was decided on a table that is not there yet is `create`'s.
        Raises `StaleWriter` when a higher token was here, `LakeConflict` when another commit took the
        version: look again and decide again. `LakeUnavailable` says that the outcome is unknown;
        the next call of anything finds out. No file of a commit that raised may be deleted.
        """
        return self._commit(metadata, tuple(added), tuple(removed), shape, after=None if onto is None else onto.version)

    def delete_files(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Delete files by name, and tell which were there. Those of the newest version are never deleted."""
        with self._lock:
            active = self._at(None).files
            chosen = [path for path in paths if path not in active]
        deleted = tuple(path for path in chosen if self._delete(path))
        folders = {folder for path in chosen for folder in attempts.folders_of(path)}
        if folders:
            self._drop(folders)
        return deleted

    def sweep(self, keep: Collection[str], *, below_token: int, older_than_us: int) -> int:
        """Delete what dead attempts left: folders that neither `keep` nor the log names. Tells how many files.

        Only folders of lower tokens, all of whose files were written before.
        """
        deleted = 0
        for folder in self._forgotten(frozenset(keep), below_token):
            stored = self.storage.walk(folder)
            if all(one.modified_us < older_than_us for one in stored):
                deleted += len(self.delete_files(one.path for one in stored if not one.name.startswith(".")))
                self.delete_files(one.path for one in self.storage.walk(folder))
                # Spark's own folders inside it, and one that never got a file.
                self._drop([*self.storage.folders(folder), *attempts.folders_of(f"{folder}/")])
        return deleted

    def repair(self) -> bool:
        """Remove what a power cut left torn: the newest entry, and a log checkpoint that does not read.

        Only what was never acknowledged can be torn, for an entry is flushed before its commit
        returns. For the owner, at its start. Raises `LakeCorrupt` for an older entry that is torn.
        Nothing of a table of somebody else's is touched.
        """
        with self._lock:
            self._forget()
            newest = self._newest()
            torn = newest is not None and self._is_torn(newest)
            if newest is None or not self._may_repair(newest - 1 if torn else newest):
                return False
            whole: int | None = newest
            if torn:
                path = log.entry_path(newest)
                with effects.effect(effects.LAKE_REPAIR, table=self.name, path=path):
                    self.storage.delete(path)
                whole = newest - 1 if newest else None
            return self._repair_checkpoints(whole) or torn

    def checkpoint(self) -> None:
        """Write a log checkpoint now, which makes opening fast for everybody. Nothing depends on it."""
        from tidegate.lake import checkpoints  # noqa: PLC0415 -- deltalake is heavy, and few need it

        checkpoints.write(self.storage, table=self.name)

    def close(self) -> None:
        """Wait for the log checkpoint that is being written."""
        thread = self._checkpointing
        if thread is not None:
            thread.join()

    # How it is read

    def _newest(self) -> int | None:
        low = self._head.version if self._head is not None else self._start()
        if low is None:
            return None
        # Versions are dense: leap ahead until one is missing, then halve the distance.
        leap = 1
        while self._has(low + leap):
            low, leap = low + leap, leap * 2
        while leap > 1:
            leap //= 2
            if self._has(low + leap):
                low += leap
        return low

    def _whole(self, newest: int) -> Version | None:
        try:
            return self.version(newest)
        except errors.LakeCorrupt:
            if not self._is_torn(newest):
                raise
        return self.version(newest - 1) if newest else None

    def _start(self) -> int | None:
        hint = self._hint()
        if hint is not None and self._has(hint):
            return hint
        if self._has(0):
            return 0
        found = (log.version_of(one.path) for one in self.storage.walk(_LOG))
        return max((number for number in found if number is not None), default=None)

    def _hint(self) -> int | None:
        """The version of the newest log checkpoint, as its writer left word of it."""
        body = self.storage.get(_HINT)
        try:
            return None if body is None else int(json.loads(body)["version"])
        except (ValueError, TypeError, KeyError):
            return None

    def _has(self, number: int) -> bool:
        return self.storage.has(log.entry_path(number))

    def _body(self, number: int) -> bytes:
        body = self.storage.get(log.entry_path(number))
        if body is None:
            raise errors.LakeError(table=self.name, what=f"there is no version {number}")
        return body

    def _reached(self, number: int, reached: Callable[[Metadata], bool]) -> bool:
        metadata = self.version(number).metadata
        return metadata is not None and reached(metadata)

    def _remember(self, version: Version) -> Version:
        if len(self._versions) >= _REMEMBERED:
            for number in sorted(self._versions)[: _REMEMBERED // 2]:
                del self._versions[number]
        self._versions[version.version] = version
        return version

    def _forget(self) -> None:
        self._head, self._unsure, self._contents = None, True, None
        self._versions.clear()

    def _at(self, version: int | None) -> _Contents:
        """What a version holds; the lock is held by whoever looks into it."""
        with self._lock:
            known = self._head
            if version is None or known is None or version > known.version:
                known = self.head()
            if known is None and version is None:
                return _Contents()
            if known is None or (version is not None and version > known.version):
                raise errors.LakeError(table=self.name, what=f"there is no version {version}")
            wanted = known.version if version is None else version
            contents = self._contents
            if contents is None or contents.version > wanted:
                contents = self._started(wanted)
            for number in range(contents.version + 1, wanted + 1):
                contents.apply(self.entry(number))
            if self._contents is None or self._contents.version <= wanted:
                self._contents = contents
            return contents

    def _started(self, wanted: int) -> _Contents:
        """What the newest log checkpoint up to a version says; nothing where it cannot be used."""
        hint = self._hint()
        if hint is None:
            return _Contents()
        if hint > wanted:
            hint = max((number for number in self._checkpoints() if number <= wanted), default=None)
        if hint is None:
            return _Contents()
        from tidegate.lake import checkpoints  # noqa: PLC0415 -- pyarrow is heavy, and heads need none

        read = checkpoints.load(self.storage, hint)
        if read is None:
            return _Contents()
        files, shape = read
        # The log does not tell any more when they became visible: they were written shortly before.
        placed = {file.path: _Placed(file, file.modified_ms * 1000) for file in files}
        return _Contents(version=hint, files=placed, shape=shape)

    def _checkpoints(self, *, since: int = 0) -> list[int]:
        after = log.entry_path(since - 1) if since > 0 else None
        found = (log.checkpoint_of(one.path) for one in self.storage.walk(_LOG, after=after))
        return [number for number in found if number is not None]

    # How it is changed

    def _ours(self, head: Version) -> Metadata:
        metadata = head.metadata
        if metadata is None:
            what = f"version {head.version} was committed by somebody else"
            raise errors.NotOurs(table=self.name, what=what)
        if metadata.table != self.name:
            raise errors.NotOurs(table=self.name, what=f"its folder holds the table {metadata.table}")
        return metadata

    def _check_token(self, current: int | None, held: int) -> None:
        if current is not None and current > held:
            raise errors.StaleWriter(name=self.name, current=current, held=held)

    def _check_columns(self, shape: TableShape | None) -> None:
        if shape is None:
            raise errors.LakeError(table=self.name, what="it is not there yet, and nobody said what columns it has")

    def _check_folder(self) -> None:
        strange = [*self._strange(), *(one.path for one in self.storage.walk(_LOG))]
        if strange:
            raise errors.NotOurs(table=self.name, what=f"its folder {self.url} is in use: it has {strange[0]}")

    def _strange(self) -> Iterator[str]:
        """What no table of ours has; its log is not looked into."""
        for folder, ours in (("", _OUR_FOLDERS.__contains__), (attempts.DATA, attempts.is_batch)):
            folders, files = self.storage.children(folder)
            yield from (one for one in folders if not ours(one) and not one.rpartition("/")[2].startswith("."))
            yield from (one.path for one in files if not one.name.startswith("."))

    def _reserve(self, token: int) -> None:
        """Claim a table that is not there yet, so that a lower token does not make it."""
        self._check_folder()
        reserved = self._reserved()
        self._check_token(reserved, token)
        if reserved == token:
            return
        path = f"{_CLAIMS}/{token:020d}"
        with effects.effect(effects.LAKE_COMMIT, table=self.name, path=path):
            self.storage.put_if_absent(path, b"")
            self.storage.sync([path], new_folders=True)

    def _reserved(self) -> int | None:
        names = (one.name for one in self.storage.walk(_CLAIMS))
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def _commit(
        self,
        metadata: Metadata,
        added: tuple[DataFile, ...],
        removed: tuple[DataFile, ...],
        shape: TableShape | None,
        *,
        after: int | None,
    ) -> Version:
        """Commit after the version `after` (-1: there is none), or after whatever is the newest."""
        with self._lock:
            head = self.known_head()
            number = 0 if head is None else head.version + 1
            if after is not None and number <= after:
                raise errors.LakeCorrupt(table=self.name, what=f"version {after}, which was there, is gone")
            if after is not None and number > after + 1:
                raise self._lost(self.version(after + 1), metadata)
            if head is None:
                self._check_columns(shape)
                self._check_folder()
                self._check_token(self._reserved(), metadata.token)
            else:
                self._check_token(self._ours(head).token, metadata.token)
            stamped = self._stamped(metadata, head, number, removes=bool(removed))
            sizes = [(file.path, file.size_bytes) for file in removed]
            self._put(number, log.encode(stamped, number, added=added, removed=sizes, shape=shape), stamped)
            version = self._remember(Version(version=number, at_us=stamped.at_us, metadata=stamped))
            self._head = version
            paths, bytes_ = tuple(path for path, _ in sizes), tuple(size for _, size in sizes)
            self._follow(Entry(version=version, added=added, removed=paths, removed_bytes=bytes_, shape=shape))
        self._checkpoint_if_due(version)
        return version

    def _stamped(self, metadata: Metadata, head: Version | None, number: int, *, removes: bool) -> Metadata:
        removed_at = number if removes else None if head is None else _removed_at(head)
        extra = {name: value for name, value in metadata.extra.items() if name != _REMOVED_AT}
        if removed_at is not None:
            extra[_REMOVED_AT] = removed_at
        now_us = clocks.to_micros(self._clock.now())
        at_us = now_us if head is None else max(now_us, head.at_us)
        return replace(metadata, table=self.name, id=uuid.uuid4().hex, at_us=at_us, extra=extra)

    def _put(self, number: int, body: bytes, stamped: Metadata) -> None:
        """Win the version, or raise. Any error is answered by looking who has it."""
        path = log.entry_path(number)
        failure: errors.LakeUnavailable | None = None
        for _ in range(_PUT_TRIES):
            self._unsure = True
            try:
                won = self._put_once(path, body, number, stamped)
            except errors.LakeUnavailable as exc:
                won, failure = False, exc
            if not won:
                found = self._found(number)
                if found is None:
                    continue
                if found.metadata is None or found.metadata.id != stamped.id:
                    raise self._lost(found, stamped)
                self.storage.sync([path], new_folders=number == 0)
            self._unsure = False
            return
        raise failure or errors.LakeUnavailable(table=self.name, what=f"version {number} is neither taken nor free")

    def _put_once(self, path: str, body: bytes, number: int, stamped: Metadata) -> bool:
        with effects.effect(effects.LAKE_COMMIT, table=self.name, version=number, kind=stamped.kind.value):
            won = self.storage.put_if_absent(path, body)
            if won:
                self.storage.sync([path], new_folders=number == 0)
        return won

    def _found(self, number: int) -> Version | None:
        body = self.storage.get(log.entry_path(number))
        return None if body is None else log.decode_version(body, number, table=self.name)

    def _lost(self, found: Version, ours: Metadata) -> errors.TidegateError:
        if found.metadata is None:
            what = f"version {found.version} was committed by somebody else"
            return errors.NotOurs(table=self.name, what=what)
        if found.metadata.token > ours.token:
            return errors.StaleWriter(name=self.name, current=found.metadata.token, held=ours.token)
        return errors.LakeConflict(table=self.name, version=found.version)

    def _drop(self, folders: Collection[str]) -> None:
        with effects.effect(effects.LAKE_DELETE, table=self.name, folders=len(folders)):
            self.storage.drop_empty(folders)

    def _delete(self, path: str) -> bool:
        with effects.effect(effects.LAKE_DELETE, table=self.name, path=path):
            return self.storage.delete(path)

    def _follow(self, entry: Entry) -> None:
        if self._contents is not None and self._contents.version == entry.version.version - 1:
            self._contents.apply(entry)

    # What dead attempts and power cuts left

    def _forgotten(self, keep: frozenset[str], below_token: int) -> list[str]:
        """The folders of attempts of lower tokens that nobody names."""
        named = keep | {path.rpartition("/")[0] for path in (file.path for file in self.files())}
        tokens: dict[str, int] = {}
        for batch in self.storage.children(attempts.DATA)[0]:
            for folder in self.storage.children(batch)[0]:
                token = attempts.token_of(folder)
                if token is not None and token < below_token and folder not in named:
                    tokens[folder] = token
        for entry in self.removals():
            # Tokens rise along the log: what a token staged was not removed by a lower one.
            oldest = min(tokens.values(), default=None)
            metadata = entry.version.metadata
            if oldest is None or (metadata is not None and metadata.token < oldest):
                break
            for path in entry.removed:
                tokens.pop(path.rpartition("/")[0], None)
        return sorted(tokens)

    def _is_torn(self, number: int) -> bool:
        body = self.storage.get(log.entry_path(number))
        return body is not None and log.is_torn(body)

    def _may_repair(self, whole: int) -> bool:
        """Whether the table is ours, by its newest whole version; before the first one by its folder."""
        if whole < 0:
            return not any(self._strange())
        return log.decode_version(self._body(whole), whole, table=self.name).metadata is not None

    def _repair_checkpoints(self, newest: int | None) -> bool:
        """Remove log checkpoints that do not read or lead the log, and the hint with them."""
        hint = self._hint()
        bad = [number for number in self._checkpoints(since=hint or 0) if not self._is_good(number, newest)]
        paths = [log.checkpoint_path(number) for number in bad]
        lost_hint = self.storage.has(_HINT) and (hint is None or not self.storage.has(log.checkpoint_path(hint)))
        if bad or lost_hint:
            # The hint first: without it readers list the log, and find what is there.
            paths.insert(0, _HINT)
        for path in paths:
            with effects.effect(effects.LAKE_REPAIR, table=self.name, path=path):
                self.storage.delete(path)
        return bool(paths)

    def _is_good(self, checkpoint: int, newest: int | None) -> bool:
        from tidegate.lake import checkpoints  # noqa: PLC0415 -- as above

        return newest is not None and checkpoint <= newest and checkpoints.load(self.storage, checkpoint) is not None

    def _checkpoint_if_due(self, version: Version) -> None:
        if self._checkpointed is None:
            self._checkpointed = self._hint() or 0
        running = self._checkpointing is not None and self._checkpointing.is_alive()
        if running or version.version - self._checkpointed < self._checkpoint_every:
            return
        self._checkpointed = version.version
        self._checkpointing = threading.Thread(
            target=self._checkpoint_quietly, name=f"log checkpoint of {self.name}", daemon=True
        )
        self._checkpointing.start()

    def _checkpoint_quietly(self) -> None:
        try:
            self.checkpoint()
        except Exception as exc:  # noqa: BLE001 -- a commit must never fail because of it; it is tried again
            self.checkpoint_failure = exc
        else:
            self.checkpoint_failure = None


def _removed_at(version: Version) -> int | None:
    return None if version.metadata is None else version.metadata.extra.get(_REMOVED_AT)


def _rewrites(metadata: Metadata) -> bool:
    return metadata.kind is Kind.COMPACT
