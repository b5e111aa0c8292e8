"""Which text may be a key. One rule for all stores, so that a ledger can move between them."""

from __future__ import annotations

import re

from tidegate import errors

MAX_KEY_BYTES = 700
MAX_PART_BYTES = 200
_PART = re.compile(r"[A-Za-z0-9._\-+=@:,]+")
_PIPELINE = re.compile(r"pipelines/[^/]+/state")
_PREFIX = re.compile(r"[A-Za-z0-9._\-+=@:,/]*")


def check_key(key: str) -> str:
    """The key itself, when every store can hold it.

    A key is parts of letters, digits and ``. _ - + = @ : ,`` joined by ``/``. No part is ``.`` or
    ``..``, so that no key leaves the folder or bucket prefix of its store.
    """
    problem = _problem(key)
    if problem is not None:
        raise errors.BadKey(key=key if len(key) <= 80 else key[:77] + "...", why=problem)
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself, when some key could start with it; the empty one starts them all."""
    if _PREFIX.fullmatch(prefix) is None or prefix.startswith("/") or "//" in prefix:
        raise errors.BadKey(key=prefix[:80], why="no key starts like that")
    return prefix


def moves_with_others(key: str) -> bool:
    """Whether the document is true only beside others: a pipeline's, with its plans, receipts and tables."""
    return _PIPELINE.fullmatch(key) is not None


def _problem(key: str) -> str | None:
    if len(key) > MAX_KEY_BYTES:
        return f"it is longer than {MAX_KEY_BYTES} bytes"
    for part in key.split("/"):
        if not part:
            return "it has an empty part"
        if part in {".", ".."}:
            return f"{part!r} would leave its place"
        if len(part) > MAX_PART_BYTES:
            return f"a part is longer than {MAX_PART_BYTES} bytes"
        if _PART.fullmatch(part) is None:
            return "it has characters that some stores cannot hold"
    return None
