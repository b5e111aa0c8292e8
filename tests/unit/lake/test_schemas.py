"""Schemas: made from Spark's, widened, compared to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate import errors
from tidegate.lake import schemas

STRUCT = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
ARRAY = {"type": "array", "elementType": "string", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}
BASE = schemas.of_columns({"id": "long", "name": "string"})


def spark(**types: Any) -> str:
    """A schema as Spark says it."""
    fields = [{"name": name, "type": type_, "nullable": False, "metadata": {}} for name, type_ in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def test_types_that_a_lake_table_holds_stay_as_they_are() -> None:
    types = {"a": "long", "b": "decimal(10,2)", "c": STRUCT, "d": ARRAY, "e": MAP, "f": "timestamp", "g": "binary"}
    assert schemas.columns(schemas.of_spark(spark(**types), table="t")) == types


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        ("timestamp_ntz", "column x is timestamp_ntz"),
        ("void", "column x is void"),
        ("variant", "column x is variant"),
        (
            {"type": "array", "elementType": "timestamp_ntz", "containsNull": True},
            r"column x\.element is timestamp_ntz",
        ),
        ({"type": "map", "keyType": "void", "valueType": "long", "valueContainsNull": True}, r"x\.key is void"),
        ({"type": "udt", "class": "x"}, "a type of its own"),
        ({"type": "struct", "fields": [{"name": "y z", "type": "long"}]}, "called 'y z'"),
        ({"type": "struct", "fields": [{"name": "y", "type": "long"}, {"name": "Y", "type": "long"}]}, "only in case"),
    ],
)
def test_what_a_lake_table_cannot_hold_is_refused_at_any_depth(type_: Any, says: str) -> None:
    with pytest.raises(errors.SchemaMismatch, match=says):
        schemas.of_spark(spark(id="long", x=type_), table="t")


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a;b", "a{b", "a(b", "a\nb", "a\tb", "a=b"])
def test_names_that_parquet_or_delta_refuse_are_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(errors.SchemaMismatch, match="a column cannot be called") as told:
        schemas.of_spark(spark(**{name: "long"}), table="t")
    assert "rename it" in told.value.hint


def test_new_columns_come_at_the_end_and_the_rest_stays() -> None:
    merged = schemas.merged(BASE, schemas.of_columns({"more": "date", "name": "string", "id": "long"}), table="t")
    assert list(schemas.columns(merged)) == ["id", "name", "more"]
    assert schemas.merged(merged, BASE, table="t", may_lack=True) == merged


@pytest.mark.parametrize(
    ("delivered", "says"),
    [
        ({"id": "integer", "name": "string"}, "column id is long, and the rows have integer"),
        ({"id": "long", "name": "long"}, "column name is string, and the rows have long"),
        ({"id": "long"}, "the rows have no column name"),
        ({"ID": "long", "name": "string"}, r"the rows have no column id \(it has ID\)"),
        ({"id": "long", "name": "string", "Name": "string"}, "name and Name differ only in case"),
        ({"id": STRUCT, "name": ARRAY}, r"the rows have struct<x: long>"),
        ({"id": "long", "name": MAP}, r"the rows have map<string, array<string>>"),
    ],
)
def test_rows_that_are_not_the_tables_are_told_which_column(delivered: dict[str, Any], says: str) -> None:
    with pytest.raises(errors.SchemaMismatch, match=says):
        schemas.merged(BASE, schemas.of_columns(delivered), table="t")


def test_a_fingerprint_is_of_columns_and_types_in_any_order() -> None:
    turned = schemas.of_columns({"name": "string", "id": "long"})
    assert schemas.fingerprint(BASE) == schemas.fingerprint(turned)
    assert schemas.fingerprint(BASE) != schemas.fingerprint(schemas.of_columns({"id": "long", "name": "binary"}))
    assert schemas.fingerprint(BASE) != schemas.fingerprint(schemas.of_columns({"ID": "long", "name": "string"}))
