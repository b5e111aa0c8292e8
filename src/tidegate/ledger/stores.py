"""From the `ledger:` of a project to its store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import errors
from tidegate.clock import Clock
from tidegate.ledger import urls
from tidegate.ledger.contract import Store
from tidegate.ledger.sqlite import SqliteStore

if TYPE_CHECKING:
    from tidegate.ledger.memory import Shelf

_shelves: dict[Path, Shelf] = {}


def open_store(url: str, *, root: Path, clock: Clock | None = None) -> Store:
    """The store at the URL; nothing is made, and no server is asked, before it is used.

    `sqlite:///FILE` and `file:DIR` are relative to `root`; `sqlite:////FILE` and `file:///DIR` are absolute.
    `memory:` is one ledger per process and root, however often it is opened.

    :raises ConfigError: there is no such kind of ledger, or its driver is not installed.
    """
    try:
        scheme = urls.check_url(url)
    except ValueError as error:
        hint = f"write {urls.KINDS['sqlite'].example}, or memory:"
        raise errors.ConfigError(where="ledger", what=f"that is not the URL of a ledger: {error}", hint=hint) from None
    match scheme:
        case "memory":
            from tidegate.ledger.memory import MemoryStore, Shelf  # noqa: PLC0415 -- `status` mostly needs SQLite alone

            return MemoryStore(clock, shelf=_shelves.setdefault(root.resolve(), Shelf()))
        case "file":
            from tidegate.ledger.file import FileStore  # noqa: PLC0415 -- as above

            return FileStore(root / url.removeprefix("file:"), clock)
        case "sqlite":
            return SqliteStore(root / url.removeprefix("sqlite:///"), clock)
        case "postgresql":
            return _postgres(url, clock)
        case _:
            from tidegate.ledger.objects import ObjectStoreLedger  # noqa: PLC0415 -- who has no bucket needs no client

            return ObjectStoreLedger(url, clock)


def _postgres(url: str, clock: Clock | None) -> Store:
    try:
        from tidegate.ledger.postgres import PostgresStore  # noqa: PLC0415 -- who has no Postgres needs no driver
    except ImportError as error:
        what = f"the driver of Postgres is not installed ({error})"
        raise errors.ConfigError(where="ledger", what=what, hint="pip install 'tidegate[postgres]'") from error
    return PostgresStore(url, clock)
