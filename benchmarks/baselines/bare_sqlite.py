"""A durable transaction of some bytes in SQLite, and nothing else: what a commit costs at the least."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path


class BareTable:
    """One table of keys and bodies, with the same durability as the ledger."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE document (key TEXT PRIMARY KEY, body BLOB NOT NULL)")

    def put(self, documents: Sequence[tuple[str, bytes]]) -> None:
        """All of the documents in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT OR REPLACE INTO document VALUES (?, ?)", documents)
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()
