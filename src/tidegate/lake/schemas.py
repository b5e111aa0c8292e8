"""A table's columns as Delta's schema JSON: made from Spark's, compared to the letter, widened, named.

Readers silently give nulls for a column whose name differs in one letter, and other values for a
type that differs, so nothing is compared loosely here. Columns are nullable, always. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidegate import errors
from tidegate.lake.log import TableShape

#: Types whose statistics every reader understands, and that no value of can poison.
STATISTICS: Final = frozenset({"byte", "short", "integer", "long", "string", "date", "timestamp"})

_ATOMS: Final = STATISTICS | {"boolean", "float", "double", "binary"}
_STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
_FORBIDDEN_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
#: The property that names the columns with statistics is read in other ways for other names: `a.b` is in a struct.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def of_spark(spark_schema: str, *, table: str) -> str:
    """The table's schema for rows whose Spark schema (`df.schema.json()`) is this.

    Everything becomes nullable. Raises `SchemaMismatch` for what a lake table cannot hold.
    """
    return _text(_type(json.loads(spark_schema), "", table))


def columns(schema: str) -> dict[str, Any]:
    """The type of each column, in order."""
    return {field["name"]: field["type"] for field in json.loads(schema)["fields"]}


def fingerprint(schema: str) -> str:
    """A short name of these columns and types; the order of columns does not change it."""
    named = json.dumps(columns(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def merged(schema: str, delivered: str, *, table: str, may_lack: bool = False) -> str:
    """The table's schema after these rows came: itself, or with new columns at its end.

    Raises `SchemaMismatch` when a column has another type, or is missing and `may_lack` is false.
    """
    known, came = columns(schema), columns(delivered)
    for name, type_ in came.items():
        if name in known and known[name] != type_:
            what = f"column {name} is {type_name(known[name])}, and the rows have {type_name(type_)}"
            raise errors.SchemaMismatch(table=table, what=what)
    missing = [name for name in known if name not in came]
    if missing and not may_lack:
        raise errors.SchemaMismatch(table=table, what=f"the rows have no column {_listed(missing, came)}")
    everything = known | came
    _check_names(everything, table)
    return schema if len(everything) == len(known) else of_columns(everything)


def of_columns(types: Mapping[str, Any]) -> str:
    """The schema JSON of these columns."""
    return _text({"type": "struct", "fields": [_field(name, type_) for name, type_ in types.items()]})


def with_statistics(schema: str, wanted: Iterable[str]) -> tuple[str, ...]:
    """Those of the wanted columns that exist and whose statistics no reader stumbles over."""
    known = columns(schema)
    return tuple(name for name in wanted if _PLAIN_NAME.fullmatch(name) and _has_statistics(known.get(name)))


def new_shape(schema: str, stats_columns: Iterable[str], *, created_us: int) -> TableShape:
    """The shape of a new table with these columns.

    Its statistics are limited to exactly those that files get (a reader that finds some, and not
    those of its filter, drops rows), and others keep their hands off its log.
    """
    wanted = with_statistics(schema, stats_columns)
    configuration = {"delta.enableExpiredLogCleanup": "false"}
    configuration |= {_STATS_COLUMNS: ",".join(wanted)} if wanted else {"delta.dataSkippingNumIndexedCols": "0"}
    return TableShape(
        table_id=str(uuid.uuid4()), schema_json=schema, configuration=configuration, created_ms=created_us // 1000
    )


def statistics_of(shape: TableShape) -> tuple[str, ...]:
    """The columns whose statistics the files of a table have."""
    return tuple(filter(None, shape.configuration.get(_STATS_COLUMNS, "").split(",")))


def type_name(type_: Any) -> str:
    """A type as people write it."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "array":
        return f"array<{type_name(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{type_name(type_['keyType'])}, {type_name(type_['valueType'])}>"
    return f"struct<{', '.join(field['name'] + ': ' + type_name(field['type']) for field in type_['fields'])}>"


def _has_statistics(type_: Any) -> bool:
    return isinstance(type_, str) and type_ in STATISTICS


def _type(read: Any, where: str, table: str) -> Any:
    if isinstance(read, str):
        if read in _ATOMS or read.startswith("decimal("):
            return read
        what = f"column {where} is {read}, which a lake table cannot hold"
        hint = "cast it to timestamp" if read == "timestamp_ntz" else "cast it, or drop it"
        raise errors.SchemaMismatch(table=table, what=what, hint=hint)
    match read["type"]:
        case "struct":
            fields = read["fields"]
            _check_names((one["name"] for one in fields), table)
            return {
                "type": "struct",
                "fields": [
                    _field(one["name"], _type(one["type"], _inside(where, one["name"]), table)) for one in fields
                ],
            }
        case "array":
            return {
                "type": "array",
                "elementType": _type(read["elementType"], _inside(where, "element"), table),
                "containsNull": True,
            }
        case "map":
            return {
                "type": "map",
                "keyType": _type(read["keyType"], _inside(where, "key"), table),
                "valueType": _type(read["valueType"], _inside(where, "value"), table),
                "valueContainsNull": True,
            }
        case _:
            what = f"column {where} has a type of its own, which a lake table cannot hold"
            raise errors.SchemaMismatch(table=table, what=what, hint="cast it, or drop it")


def _check_names(names: Iterable[str], table: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if not name or _FORBIDDEN_IN_NAMES & set(name):
            hint = "rename it (AS name): no spaces, and none of , ; { } ( ) ="
            raise errors.SchemaMismatch(table=table, what=f"a column cannot be called {name!r}", hint=hint)
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            # Spark would not know them apart, deltalake would.
            raise errors.SchemaMismatch(table=table, what=f"columns {twin} and {name} differ only in case")


def _listed(missing: Sequence[str], came: Iterable[str]) -> str:
    lowered = {name.lower(): name for name in came}
    first = missing[0]
    near = f" (it has {lowered[first.lower()]})" if first.lower() in lowered else ""
    return ", ".join(missing) + near


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
