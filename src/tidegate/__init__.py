"""Data pipelines on Apache Spark that always know how complete their data is.

    import tidegate as tg

    project = tg.open("shop")
    project.run(once=True)
    df = project.read("orders", complete_to="2026-03-01T12:00:00Z")

The names below are loaded when they are first used: `import tidegate` itself loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.errors import (
        BelowReaderLo,
        ConfigError,
        LeaseHeld,
        NotComplete,
        Refused,
        StaleWriter,
        TidegateError,
        WatermarkBackwards,
    )
    from tidegate.handle import Loader, Project, attach, load, open  # noqa: A004  read as tg.open
    from tidegate.ledger.checkpoints import CheckpointStore, checkpoints
    from tidegate.ledger.positions import (
        DeltaCheckpoint,
        MySqlCheckpoint,
        NumberedCheckpoint,
        PartsCheckpoint,
        PostgresCheckpoint,
    )
    from tidegate.progress.partitions import PartitionedWatermarkTracker
    from tidegate.progress.watermarks import Watermark
    from tidegate.project.declared import pipeline, table

__version__ = "0.1.0.dev0"

_HOMES = {
    "tidegate.errors": (
        "BelowReaderLo",
        "ConfigError",
        "LeaseHeld",
        "NotComplete",
        "Refused",
        "StaleWriter",
        "TidegateError",
        "WatermarkBackwards",
    ),
    "tidegate.handle": ("Loader", "Project", "attach", "load", "open"),
    "tidegate.ledger.checkpoints": ("CheckpointStore", "checkpoints"),
    "tidegate.ledger.positions": (
        "DeltaCheckpoint",
        "MySqlCheckpoint",
        "NumberedCheckpoint",
        "PartsCheckpoint",
        "PostgresCheckpoint",
    ),
    "tidegate.progress.partitions": ("PartitionedWatermarkTracker",),
    "tidegate.progress.watermarks": ("Watermark",),
    "tidegate.project.declared": ("pipeline", "table"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BelowReaderLo",
    "CheckpointStore",
    "ConfigError",
    "DeltaCheckpoint",
    "LeaseHeld",
    "Loader",
    "MySqlCheckpoint",
    "NotComplete",
    "NumberedCheckpoint",
    "PartitionedWatermarkTracker",
    "PartsCheckpoint",
    "PostgresCheckpoint",
    "Project",
    "Refused",
    "StaleWriter",
    "TidegateError",
    "Watermark",
    "WatermarkBackwards",
    "attach",
    "checkpoints",
    "load",
    "open",
    "pipeline",
    "table",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
