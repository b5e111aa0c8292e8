"""Read a version of a lake table: as Arrow, without Spark, or as a DataFrame over exactly its files.

A DataFrame of the `delta` format is not pinned: each action sees the newest version. One over a list
of files is. Heavy: loads pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidegate import errors
from tidegate.lake import parquet_files, schemas
from tidegate.lake.log import DataFile
from tidegate.lake.storage import Storage, literally
from tidegate.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATOMS: Final = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def to_arrow(
    table: LakeTable, version: int | None = None, *, columns: Sequence[str] | None = None, limit: int | None = None
) -> pa.Table:
    """The rows of a version, the newest if none is named, in the order in which they came."""
    files, schema = _version(table, version)
    return rows_of(table.storage, files, schema, columns=columns, limit=limit)


def rows_of(
    storage: Storage,
    files: Iterable[DataFile],
    schema: str,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The rows of these files under a table's schema; columns that a file is older than are null in it."""
    wanted = _chosen(arrow_schema(schema), columns)
    parts: list[pa.Table] = []
    left = limit
    for file in files:
        if left is not None and left <= 0:
            break
        parts.append(_conformed(parquet_files.rows(storage, file.path, columns=wanted.names, limit=left), wanted))
        left = None if left is None else left - parts[-1].num_rows
    return pa.concat_tables([wanted.empty_table(), *parts])


def read_files(spark: SparkSession, paths: Sequence[str], schema: str) -> DataFrame:
    """A DataFrame over exactly these files. `paths` are in full: `LakeTable.storage.at`."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 -- whoever has a session has loaded it

    struct = StructType.fromJson(json.loads(schema))
    if not paths:
        return spark.createDataFrame([], struct)
    return spark.read.schema(struct).parquet(*map(literally, paths))


def frame(spark: SparkSession, table: LakeTable, version: int | None = None) -> DataFrame:
    """A DataFrame over exactly the files of a version, the newest if none is named."""
    files, schema = _version(table, version)
    return read_files(spark, [table.storage.at(file.path) for file in files], schema)


def arrow_schema(schema: str) -> pa.Schema:
    """A table's columns as Arrow's."""
    return pa.schema([pa.field(name, _arrow(type_)) for name, type_ in schemas.columns(schema).items()])


def _version(table: LakeTable, version: int | None) -> tuple[tuple[DataFile, ...], str]:
    head = table.head()
    if head is None:
        raise errors.NotYetPublished(name=table.name)
    chosen = head.version if version is None else version
    shape = table.shape(chosen)
    if shape is None:
        raise errors.LakeCorrupt(table=table.name, what=f"nothing says what columns version {chosen} has")
    return table.files(chosen), shape.schema_json


def _arrow(type_: Any) -> pa.DataType:
    if isinstance(type_, str):
        return _ATOMS[type_] if type_ in _ATOMS else _decimal(type_)
    match type_["type"]:
        case "struct":
            return pa.struct([pa.field(one["name"], _arrow(one["type"])) for one in type_["fields"]])
        case "map":
            return pa.map_(_arrow(type_["keyType"]), _arrow(type_["valueType"]))
        case _:
            return pa.list_(_arrow(type_["elementType"]))


def _decimal(name: str) -> pa.DataType:
    precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
    return pa.decimal128(int(precision), int(scale))


def _chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _conformed(read: pa.Table, wanted: pa.Schema) -> pa.Table:
    arrays = [
        read.column(field.name).cast(field.type)
        if field.name in read.column_names
        else pa.nulls(read.num_rows, field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)
