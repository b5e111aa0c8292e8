"""What `tidegate.load` says in its commits to external tables: how far the rows of the commit make them complete.

Rows and word are one commit; the ledger is told after it. Of a loader that died in between the
commit still speaks, and is heard when the source is looked at next. Light.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidegate import errors
from tidegate.lake.log import entry_path
from tidegate.ledger.contract import Store
from tidegate.sources import advances
from tidegate.sources.advances import Advance, SourceDocument
from tidegate.sources.specs import ExternalSpec

if TYPE_CHECKING:
    from tidegate.lake.table import LakeTable

_KEY: Final = "tidegate_load"
#: So many of the newest commits are looked through; the owner of a table may have made thousands of others.
_MOST: Final = 200


def word(source: str, said: Advance) -> str:
    """What a commit carries as its `userMetadata`."""
    return json.dumps({_KEY: {"source": source, **said.to_json()}})


def hear(store: Store, spec: ExternalSpec, table: LakeTable, *, after: int = -1) -> SourceDocument | None:
    """Tell the ledger what commits say that it was not told; what it knows then. Those up to `after` were heard."""
    document = advances.read(store, spec.name)
    for version, said in list(_unheard(spec.name, document, table, after)):
        with suppress(errors.WatermarkBackwards, errors.WatermarkError):  # its source has gone on, or has other parts
            document = advances.advance(
                store,
                spec.name,
                spec.watermark.value_kind,
                said.value,
                by=said.by,
                parts=spec.parts,
                part=said.part,
                version=version,
            )
    return document


def _unheard(
    source: str, document: SourceDocument | None, table: LakeTable, after: int
) -> Iterator[tuple[int, Advance]]:
    head = table.head()
    if head is None:
        return
    told = [one.version for one in document.log if one.version is not None] if document else []
    for version in range(max([*told, after, head.version - _MOST]) + 1, head.version + 1):
        said = _said(table.storage.get(entry_path(version)) or b"", source)
        if said is not None:
            yield version, said


def _said(body: bytes, source: str) -> Advance | None:
    if f'\\"{_KEY}\\"'.encode() not in body:
        return None
    try:
        infos = [json.loads(line)["commitInfo"] for line in body.splitlines() if line.startswith(b'{"commitInfo"')]
        said = json.loads(infos[0]["userMetadata"])[_KEY]
        return Advance.from_json(said) if said.pop("source") == source else None
    except (ValueError, KeyError, TypeError, IndexError):
        return None  # somebody else's words
