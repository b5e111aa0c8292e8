"""Checkpoints by their types, over any store: for readers of their own, and as seed of the pipelines' documents.

with tidegate.checkpoints("sqlite:///progress.db") as store:
    store.put("pipeline-1", MySqlCheckpoint(file="binlog.000042", pos=12345))
    store.get("pipeline-1", MySqlCheckpoint)
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from tidegate import errors
from tidegate.ledger import records
from tidegate.ledger.contract import Store, VersionInfo
from tidegate.ledger.positions import Order, Position
from tidegate.ledger.stores import open_store

_TRIES: Final = 50
_PREFIX: Final = "checkpoints/"

_Record = TypeVar("_Record", bound=records.Record)


def checkpoint_key(name: str) -> str:
    """The key of a checkpoint's document."""
    return _PREFIX + name


class CheckpointStore:
    """One typed value a name, with its versions.

    *When*: by whoever keeps progress of its own, from any thread and process. *May assume*: names follow
    `keys.check_key`. *Holds after*: a put that returned is durable and is what `get` answers. *Raises*:
    `PositionBackwards` for a position that is before the stored one or has no order with it, and what the
    store raises. *Guarantees*: of two puts at the same time both are judged, one after the other.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def put(self, name: str, value: records.Record) -> int:
        """Keep the value: its version. A position only moves forward; going back is `rollback`, or `delete` first.

        :raises PositionBackwards: it would not move forward.
        """
        body = records.to_body(value)
        for _ in range(_TRIES):
            found = self.store.get(checkpoint_key(name))
            if found is not None and isinstance(value, Position):
                self._check_forward(name, records.from_body(found, type(value)), value)
            try:
                return self.store.put(checkpoint_key(name), body, expect=None if found is None else found.version)
            except errors.VersionConflict:
                continue
        raise errors.LedgerError(what=f"{name} is being written all the time by somebody else")

    def get(self, name: str, type: type[_Record]) -> _Record | None:
        """The value; None when there is none.

        :raises LedgerError: it is of another type.
        """
        found = self.store.get(checkpoint_key(name))
        return None if found is None else records.from_body(found, type)

    def delete(self, name: str) -> bool:
        """Remove it; false when it was not there. Its versions are kept."""
        return self.store.delete(checkpoint_key(name))

    def list(self) -> list[str]:
        """The names there are, in order."""
        return [key.removeprefix(_PREFIX) for key in self.store.list(_PREFIX)]

    def versions(self, name: str) -> tuple[VersionInfo, ...]:
        """What is kept of it, oldest first."""
        return tuple(self.store.versions(checkpoint_key(name)))

    def get_version(self, name: str, version: int, type: type[_Record]) -> _Record | None:
        """The value as it was at that version; None when it is not kept."""
        found = self.store.get_version(checkpoint_key(name), version)
        return None if found is None else records.from_body(found, type)

    def rollback(self, name: str, version: int) -> int:
        """Make an older version the newest again, as a new version."""
        return self.store.rollback(checkpoint_key(name), version)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_forward(self, name: str, stored: Position, given: Position) -> None:
        order, why = given.compare(stored)
        if order in (Order.BEFORE, Order.NONE):
            raise errors.PositionBackwards(name=name, why=why or "it is before the stored one", stored=stored)


def checkpoints(url: str, root: Path | str = ".") -> CheckpointStore:
    """The checkpoints in the ledger at that URL; folders and files in it are relative to `root`.

    :raises ConfigError: there is no such kind of ledger.
    """
    return CheckpointStore(open_store(url, root=Path(root)))
