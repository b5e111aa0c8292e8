"""A ledger as a whole: is it sound, as it was at a time, into a file and out of one, from one store to another.

An export is a line of JSON for each version, behind one that says what it is:

    {"tidegate": "ledger", "format": 1, "at": "2026-03-01T12:00:00Z", "documents": 12}
    {"key": "pipelines/orders/state", "version": 41, "created_us": …, "size": 523, "sealed": "VEcx…"}

Bodies stay sealed as they are, so that what was damaged on the way does not open.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import IO, Any, Final

from tidegate import errors
from tidegate.clock import from_micros
from tidegate.ledger import leases, sealing
from tidegate.ledger.contract import Archived, Store, Versioned, VersionInfo

FORMAT: Final = 1
_LEASE: Final = "/lease"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A version that cannot be read, and the newest one of its document that can."""

    key: str
    version: int
    why: str
    newest_good: int | None
    is_head: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check looked at, and what it found."""

    documents: int
    versions: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What went over."""

    documents: int
    versions: int


def check(store: Store, progress: Progress | None = None) -> Checked:
    """Read every version of every document."""
    findings: list[Finding] = []
    documents = versions = 0
    for key in store.list():
        if progress is not None:
            progress(key)
        kept = store.versions(key)
        documents, versions = documents + 1, versions + len(kept)
        findings += [found for info in kept if (found := _finding(store, key, info, kept[-1])) is not None]
    return Checked(documents=documents, versions=versions, findings=tuple(findings))


def recover(store: Store, key: str) -> tuple[int, int]:
    """Put the newest good version above a head that cannot be read: (it, the new version).

    :raises LedgerError: the head is good, or no version is.
    """
    try:
        store.get(key)
    except errors.CorruptCheckpoint:
        return store.recover(key)
    raise errors.LedgerError(what=f"{key} can be read; there is nothing to recover")


class AsOf:
    """The documents as they were at a moment, as far as their history is kept. To read only.

    What has been removed since then is not in it: a store lists what it has.
    """

    def __init__(self, store: Store, moment: datetime) -> None:
        self._store = store
        self.moment = moment

    def get(self, key: str) -> Versioned | None:
        """The document's version of that moment; None when it was not there, or is not kept."""
        past = [info for info in self._store.versions(key) if info.created_at <= self.moment]
        return None if not past or past[-1].deleted else self._store.get_version(key, past[-1].version)

    def list(self, prefix: str = "") -> list[str]:
        """The keys that there were."""
        return [document.key for document in self.scan(prefix)]

    def scan(self, prefix: str = "") -> Sequence[Versioned]:
        """The documents that there were, by key."""
        found = (self.get(key) for key in self._store.list(prefix))
        return [document for document in found if document is not None]


def export(store: Store, file: IO[str], progress: Progress | None = None) -> Copied:
    """Write every document with its versions, leases aside.

    :raises CorruptCheckpoint: a version cannot be read: the copy would hide that.
    """
    keys = _keys_to_copy(store)
    header = {"tidegate": "ledger", "format": FORMAT, "at": store.now().isoformat(), "documents": len(keys)}
    file.write(json.dumps(header) + "\n")
    versions = 0
    for key in keys:
        if progress is not None:
            progress(key)
        for one in store.archived(key):
            file.write(json.dumps(_to_json(key, one)) + "\n")
            versions += 1
    return Copied(documents=len(keys), versions=versions)


def import_(file: Iterable[str], store: Store, progress: Progress | None = None) -> Copied:
    """Take in an export. The whole of it is verified before anything is written.

    :raises LedgerError: it is none, it is damaged or cut short, or the ledger has documents.
    """
    _check_empty(store)
    documents = list(_exported(file))
    for key, versions in documents:
        if progress is not None:
            progress(key)
        store.restore(key, versions)
    return Copied(documents=len(documents), versions=sum(len(versions) for _, versions in documents))


def copy(source: Store, target: Store, progress: Progress | None = None) -> Copied:
    """Take every document with its versions over to an empty ledger, while nothing runs.

    :raises LeaseHeld: something runs.
    :raises LedgerError: the target has documents, or the source changed meanwhile.
    """
    _check_empty(target)
    _check_idle(source)
    versions, keys = 0, _keys_to_copy(source)
    for key in keys:
        if progress is not None:
            progress(key)
        archived = source.archived(key)
        target.restore(key, archived)
        versions += len(archived)
    _check_idle(source)
    if [(one.key, one.version) for one in target.scan()] != _heads(source):
        raise errors.LedgerError(what=f"{source.url} changed while it was copied; empty the copy and try again")
    return Copied(documents=len(keys), versions=versions)


def _finding(store: Store, key: str, info: VersionInfo, head: VersionInfo) -> Finding | None:
    try:
        store.get_version(key, info.version)
    except (errors.CorruptCheckpoint, errors.NewerFormat) as error:
        good = error.fields["newest_good"]
        return Finding(
            key=key,
            version=info.version,
            why=str(error.fields["why"]),
            newest_good=good if isinstance(good, int) else None,
            is_head=info is head,
        )
    return None


def _keys_to_copy(store: Store) -> list[str]:
    """All but leases: who holds one holds it there, and not in the copy."""
    return [key for key in store.list() if not key.endswith(_LEASE)]


def _heads(store: Store) -> list[tuple[str, int]]:
    return [(one.key, one.version) for one in store.scan() if not one.key.endswith(_LEASE)]


def _check_empty(store: Store) -> None:
    there = store.list()
    if there:
        what = f"{store.url} has {len(there)} documents already, {there[0]} among them; take an empty ledger"
        raise errors.LedgerError(what=what)


def _check_idle(store: Store) -> None:
    for key in store.list():
        held = leases.view(store, key) if key.endswith(_LEASE) else None
        if held is not None and held.alive:
            raise errors.LeaseHeld(name=key.removesuffix(_LEASE).rpartition("/")[2], owner=held.owner)


def _to_json(key: str, one: Archived) -> dict[str, Any]:
    marks = {"pinned": one.info.pinned, "deleted": one.info.deleted}
    return {
        "key": key,
        "version": one.info.version,
        "created_us": one.created_us,
        "size": one.info.size_bytes,
        **{name: True for name, is_so in marks.items() if is_so},
        "sealed": base64.b64encode(one.sealed).decode("ascii"),
    }


def _exported(file: Iterable[str]) -> Iterator[tuple[str, list[Archived]]]:
    lines = enumerate(iter(file), start=1)
    documents = _header(next(lines, (1, "")))
    taken = 0
    for key, versions in groupby((_from_json(number, line) for number, line in lines), key=lambda one: one[0]):
        taken += 1
        yield key, [version for _, version in versions]
    if taken != documents:
        raise errors.LedgerError(what=f"the export was cut short: it has {taken} of {documents} documents")


def _header(line: tuple[int, str]) -> int:
    try:
        read = json.loads(line[1])
        if read["tidegate"] == "ledger" and read["format"] <= FORMAT:
            return int(read["documents"])
        raise errors.LedgerError(what=f"the export has format {read['format']}, this Tidegate reads up to {FORMAT}")
    except (ValueError, KeyError, TypeError) as error:
        raise errors.LedgerError(what="that is no export of a ledger") from error


def _from_json(number: int, line: str) -> tuple[str, Archived]:
    try:
        read = json.loads(line)
        sealed = base64.b64decode(read["sealed"], validate=True)
        opened = sealing.unseal(read["key"], read["version"], sealed)
        info = VersionInfo(
            version=read["version"],
            created_at=from_micros(read["created_us"]),
            size_bytes=read["size"],
            pinned=read.get("pinned", False),
            deleted=opened.body is None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, sealing.SealBroken) as error:
        raise errors.LedgerError(what=f"line {number} of the export is damaged: {error}") from error
    return read["key"], Archived(info=info, sealed=sealed)
