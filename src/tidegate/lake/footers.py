"""What the footer of a Parquet file tells: rows, whether its columns are the table's, and statistics.

Heavy: loads pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate import errors
from tidegate.lake import parquet_files, schemas
from tidegate.lake.storage import Storage

#: Longer texts are cut in the statistics.
_TEXT: Final = 64
_HIGHEST: Final = "\U0010ffff"
_MS: Final = timedelta(milliseconds=1)
_ONE_TO_ONE: Final = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What one file says of itself."""

    rows: int
    columns: Mapping[str, Any]
    stats: Mapping[str, Any] | None


class _Untold(Exception):
    """A column of the file has no statistics that can be trusted."""


def read(storage: Storage, path: str, *, stats_columns: Sequence[str], table: str) -> Footer:
    """The footer of a file. Raises `SchemaMismatch` for types that a lake table cannot hold."""
    try:
        with parquet_files.opened(storage, path) as file:
            metadata = file.metadata
    except pa.ArrowException as exc:
        raise errors.LakeError(table=table, what=f"the staged file {path} does not read: {exc}") from exc
    columns = {field.name: _delta_type(field.type, field.name, table) for field in metadata.schema.to_arrow_schema()}
    return Footer(rows=metadata.num_rows, columns=columns, stats=statistics(metadata, stats_columns))


def check(footer: Footer, schema: str, path: str, *, table: str) -> None:
    """Refuse a file whose columns are not exactly those of the schema: names to the letter, and types."""
    wanted = schemas.columns(schema)
    for name in wanted.keys() | footer.columns.keys():
        expected, found = _bare(wanted.get(name)), _bare(footer.columns.get(name))
        if expected != found:
            what = f"the staged file {path} has {_told(found)} as column {name}, not {_told(expected)}"
            raise errors.SchemaMismatch(table=table, what=what)


def statistics(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, Any] | None:
    """Delta's statistics of these columns, or none at all.

    All or none: a reader that finds some drops the files that say nothing of the column it filters by.
    """
    if not columns or metadata.num_rows == 0:
        return None
    at = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    try:
        for name in columns:
            low, high, nulls[name] = _bounds(metadata, at.get(name))
            if low is not None:
                lowest[name], highest[name] = _rounded_down(low), _rounded_up(high)
    except _Untold:
        return None
    return {"minValues": lowest, "maxValues": highest, "nullCount": nulls}


def _bounds(metadata: pq.FileMetaData, index: int | None) -> tuple[Any, Any, int]:
    """Lowest, highest and count of nulls over all row groups; no lowest where all are null."""
    if index is None:
        raise _Untold
    low = high = None
    nulls = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(index)
        found = chunk.statistics
        if found is None or not found.has_null_count:
            raise _Untold
        nulls += found.null_count
        if found.null_count == chunk.num_values:
            continue
        if not found.has_min_max:
            raise _Untold
        try:
            group_low, group_high = found.min, found.max
        except (
            ValueError,
            OverflowError,
            pa.ArrowException,
        ) as exc:  # text that is not Unicode, a time beyond year 9999
            raise _Untold from exc
        low = group_low if low is None else min(low, group_low)
        high = group_high if high is None else max(high, group_high)
    return low, high, nulls


def _rounded_down(value: Any) -> Any:
    match value:
        case datetime():
            return _time(value)
        case date():
            return value.isoformat()
        case str():
            return value[:_TEXT]
        case int() if not isinstance(value, bool):
            return value
    raise _Untold


def _rounded_up(value: Any) -> Any:
    match value:
        case datetime():
            return _time(_next_ms(value))
        case str() if len(value) > _TEXT:
            end = _TEXT
            while end < len(value) and value[end] == _HIGHEST:
                end += 1
            return value[:end] + _HIGHEST if end < len(value) else value
        case str():
            return value
    return _rounded_down(value)


def _next_ms(value: datetime) -> datetime:
    try:
        return value if value.microsecond % 1000 == 0 else value + _MS
    except OverflowError as exc:
        raise _Untold from exc


def _time(value: datetime) -> str:
    """Milliseconds, as Delta writes them."""
    if value.tzinfo is None:
        raise _Untold
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _delta_type(type_: pa.DataType, where: str, table: str) -> Any:
    if type_ in _ONE_TO_ONE:
        return _ONE_TO_ONE[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        fields = [{"name": one.name, "type": _delta_type(one.type, f"{where}.{one.name}", table)} for one in type_]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(type_):
        key = _delta_type(type_.key_type, f"{where}.key", table)
        return {"type": "map", "keyType": key, "valueType": _delta_type(type_.item_type, f"{where}.value", table)}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return {"type": "array", "elementType": _delta_type(type_.value_type, f"{where}.element", table)}
    if pa.types.is_timestamp(type_):
        what = f"column {where} was written as {type_}"
        hint = "leave spark.sql.parquet.outputTimestampType at TIMESTAMP_MICROS, and cast timestamp_ntz to timestamp"
        raise errors.SchemaMismatch(table=table, what=what, hint=hint)
    raise errors.SchemaMismatch(table=table, what=f"column {where} was written as {type_}, which is no type of Delta")


def _bare(type_: Any) -> Any:
    """The type without what says whether it may be null: the files say other things than the table there."""
    if not isinstance(type_, Mapping):
        return type_
    if type_["type"] == "struct":
        return {"type": "struct", "fields": [[one["name"], _bare(one["type"])] for one in type_["fields"]]}
    return {name: _bare(inner) for name, inner in type_.items() if not name.startswith(("contains", "valueContains"))}


def _told(bare: Any) -> str:
    return "nothing" if bare is None else bare if isinstance(bare, str) else str(bare["type"])
