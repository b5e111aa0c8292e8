"""A durable transaction of some bytes in Postgres, and nothing else: what a commit costs at the least."""

from __future__ import annotations

import psycopg


class BareRows:
    """One table of keys and bodies. Each thread has a connection of its own."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url)
        self._db.execute("CREATE TABLE IF NOT EXISTS bare (key TEXT PRIMARY KEY, body BYTEA NOT NULL)")
        self._db.commit()

    def put(self, key: str, body: bytes) -> None:
        """The document in a transaction."""
        self._db.execute(
            "INSERT INTO bare VALUES (%s, %b) ON CONFLICT (key) DO UPDATE SET body = excluded.body", (key, body)
        )
        self._db.commit()

    def close(self) -> None:
        self._db.close()
