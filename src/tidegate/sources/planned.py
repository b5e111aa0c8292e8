"""Files as a plan knows them, and whether they still are what the plan saw. Light."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidegate import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file of a plan. `path` is relative to the project, or absolute where the setting is."""

    path: str
    size_bytes: int
    mtime_ns: int

    @classmethod
    def of_stat(cls, path: str, found: os.stat_result) -> PlannedFile:
        """The file as it is now."""
        return cls(path=path, size_bytes=found.st_size, mtime_ns=found.st_mtime_ns)


def verify(source: str, root: Path, files: Iterable[PlannedFile]) -> None:
    """Return when each file has the size and the time that were planned.

    :raises SourceChanged: one is gone, or another one is in its place.
    :raises SourceUnreachable: the folder does not answer.
    """
    base = str(root)
    for file in files:
        try:
            found = os.stat(os.path.join(base, file.path))
        except (FileNotFoundError, NotADirectoryError) as gone:
            raise changed(source, f"{file.path} is gone; it was there when it was planned") from gone
        except OSError as unread:
            raise unreachable(source, file.path, unread) from unread
        if (found.st_size, found.st_mtime_ns) != (file.size_bytes, file.mtime_ns):
            was = f"{file.size_bytes} bytes then, {found.st_size} now"
            raise changed(source, f"{file.path} is not the file that was planned ({was})")


def changed(source: str, what: str) -> errors.SourceChanged:
    """The refusal of a file that is no longer what was planned."""
    return errors.SourceChanged(
        source=source, what=what, hint="put the old file back, or give the new rows a file of their own"
    )


def unreachable(source: str, path: str, failed: OSError) -> errors.SourceUnreachable:
    """The error for a place that does not answer."""
    return errors.SourceUnreachable(
        source=source,
        what=f"{path} cannot be read: {failed.strerror or failed}",
        hint="it is tried again; check that the place is there and may be read",
    )
