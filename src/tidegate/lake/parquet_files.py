"""Parquet files as Arrow reads them: opened so that none of its threads holds an object of Python's.

Such a thread lets go of what it held a moment after the read is over. When the interpreter is ending
by then, asking it for its lock ends the thread through frames of C++, and that ends the process:
`terminate called without an active exception`, SIGABRT, after all rows were printed. So a local
file is opened by Arrow itself, and one of an object store is read in the thread that asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.lake.storage import Storage


@contextmanager
def opened(storage: Storage, path: str) -> Iterator[pq.ParquetFile]:
    """The file for as long as the body runs. Raises as `Storage.open` does, and Arrow's own errors."""
    with closing(storage.open(path)) as found:
        if storage.local_root is None:
            yield pq.ParquetFile(found, pre_buffer=False)
            return
        with pa.OSFile(storage.at(path)) as own:
            yield pq.ParquetFile(own)


def rows(storage: Storage, path: str, *, columns: Sequence[str] | None = None, limit: int | None = None) -> pa.Table:
    """The rows of the file, the first `limit` of them. Of the named columns those that it has."""
    threads = storage.local_root is not None
    with opened(storage, path) as file:
        there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        if limit is None:
            return file.read(columns=there, use_threads=threads)
        batch = next(file.iter_batches(batch_size=limit, columns=there, use_threads=threads), None)
        if batch is not None:
            return pa.Table.from_batches([batch])
        nothing = file.schema_arrow.empty_table()
        return nothing if there is None else nothing.select(there)
