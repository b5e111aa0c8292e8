"""Where a lake table lies: a folder on this disk or a prefix of an object store, by one set of calls.

Everything goes through obstore. What object stores have and a local disk has not is made up for
here and nowhere else: `sync` flushes files and their folders, and folders that became empty go
with their last file (docs/decisions/0001-we-write-the-delta-log.md).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from tidegate import clock, errors
from tidegate.quick import dataclass

#: What Spark calls the object stores.
_HADOOP: Final = {"s3": "s3a", "az": "abfs"}
_PATTERN: Final = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file that is there. `path` is relative to the table."""

    path: str
    size_bytes: int
    modified_us: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Storage:
    """The files below one URL or local path. Paths are relative to it and use `/`.

    Raises `LakeUnavailable` for everything that the place itself answers; that a file is missing is
    an answer, not an error.
    """

    def __init__(self, url: str, *, table: str) -> None:
        self.url = url
        self.local_root = local_root(url)
        self._table = table
        self._opened: ObjectStore | None = None

    def at(self, path: str) -> str:
        """The path in full, as Spark and pyarrow name it."""
        if self.local_root is not None:
            return f"{self.local_root}/{path}" if path else self.local_root
        scheme, _, rest = self.url.partition("://")
        return f"{_HADOOP.get(scheme, scheme)}://{rest.rstrip('/')}/{path}"

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """Put the file whole, unless there is one: then nothing is changed and the answer is False."""
        with self._mapped(f"cannot put {path}"):
            try:
                obstore.put(self._store(make=True), path, body, mode="create")
            except AlreadyExistsError:
                return False
            return True

    def get(self, path: str) -> bytes | None:
        """The file's bytes; None where there is none."""
        with self._mapped(f"cannot read {path}"):
            try:
                return obstore.get(self._store(), path).bytes().to_bytes()
            except FileNotFoundError:
                return None

    def has(self, path: str) -> bool:
        """Whether the file is there."""
        with self._mapped(f"cannot look for {path}"):
            if self.local_root is not None:
                return _is_file(self.at(path))
            try:
                obstore.head(self._store(), path)
            except FileNotFoundError:
                return False
            return True

    def walk(self, prefix: str, *, after: str | None = None) -> list[Stored]:
        """Every file below a folder, by path; with `after`, those whose path sorts behind it."""
        with self._mapped(f"cannot list {prefix}"):
            try:
                found = obstore.list(self._store(), prefix, offset=after).collect()
            except FileNotFoundError:
                return []
        return sorted((_stored(one) for one in found), key=lambda one: one.path)

    def children(self, prefix: str = "") -> tuple[list[str], list[Stored]]:
        """The folders and the files right below a folder; folders by their whole path."""
        with self._mapped(f"cannot list {prefix or self.url}"):
            try:
                found = obstore.list_with_delimiter(self._store(), prefix or None)
            except FileNotFoundError:
                return [], []
        return sorted(found["common_prefixes"]), [_stored(one) for one in found["objects"]]

    def open(self, path: str) -> BinaryIO:
        """The file for reading at any place in it, as pyarrow wants it."""
        with self._mapped(f"cannot read {path}"):
            if self.local_root is not None:
                return open(self.at(path), "rb")
            return cast(BinaryIO, obstore.open_reader(self._store(), path))

    def delete(self, path: str) -> bool:
        """Delete the file, with the checksum that Hadoop left beside it.

        False where there was none; object stores do not tell, and say True.
        """
        with self._mapped(f"cannot delete {path}"):
            return self._deleted(path)

    def sync(self, paths: Iterable[str], *, new_folders: bool = False) -> None:
        """Flush these files and the folders they are in, so that a power cut leaves them whole.

        With `new_folders` also those above, up to the one that the table is in. Object stores are
        durable when they answer; a local disk is not, and neither Spark nor obstore flushes.
        """
        if self.local_root is None:
            return
        with self._mapped("cannot flush files"):
            folders: set[str] = set()
            for path in paths:
                _flush(self.at(path))
                folders.update(_folders_of(path) if new_folders else (path.rpartition("/")[0],))
            for folder in sorted(folders, key=len, reverse=True):
                _flush(self.at(folder))
            if new_folders:
                _flush(os.path.dirname(self.local_root))

    def _deleted(self, path: str) -> bool:
        try:
            obstore.delete(self._store(), path)
        except FileNotFoundError:
            return False
        if self.local_root is not None:
            folder, _, name = path.rpartition("/")
            with suppress(FileNotFoundError):
                obstore.delete(self._store(), f"{folder}/.{name}.crc")
        return True

    def drop_empty(self, folders: Iterable[str]) -> None:
        """Remove folders whose last file went, the deepest first. Object stores have none."""
        if self.local_root is None:
            return
        for folder in sorted(folders, key=len, reverse=True):
            # Somebody may be writing there again: then it is not empty, and stays.
            with suppress(OSError):
                os.rmdir(self.at(folder))

    def folders(self, prefix: str) -> list[str]:
        """A folder and all folders below it, also those without files. Object stores have none."""
        if self.local_root is None:
            return []
        return [os.path.relpath(one, self.local_root) for one, _, _ in os.walk(self.at(prefix))]

    def _store(self, *, make: bool = False) -> ObjectStore:
        if self._opened is None:
            if self.local_root is None:
                self._opened = from_url(self.url)
            elif make or os.path.isdir(self.local_root):
                _make(self.local_root)
                self._opened = LocalStore(self.local_root)
            else:
                raise FileNotFoundError(self.local_root)
        return self._opened

    @contextmanager
    def _mapped(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as exc:
            why = str(exc).partition("\n")[0]
            raise errors.LakeUnavailable(table=self._table, what=f"{what}: {why}") from exc


def local_root(url: str) -> str | None:
    """The folder that a local path or a `file:` URL means; None for an object store."""
    if url.startswith("file:"):
        return os.path.abspath(unquote(urlsplit(url).path))
    return None if "://" in url else os.path.abspath(url)


def literally(path: str) -> str:
    """The path for Spark to read, which takes brackets and the like for a pattern.

    Telling it not to (`__globPaths__`) makes it read each file as often as there are such paths.
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def _is_file(path: str) -> bool:
    """As `os.path.isfile`, but a folder that cannot be looked into is no answer."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _stored(found: Any) -> Stored:
    return Stored(path=found["path"], size_bytes=found["size"], modified_us=clock.to_micros(found["last_modified"]))


def _folders_of(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _make(folder: str) -> None:
    """Make a folder and those above it that are missing, and flush what says that they are there."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        with suppress(FileExistsError):  # somebody else makes them too
            os.mkdir(one)
        _flush(os.path.dirname(one))


def _flush(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
