"""Every durable effect of Tidegate has a name, and a point before and after it.

An effect is anything that another process, or this one after a crash, can see: a put in the
ledger, a file, an entry of a lake table's log, a delete. Code that has one writes

    with effects.effect(effects.LAKE_COMMIT, table=name):
        obstore.put(...)

In production the points do nothing. The crash suite (`tidegate.testing.crash`) observes them and
kills the process at the one it was told to; a test fails when an effect happens outside a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final, NewType

EffectName = NewType("EffectName", str)


class Moment(Enum):
    """Where in an effect a point lies."""

    BEFORE = "before"
    AFTER = "after"
    RAISED = "raised"  #: the body raised: what it did is unknown, and no AFTER follows


Observer = Callable[[EffectName, Moment, dict[str, object]], None]

_registry: dict[EffectName, str] = {}
_observers: list[Observer] = []


def _register(name: str, what: str) -> EffectName:
    effect_name = EffectName(name)
    if effect_name in _registry:
        raise ValueError(f"effect {name} is registered twice")
    _registry[effect_name] = what
    return effect_name


LEDGER_PUT: Final = _register("ledger.put", "a document, or several in one transaction, put in the ledger")
LEDGER_DELETE: Final = _register("ledger.delete", "a document removed from the ledger")
LEDGER_PIN: Final = _register("ledger.pin", "a version of a document pinned or unpinned")
LEDGER_SCHEMA: Final = _register("ledger.schema", "the ledger's own tables made or migrated")
LAKE_STAGE: Final = _register("lake.stage", "Parquet files written by Spark into a staging folder")
LAKE_SYNC: Final = _register("lake.sync", "staged files and their folder flushed to the disk")
LAKE_COMMIT: Final = _register("lake.commit", "an entry of a table's log put if absent")
LAKE_DELETE: Final = _register("lake.delete", "a data file of a table deleted by name")
LAKE_CHECKPOINT: Final = _register("lake.checkpoint", "a checkpoint of a table's log written")
LAKE_REPAIR: Final = _register("lake.repair", "a torn log entry or checkpoint of a crash removed")
PARQUET_STAGE: Final = _register("parquet.stage", "Parquet files written by Spark into a folder of a parquet sink")
PARQUET_MANIFEST: Final = _register("parquet.manifest", "the manifest of a parquet sink put")
PARQUET_DELETE: Final = _register("parquet.delete", "a file of a parquet sink deleted")


def names() -> dict[EffectName, str]:
    """Every effect, with what it does, in the order of registration."""
    return dict(_registry)


def observe(observer: Observer) -> Callable[[], None]:
    """Call `observer` at every point from now on; the answer takes it away again."""
    _observers.append(observer)
    return lambda: _observers.remove(observer)


@contextmanager
def effect(name: EffectName, **facts: object) -> Iterator[None]:
    """Mark the durable effect in the body. The AFTER point is passed only when the body returned."""
    _tell(name, Moment.BEFORE, facts)
    try:
        yield
    except BaseException:
        _tell(name, Moment.RAISED, facts)
        raise
    _tell(name, Moment.AFTER, facts)


def _tell(name: EffectName, moment: Moment, facts: dict[str, object]) -> None:
    for observer in tuple(_observers):
        observer(name, moment, facts)
