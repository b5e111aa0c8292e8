"""Rows that are written as Spark writes them: a folder of part files, each beside a checksum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema([("id", pa.int64()), ("checkpoint", pa.int64())])


class FolderFrame:
    """Stands in for a DataFrame where only `df.write.parquet(folder)` is asked of it."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._table = pa.Table.from_pylist(list(rows), schema=SCHEMA)

    @property
    def write(self) -> FolderFrame:
        return self

    def mode(self, mode: str) -> FolderFrame:
        return self

    def option(self, name: str, value: str) -> FolderFrame:
        return self

    def parquet(self, folder: str) -> None:
        """Two parts, the second often empty; a folder that is there already is refused."""
        place = Path(folder)
        place.mkdir(parents=True)
        for number, table in enumerate((self._table.slice(0, 4), self._table.slice(4))):
            pq.write_table(table, place / f"part-{number:05d}.snappy.parquet")
            (place / f".part-{number:05d}.snappy.parquet.crc").write_bytes(b"crc")
