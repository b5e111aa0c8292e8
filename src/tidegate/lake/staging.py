"""Write rows where they last, as Parquet that may be published later: check, write, look, flush.

Heavy: loads pyarrow. Spark is handed in as a DataFrame.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegate import effects
from tidegate.lake import footers, log, schemas
from tidegate.lake.log import DataFile
from tidegate.lake.storage import Storage, Stored
from tidegate.progress.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOOTERS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What was written: durable, and seen by nobody."""

    files: tuple[DataFile, ...]
    schema: str

    @property
    def rows(self) -> int:
        return log.total_rows(self.files)


def schema_of(df: DataFrame, *, table: str) -> str:
    """The table schema for these rows. Raises `SchemaMismatch` for what a lake table cannot hold."""
    return schemas.of_spark(df.schema.json(), table=table)


def stage(
    df: DataFrame,
    storage: Storage,
    folder: str,
    *,
    table: str,
    stats_columns: Sequence[str] = (),
    range_: Range | None = None,
) -> Staged:
    """Write the rows into a folder that nobody wrote into before, and tell the files.

    What Spark raises comes as it is. Raises `SchemaMismatch`, and `LakeUnavailable` when the disk
    does not take it.
    """
    schema = schema_of(df, table=table)
    with effects.effect(effects.LAKE_STAGE, table=table, folder=folder):
        # The marker of success says nothing here: the receipt names every file.
        writer = df.write.mode("errorifexists").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.parquet(storage.at(folder))
    return collect(storage, folder, schema=schema, table=table, stats_columns=stats_columns, range_=range_)


def collect(
    storage: Storage,
    folder: str,
    *,
    schema: str,
    table: str,
    stats_columns: Sequence[str] = (),
    range_: Range | None = None,
) -> Staged:
    """The files of a folder that have rows, compared with the schema and flushed to the disk."""
    wanted = schemas.with_statistics(schema, stats_columns)
    stored = [one for one in storage.walk(folder) if one.name.endswith(".parquet") and one.name[0] not in "._"]

    with ThreadPoolExecutor(max_workers=max(1, min(_FOOTERS_AT_ONCE, len(stored)))) as pool:
        read = pool.map(lambda one: footers.read(storage, one.path, stats_columns=wanted, table=table), stored)
        told = list(zip(stored, read, strict=True))
    for one, footer in told:
        footers.check(footer, schema, one.path, table=table)
    files = tuple(_file(one, footer, range_) for one, footer in told if footer.rows)
    if files:
        with effects.effect(effects.LAKE_SYNC, table=table, folder=folder):
            storage.sync([file.path for file in files], new_folders=True)
    return Staged(files=files, schema=schema)


def _file(stored: Stored, footer: footers.Footer, range_: Range | None) -> DataFile:
    return DataFile(
        path=stored.path,
        size_bytes=stored.size_bytes,
        rows=footer.rows,
        modified_ms=stored.modified_us // 1000,
        stats=footer.stats,
        range=range_,
    )
