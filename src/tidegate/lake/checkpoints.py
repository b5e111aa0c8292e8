"""Log checkpoints: Parquet files that say what a version holds, so that nobody replays the log from its start.

delta-rs writes them; they are read here for our own replay. They are a shortcut and never the
truth: the log's entries stay. Heavy: loads pyarrow and deltalake.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import deltalake
import pyarrow as pa

from tidegate import effects, errors
from tidegate.lake import log, parquet_files
from tidegate.lake.log import DataFile, TableShape
from tidegate.lake.storage import Storage

_HINT: Final = "_delta_log/_last_checkpoint"


def write(storage: Storage, *, table: str) -> int:
    """Write the log checkpoint of the newest version, and tell which that was."""
    with effects.effect(effects.LAKE_CHECKPOINT, table=table):
        opened = deltalake.DeltaTable(storage.local_root or storage.url, without_files=False)
        opened.create_checkpoint()
        version = int(opened.version())
        # A hint that outlives its checkpoint in a power cut stops delta-rs.
        storage.sync([log.checkpoint_path(version), _HINT])
    return version


def load(storage: Storage, version: int) -> tuple[list[DataFile], TableShape] | None:
    """The files and the shape of a version by its log checkpoint; None when that does not read."""
    try:
        read = parquet_files.rows(storage, log.checkpoint_path(version), columns=["add", "metaData"])
    except (pa.ArrowException, OSError, errors.LakeUnavailable):
        return None
    shape = next((_shape(one) for one in read.column("metaData").to_pylist() if one is not None), None)
    if shape is None:
        return None
    files = [_file(one) for one in read.column("add").to_pylist() if one is not None]
    return sorted(files, key=_order), shape


def _file(add: Mapping[str, Any]) -> DataFile:
    return log.file_of({**add, "tags": dict(add["tags"] or {})})


def _shape(action: Mapping[str, Any]) -> TableShape:
    return log.shape_of({**action, "configuration": dict(action["configuration"] or {})})


def _order(file: DataFile) -> tuple[int, int, str]:
    # A checkpoint has no order; publishes came by range, refreshes by time.
    return (file.range.lo if file.range is not None else 0, file.modified_ms, os.path.basename(file.path))
