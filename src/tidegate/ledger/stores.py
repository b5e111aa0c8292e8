"""From the `ledger:` of a project to its store."""

from __future__ import annotations

from pathlib import Path

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger.contract import Store
from tidegate.ledger.file import FileStore
from tidegate.ledger.memory import MemoryStore, Shelf
from tidegate.ledger.sqlite import SqliteStore

_SQLITE = "sqlite:///"
_shelves: dict[Path, Shelf] = {}


def open_store(url: str, *, root: Path, clock: Clock | None = None) -> Store:
    """The store at the URL; nothing is made before the first write.

    `sqlite:///FILE` is relative to `root`, `sqlite:////FILE` absolute. `memory:` is one ledger per
    process and root, however often it is opened.

    :raises ConfigError: there is no such kind of ledger.
    """
    if url == "memory:":
        return MemoryStore(clock, shelf=_shelves.setdefault(root.resolve(), Shelf()))
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, clock)
    if url.startswith(("s3://", "gs://", "az://")):
        from tidegate.ledger.objects import ObjectStoreLedger  # noqa: PLC0415 -- as above

        return ObjectStoreLedger(url, clock)
    if url.startswith("file:") and len(url) > len("file:"):
        return FileStore(root / url.removeprefix("file:"), clock)
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return SqliteStore(root / url.removeprefix(_SQLITE), clock)
    raise errors.ConfigError(
        where="ledger", what=f"{url} is not a ledger", hint="write sqlite:///.tidegate/ledger.db, or memory:"
    )


def _postgres(url: str, clock: Clock | None) -> Store:
    try:
        from tidegate.ledger.postgres import PostgresStore  # noqa: PLC0415 -- who has no Postgres needs no driver
    except ImportError as error:
        what = f"its driver is not installed ({error})"
        raise errors.ConfigError(where="ledger", what=what, hint="pip install 'tidegate[postgres]'") from error
    return PostgresStore(url, clock)
