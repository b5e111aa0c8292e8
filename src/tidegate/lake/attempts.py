"""The folders that attempts write into, and what their names say.

    data/<epoch>-<first>-<last>/<token>-<attempt>/part-*.parquet     a batch of a pipeline
    data/refresh/<token>-<attempt>/part-*.parquet                    a refresh of a table

No folder is ever written twice, so that a slow writer that was given up cannot touch files that
were published since. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.progress.ranges import Range
from tidegate.quick import dataclass

DATA: Final = "data"

_BATCH = re.compile(DATA + r"/(\d+)-(\d+)-(\d+)/(\d+)-(\d+)(?:/.*)?")
_FOLDER = re.compile(DATA + r"/(?:\d+-\d+-\d+|refresh)")
_ANY = re.compile(DATA + r"/[^/]+/(\d+)-[^/]+(?:/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to write the rows of one batch."""

    epoch: int
    range: Range
    token: int
    attempt: int

    @property
    def folder(self) -> str:
        """Where it writes, relative to the table."""
        first, last = self.range.inclusive
        return f"{DATA}/{self.epoch}-{first}-{last}/{self.token}-{self.attempt}"


def attempt_of(path: str) -> Attempt | None:
    """The attempt in whose folder a path is; None for files of anything else."""
    found = _BATCH.fullmatch(path)
    if found is None:
        return None
    epoch, first, last, token, attempt = (int(one) for one in found.groups())
    return Attempt(epoch=epoch, range=Range.of_inclusive(first, last), token=token, attempt=attempt)


def refresh_folder(token: int, attempt: int | str) -> str:
    """Where one try of a refresh writes; `attempt` is never used twice with a token."""
    return f"{DATA}/refresh/{token}-{attempt}"


def token_of(path: str) -> int | None:
    """The token of whoever wrote there; None where nobody of ours did."""
    found = _ANY.fullmatch(path)
    return None if found is None else int(found[1])


def is_batch(folder: str) -> bool:
    """Whether attempts have such a folder to themselves: that of a batch, or that of the refreshes."""
    return _FOLDER.fullmatch(folder) is not None


def folders_of(path: str) -> list[str]:
    """The folders that go when the file was the last one in them."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts) - 1, 1, -1)]
