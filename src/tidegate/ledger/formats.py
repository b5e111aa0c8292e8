"""The format number in a document. Light: `tidegate status` loads this module."""

from __future__ import annotations

import json
from typing import Any

from tidegate import errors


def decoded(body: bytes, *, what: str, newest: int) -> dict[str, Any]:
    """The fields of a document of JSON, its format aside.

    :raises LedgerError: a newer Tidegate wrote it in a format that this one does not know.
    """
    read: dict[str, Any] = json.loads(body)
    written_in = read.pop("format")
    if written_in > newest:
        told = f"{what} has format {written_in}, this Tidegate reads up to {newest}"
        raise errors.LedgerError(what=told, hint=errors.NewerFormat.advice)
    return read
