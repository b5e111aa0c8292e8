"""A ledger in an object store (S3, GCS, Azure): for serverless lakes, where there is no database.

    <key>/!<version>        a version, put only where there is none: that is the whole of compare-and-swap
    <key>/!pin-<version>    keeps it
    !probe/…                there for a moment when the store is first written to

A version is one object: an index of what is kept of the document, itself included, then the sealed body.
So the head tells the history, and nothing is written twice. The head is found by looking one above the
version known last, or above the highest in a listing; a listing that lags behind is not believed.

What is no longer kept stays in the bucket for a while (`GRACE_S`, by the store's own stamps): a number that
was deleted could be created again by a writer that slept. So each writer looks at what it made: when there
is a higher one that is older than the grace allows, it is taken back.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore import exceptions as refusals
from obstore.store import ObjectStore, from_url

from tidegate import effects, errors
from tidegate.clock import Clock, from_micros, to_micros
from tidegate.ledger.contract import (
    Archived,
    Capabilities,
    Guard,
    History,
    Raw,
    SealedWrite,
    Store,
    VersionInfo,
    Write,
    check_expected,
    check_new,
    trim_below,
)

#: For how long what is known of a head may be built upon, and a version stays after it is no longer kept.
GRACE_S: Final = 300.0
SCHEMES: Final = ("s3", "gs", "az")

_SLACK: Final = 8
_SWEEP_EVERY: Final = 16
_PROBES: Final = 8  # so far a head is followed step by step; then a listing is cheaper
_AT_ONCE: Final = 16
_TRIES: Final = 20
_MOST_KNOWN: Final = 10_000
_TIMEOUTS: Final = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}
_RETRIES: Final = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A version as an index has it."""

    version: int
    created_us: int
    size_bytes: int
    keeps: bool
    deleted: bool

    def to_json(self) -> list[int]:
        return [self.version, self.created_us, self.size_bytes, self.keeps + 2 * self.deleted]

    @classmethod
    def from_json(cls, read: list[int]) -> _Entry:
        version, created_us, size_bytes, flags = read
        return cls(
            version=version, created_us=created_us, size_bytes=size_bytes, keeps=flags % 2 == 1, deleted=flags >= 2
        )

    def info(self, *, pinned: bool) -> VersionInfo:
        return VersionInfo(
            version=self.version,
            created_at=from_micros(self.created_us),
            size_bytes=self.size_bytes,
            pinned=pinned,
            deleted=self.deleted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """An object that was read. Without an index it is not what was put there."""

    version: int
    index: tuple[_Entry, ...] | None
    sealed: bytes
    modified_us: int

    @property
    def entry(self) -> _Entry:
        if self.index is not None:
            return self.index[-1]
        size = len(self.sealed)
        return _Entry(version=self.version, created_us=self.modified_us, size_bytes=size, keeps=True, deleted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was the head of a document at some moment of ours."""

    version: int
    index: tuple[_Entry, ...] | None
    at_s: float

    @property
    def is_deleted(self) -> bool:
        return self.index is not None and self.index[-1].deleted


class ObjectStoreLedger(Store):
    """Documents below a prefix of a bucket, for runners everywhere. Its clock is the runner's."""

    capabilities = Capabilities(transactions=False, history=True, server_clock=False, shared=True)

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        history: History | None = None,
        *,
        bucket: ObjectStore | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """`bucket` is one that is open already; without it the URL is opened.

        :raises ConfigError: the URL, or a setting behind its `?`, cannot be understood.
        """
        super().__init__(url.partition("?")[0], clock, history)
        self._bucket = _open(url) if bucket is None else bucket
        self._grace_s = grace_s
        self._known: dict[str, _Known] = {}
        self._many = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tidegate-ledger")
        self._making = threading.Lock()
        self._is_proved = False
        self._closed = False

    def close(self) -> None:
        """Nothing is held between calls; what comes after is refused."""
        self._closed = True
        self._many.shutdown(wait=False)

    # reading

    def _read(self, key: str, version: int | None) -> Raw | None:
        with self._mapped():
            if version is not None:
                if all(info.version != version for info in self._infos(key)):
                    return None
                found = self._fetch(key, version)
            else:
                found = self._head(key)
                if found is not None and found.entry.deleted:
                    return None
        return None if found is None else _raw(key, found)

    def _keys(self, prefix: str) -> list[str]:
        return [raw.key for raw in self._scan(prefix)]

    def _scan(self, prefix: str) -> list[Raw]:
        with self._mapped():
            heads: dict[str, int] = {}
            for path, _ in self._listed(prefix.rpartition("/")[0]):
                key, _, name = path.rpartition("/")
                version = _version_of(name)
                if version is not None and key.startswith(prefix):
                    heads[key] = max(version, heads.get(key, 0))
            found = self._many.map(lambda key: self._at_least(key, heads[key]), sorted(heads))
            live = [(key, one) for key, one in zip(sorted(heads), found, strict=True) if one is not None]
        return [_raw(key, one) for key, one in live if not one.entry.deleted]

    def _versions(self, key: str) -> list[VersionInfo]:
        with self._mapped():
            return self._infos(key)

    def _infos(self, key: str) -> list[VersionInfo]:
        head = self._head(key)
        if head is None:
            return []
        kept = {entry.version: entry for entry in self._index_below(key, head)}
        pinned = self._pins(key)
        for version in pinned - kept.keys():
            found = self._fetch(key, version)
            if found is not None:
                kept[version] = found.entry
        return [kept[version].info(pinned=version in pinned) for version in sorted(kept)]

    def _index_below(self, key: str, head: _Object) -> list[_Entry]:
        """The index of the head, or of the newest version below it that is whole, with those that are not."""
        broken: list[_Entry] = []
        found: _Object | None = head
        while found is not None:
            if found.index is not None:
                return [*found.index, *reversed(broken)]
            broken.append(found.entry)
            found = self._fetch(key, found.version - 1) if found.version > 1 else None
        return list(reversed(broken))

    def _pins(self, key: str) -> set[int]:
        names = (path.rpartition("/")[2] for path, _ in self._listed(key, within=False))
        return {int(name.removeprefix("!pin-")) for name in names if name.startswith("!pin-")}

    # the head

    def _head(self, key: str) -> _Object | None:
        """The newest version, a delete among them; None when there is none."""
        for _ in range(_TRIES):
            at_s = self.clock.monotonic()
            known = self._fresh(key)
            found = None if known is None else self._climb(key, known.version)
            if found is None:
                self._known.pop(key, None)
                highest = self._highest(key)
                found = self._climb(key, highest, steps=None)
                if found is None and highest == 0:
                    return None
            if found is not None:
                self._remember(key, found.version, found.index, at_s)
                return found
        raise errors.LedgerUnreachable(url=self.url, why=f"{key} changes faster than it can be read")

    def _climb(self, key: str, version: int, steps: int | None = _PROBES) -> _Object | None:
        """The head, found by looking above a version that was one; None when that leads nowhere."""
        found, taken = None, 0
        while steps is None or taken < steps:
            above = self._fetch(key, version + 1)
            if above is None:
                return found if found is not None else self._fetch(key, version) if version else None
            found, version, taken = above, above.version, taken + 1
        return None

    def _at_least(self, key: str, version: int) -> _Object | None:
        """The version that a listing ends with, or the head where more is known of it."""
        known = self._fresh(key)
        found = self._fetch(key, version) if known is None or known.version <= version else None
        return found if found is not None else self._head(key)

    def _highest(self, key: str) -> int:
        """The highest version in a listing; 0 when there is none."""
        names = (path.rpartition("/")[2] for path, _ in self._listed(key, within=False))
        return max((version for name in names if (version := _version_of(name)) is not None), default=0)

    def _fresh(self, key: str) -> _Known | None:
        known = self._known.get(key)
        return known if known is not None and self.clock.monotonic() - known.at_s < self._grace_s else None

    def _remember(self, key: str, version: int, index: tuple[_Entry, ...] | None, at_s: float) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known[key] = _Known(version=version, index=index, at_s=at_s)

    # writing

    def _apply(self, writes: Sequence[Write]) -> list[int]:
        with self._mapped(writes[-1].key):
            self._prove()
            return [self._guarded(write) if isinstance(write, Guard) else self._write(write) for write in writes]

    def _guarded(self, guard: Guard) -> int:
        head = self._head(guard.key)
        check_expected(guard, 0 if head is None else head.version, head is not None and not head.entry.deleted)
        return 0

    def _write(self, write: SealedWrite) -> int:
        for _ in range(_TRIES):
            known = self._expected(write)
            if write.deletes and (known is None or known.is_deleted):
                if write.forget and known is not None:
                    self._forget(write.key)
                return 0
            if self._create(write, known):
                version = 1 if known is None else known.version + 1
                if write.forget:
                    self._forget(write.key)
                elif version % _SWEEP_EVERY == 0:
                    self._sweep(write.key)
                return version
            self._known.pop(write.key, None)  # it moved: look again, and be refused with the version
        raise errors.LedgerUnreachable(url=self.url, why=f"{write.key} changes faster than it can be written")

    def _expected(self, write: SealedWrite) -> _Known | None:
        """The head to write above, which is where the write expects it; None when there is nothing at all."""
        known = self._fresh(write.key)
        if known is not None and known.index is not None and write.expect == known.version and not known.is_deleted:
            return known  # when it moved since, there is something in the way
        head = self._head(write.key)
        check_expected(write, 0 if head is None else head.version, head is not None and not head.entry.deleted)
        return None if head is None else self._known[write.key]

    def _create(self, write: SealedWrite, below: _Known | None) -> bool:
        """Put the version above; false when another did."""
        version = 1 if below is None else below.version + 1
        index = self._index_with(write, version, below)
        body = _pack(write.key, version, index, write.seal(version))
        at_s = self.clock.monotonic()
        path = _path(write.key, version)
        try:
            obstore.put(self._bucket, path, body, mode="create", use_multipart=False)
            is_ours = True
        except (refusals.AlreadyExistsError, refusals.PreconditionError):
            is_ours = self._is_there(path, body)
        except _DEFINITE:
            raise
        except (refusals.BaseError, OSError) as lost:
            is_ours = self._look_for(path, body, write.key, lost)
        if is_ours and not self._stands(write.key, version):
            obstore.delete(self._bucket, path)
            is_ours = False
        if is_ours:
            self._remember(write.key, version, index, at_s)
        return is_ours

    def _is_there(self, path: str, body: bytes) -> bool:
        with suppress(FileNotFoundError):
            return obstore.get(self._bucket, path).bytes().to_bytes() == body
        return False

    def _look_for(self, path: str, body: bytes, key: str, lost: Exception) -> bool:
        """Whether a put without an answer came to the store. That it is not there now does not say it will not be."""
        try:
            return obstore.get(self._bucket, path).bytes().to_bytes() == body
        except (refusals.BaseError, OSError) as error:
            raise errors.OutcomeUnknown(url=self.url, key=key, why=_told(lost)) from error

    def _stands(self, key: str, version: int) -> bool:
        """Whether what was created is built upon the head.

        Its number may have been in use, and deleted, before: then a higher one is there that is older by far.
        One that is higher and younger was built upon ours. And what we built upon may have been forgotten.
        """
        stamps: dict[int, int] = {}
        for page in obstore.list(self._bucket, key, offset=_path(key, max(0, version - 2))):
            found = {_version_of(one["path"].removeprefix(f"{key}/")): to_micros(one["last_modified"]) for one in page}
            stamps |= {number: at_us for number, at_us in found.items() if number is not None}
            if None in found:  # versions sort before everything else below a key
                break
        ours_us = stamps.get(version) or to_micros(obstore.head(self._bucket, _path(key, version))["last_modified"])
        settled_us = ours_us - int(self._grace_s * 500_000)
        is_stale = any(number > version and at_us < settled_us for number, at_us in stamps.items())
        return not is_stale and (version == 1 or version - 1 in stamps)

    def _index_with(self, write: SealedWrite, version: int, below: _Known | None) -> tuple[_Entry, ...]:
        """What is kept once the write is made."""
        now_us = self._now_us()
        size = write.payload.size_bytes
        new = _Entry(version=version, created_us=now_us, size_bytes=size, keeps=write.history, deleted=write.deletes)
        if below is None:
            return (new,)
        before = below.index if below.index is not None else tuple(self._index_of_broken(write.key, below.version))
        if not before or not before[-1].keeps:
            return (*before[:-1], new)
        entries = (*before, new)
        is_long = len(entries) > self.history.count + self.history.count // _SLACK
        if not is_long and entries[0].created_us >= now_us - self.history.age_us:
            return entries
        pinned = self._pins(write.key)
        infos = [entry.info(pinned=entry.version in pinned) for entry in entries]
        gone = set(trim_below(infos, self.history, now_us))
        return tuple(entry for entry in entries if entry.version not in gone)

    def _index_of_broken(self, key: str, version: int) -> list[_Entry]:
        found = self._fetch(key, version)
        return [] if found is None else self._index_below(key, found)

    def _forget(self, key: str) -> None:
        """Remove everything of a document whose delete was decided, the delete last."""
        for path in sorted(path for path, _ in self._listed(key, within=False)):
            with suppress(FileNotFoundError):
                obstore.delete(self._bucket, path)
        self._known.pop(key, None)

    def _sweep(self, key: str) -> None:
        """Delete what has not been kept for long enough that nobody can be about to build upon it."""
        with suppress(refusals.BaseError, OSError):  # the next one tries again
            listed = {_version_of(path.rpartition("/")[2]): at for path, at in self._listed(key, within=False)}
            there = sorted((version, at) for version, at in listed.items() if version is not None)
            pinned, known = self._pins(key), self._known.get(key)
            if known is None or known.index is None or not there:
                return
            kept = {entry.version for entry in known.index} | pinned
            settled = there[-1][1] - int(self._grace_s * 1_000_000)  # by the store's own stamps
            for (version, _), (_, superseded_us) in itertools.pairwise(there):
                if superseded_us > settled:
                    break
                if version not in kept:
                    obstore.delete(self._bucket, _path(key, version))

    def _pin(self, key: str, version: int, pinned: bool) -> bool:
        with self._mapped(key):
            self._prove()
            pin = f"{key}/!pin-{version:020d}"
            if all(info.version != version for info in self._infos(key)):
                return False
            if pinned:
                obstore.put(self._bucket, pin, b"")
            else:
                with suppress(FileNotFoundError):
                    obstore.delete(self._bucket, pin)
            return True

    def _restore(self, key: str, versions: Sequence[Archived]) -> None:
        with self._mapped(key):
            self._prove()
            head = self._head(key)
            check_new(key, None if head is None else head.version)
            entries: tuple[_Entry, ...] = ()
            for one in versions:
                info = one.info
                entry = _Entry(
                    version=info.version,
                    created_us=one.created_us,
                    size_bytes=info.size_bytes,
                    keeps=True,
                    deleted=info.deleted,
                )
                entries = (*entries, entry)
                obstore.put(self._bucket, _path(key, info.version), _pack(key, info.version, entries, one.sealed))
                if info.pinned:
                    obstore.put(self._bucket, f"{key}/!pin-{info.version:020d}", b"")

    # the bucket

    def _prove(self) -> None:
        """Make sure, before the first write, that the store refuses to create what is there."""
        with self._making:
            if self._is_proved:
                return
            with effects.effect(effects.LEDGER_SCHEMA, url=self.url):
                path = f"!probe/{os.urandom(8).hex()}"
                obstore.put(self._bucket, path, b"1", mode="create", use_multipart=False)
                try:
                    obstore.put(self._bucket, path, b"2", mode="create", use_multipart=False)
                except (refusals.AlreadyExistsError, refusals.PreconditionError):
                    self._is_proved = True
                finally:
                    with suppress(refusals.BaseError, OSError):
                        obstore.delete(self._bucket, path)
            if not self._is_proved:
                raise errors.LedgerUnreachable(
                    url=self.url,
                    why="it does not honour conditional writes (If-None-Match): two runners would overwrite each other",
                    hint="use a store that does (S3, GCS, Azure, MinIO, versitygw), or a postgresql:// ledger",
                )

    def _fetch(self, key: str, version: int) -> _Object | None:
        try:
            found = obstore.get(self._bucket, _path(key, version))
        except FileNotFoundError:
            return None
        body = found.bytes().to_bytes()
        index, sealed = _unpack(key, version, body)
        return _Object(version=version, index=index, sealed=sealed, modified_us=to_micros(found.meta["last_modified"]))

    def _listed(self, folder: str, *, within: bool = True) -> Iterator[tuple[str, int]]:
        """Paths and times of the objects of a document, or of all below a folder."""
        try:
            if within:
                found = obstore.list(self._bucket, folder or None).collect()
            else:
                found = obstore.list_with_delimiter(self._bucket, folder)["objects"]
        except FileNotFoundError:
            return
        for one in found:
            yield one["path"], to_micros(one["last_modified"])

    @contextmanager
    def _mapped(self, writing: str | None = None) -> Iterator[None]:
        """The store's errors as ours; `writing` is the key of a write."""
        if self._closed:
            raise errors.LedgerUnreachable(url=self.url, why="it was closed")
        try:
            yield
        except (refusals.BaseError, OSError) as error:
            why = _told(error) if writing is None else f"{writing} was not written: {_told(error)}"
            raise errors.LedgerUnreachable(url=self.url, why=why) from error


#: Answers after which nothing was written, and nothing will be.
_DEFINITE: Final = (
    refusals.PermissionDeniedError,
    refusals.UnauthenticatedError,
    refusals.InvalidPathError,
    refusals.NotSupportedError,
    refusals.UnknownConfigurationKeyError,
    FileNotFoundError,
)


def _open(url: str) -> ObjectStore:
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query))
    if asked.get("endpoint", "").startswith("http://"):
        asked.setdefault("allow_http", "true")
    client: dict[str, Any] = dict(_TIMEOUTS)
    if asked.pop("allow_http", "") == "true":
        client["allow_http"] = True
    place = f"{parts.scheme}://{parts.netloc}{parts.path}"
    try:
        options: Any = {"client_options": client, "retry_config": _RETRIES, **asked}
        return from_url(place, **options)
    except (refusals.BaseError, ValueError, TypeError) as error:
        hint = f"write {parts.scheme}://BUCKET/PREFIX; keys and regions come from the environment or from behind a ?"
        raise errors.ConfigError(where="ledger", what=f"{place}: {_told(error)}", hint=hint) from error


def _path(key: str, version: int) -> str:
    return f"{key}/!{version:020d}"


def _version_of(name: str) -> int | None:
    return int(name[1:]) if len(name) == 21 and name[0] == "!" and name[1:].isdigit() else None


def _raw(key: str, found: _Object) -> Raw:
    return Raw(key=key, version=found.version, sealed=found.sealed, created_us=found.entry.created_us)


# An object: one line with the index's digest, the index, and behind the next line's end the sealed body.


def _pack(key: str, version: int, index: Sequence[_Entry], sealed: bytes) -> bytes:
    told = json.dumps([entry.to_json() for entry in index], separators=(",", ":")).encode()
    return b"TGO1 %s\n%s\n%s" % (_digest(key, version, told), told, sealed)


def _unpack(key: str, version: int, body: bytes) -> tuple[tuple[_Entry, ...] | None, bytes]:
    head, _, rest = body.partition(b"\n")
    told, _, sealed = rest.partition(b"\n")
    if head != b"TGO1 " + _digest(key, version, told):
        return None, body
    return tuple(_Entry.from_json(entry) for entry in json.loads(told)), sealed


def _digest(key: str, version: int, index: bytes) -> bytes:
    return hashlib.blake2b(b"%s\n%d\n%s" % (key.encode(), version, index), digest_size=16).hexdigest().encode()


def _told(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
