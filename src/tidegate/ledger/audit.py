"""Who did what by hand to the ledger, and why: one document an entry, never changed.

audit/<microseconds>-<nonce>
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tidegate.clock import to_micros
from tidegate.ledger import records
from tidegate.ledger.contract import Store

_PREFIX: Final = "audit/"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(records.Record):
    """Something that a person did; `action` is a word such as `recovered`, `subject` what it was done to."""

    KIND: ClassVar[str] = "audit"

    at_us: int
    by: str
    action: str
    subject: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def write(store: Store, *, by: str, action: str, subject: str, **detail: Any) -> AuditEntry:
    """Remember what was done just now."""
    entry = AuditEntry(at_us=to_micros(store.now()), by=by, action=action, subject=subject, detail=detail)
    store.put(f"{_PREFIX}{entry.at_us:020d}-{os.urandom(4).hex()}", records.to_body(entry), history=False)
    return entry


def read(store: Store) -> list[AuditEntry]:
    """Every entry, oldest first."""
    return [records.from_body(found, AuditEntry) for found in store.scan(_PREFIX)]
