"""Queries as people write them: each is read as Spark reads it, or refused with what to do."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.tables.conftest import EXTERNAL, Shop

pytestmark = pytest.mark.spark

#: The orders are 1 and 2, the lines 2 and 3.
WORKS: dict[str, tuple[str, list[int]]] = {
    "cte_of_the_same_name": ("WITH orders AS (SELECT * FROM orders WHERE id > 1) SELECT id FROM orders", [2]),
    "cte_inside_a_cte": (
        "WITH a AS (WITH order_lines AS (SELECT 7L AS id) SELECT id FROM order_lines) "
        "SELECT a.id FROM a UNION ALL SELECT id FROM order_lines",
        [2, 3, 7],
    ),
    "recursive": (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) "
        "SELECT o.id FROM t JOIN orders o ON o.id = t.n",
        [1, 2],
    ),
    "subqueries": (
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM order_lines l WHERE l.id = o.id) "
        "AND id IN (SELECT id FROM order_lines)",
        [2],
    ),
    "scalar_subquery": ("SELECT id + (SELECT max(id) FROM order_lines) AS id FROM orders", [4, 5]),
    "lateral": ("SELECT x AS id FROM orders o LATERAL VIEW explode(array(o.id, 9)) t AS x", [1, 2, 9, 9]),
    "self_join": ("SELECT a.id FROM orders a JOIN orders b ON a.id = b.id", [1, 2]),
    "windows": ("SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS n FROM orders) WHERE n = 1", [2]),
    "qualified": ("SELECT id FROM orders QUALIFY row_number() OVER (ORDER BY id) = 1", [1]),
    "unions": ("(SELECT id FROM orders) UNION (SELECT id FROM `order_lines`) EXCEPT SELECT 3L", [1, 2]),
    "from_first": ("FROM orders SELECT id", [1, 2]),
    "piped": ("FROM orders |> WHERE id > 1 |> SELECT id", [2]),
    "any_case": ("SELECT ID AS id FROM `ORDERS` AS `FROM x` -- FROM nowhere", [1, 2]),
    "with_remarks": ("-- gating: none   as it is\nSELECT /*+ COALESCE(1) */ id /* , */ FROM orders;\n-- done", [1, 2]),
    "other_line_ends": ("-- gating: none\r\nSELECT id\r\nFROM orders\r\n", [1, 2]),
    "no_input": ("SELECT 5 AS id", [5]),
    "no_rows": ("SELECT id FROM orders WHERE false", []),
    "changes_each_time": ("SELECT id FROM orders WHERE rand() < 2 AND now() > TIMESTAMP '2020-01-01'", [1, 2]),
}  # fmt: skip
#: What is only known when it is computed.
FAILS = {
    "twice_the_same_column": ("SELECT o.id, l.id FROM orders o, order_lines l", "`id` already exists"),
    "columns_that_differ_in_case": ("SELECT id, id AS ID FROM orders", "columns id and ID differ only in case"),
    "a_column_with_a_space": ("SELECT id AS `a b` FROM orders", "a column cannot be called 'a b'"),
    "a_column_without_a_name": ("SELECT count(*) FROM orders", "a column cannot be called 'count(1)'"),
    "a_time_without_a_zone": ("SELECT TIMESTAMP_NTZ '2026-03-01 12:00:00' AS at", "column at is timestamp_ntz"),
    "a_column_of_nothing": ("SELECT NULL AS x FROM orders", "column x is void"),
    "an_interval": ("SELECT INTERVAL 1 DAY AS gone", "column gone is interval day"),
    "an_unknown_column": ("SELECT odrer FROM orders", "`odrer` cannot be resolved"),
    "time_travel": ("SELECT id FROM orders VERSION AS OF 0", "Time travel on the relation"),
    "a_name_that_is_computed": ("SELECT id FROM IDENTIFIER('orders')", "`orders` cannot be found"),
}


def test_queries_are_read_as_spark_reads_them(shop: Shop) -> None:
    """What fails leaves the others alone, and each is told for itself."""
    tables = {name: query for name, (query, _) in [*WORKS.items(), *FAILS.items()]}
    shop.declare(EXTERNAL, **tables)
    shop.append("orders", 1, 2)
    shop.append("order_lines", 2, 3)
    shop.run(expect=1)
    status = {one["name"]: one for one in shop.tg("status", "--json").json["tables"]}
    with_rows = {
        name: sorted(row["id"] for row in shop.rows(name)) for name in WORKS if status[name]["version"] is not None
    }
    assert with_rows == {name: rows for name, (_, rows) in WORKS.items()}
    told = {name: shop.explain(name)["reason"] for name in FAILS}
    assert {name for name, (_, said) in FAILS.items() if said not in told[name]} == set()
    assert {status[name]["version"] for name in FAILS} == {None}
    assert not [name for name in FAILS if "\n" in told[name]]


def test_values_of_every_type_are_the_same_for_every_reader(shop: Shop, spark: SparkSession) -> None:
    """Ours without Spark, Spark's and delta-rs's; NaN, nulls, nesting, and names that need quotes."""
    query = """SELECT id, CAST('NaN' AS DOUBLE) AS nan, CAST('infinity' AS FLOAT) AS `select`,
        CAST(1.25 AS DECIMAL(38, 10)) AS `größe`, map('a', 1, 'b', null) AS m, array(1, null) AS list,
        named_struct('x', 1, 'y', named_struct('z', 'q')) AS deep, CAST(NULL AS BINARY) AS raw,
        DATE '2026-03-01' AS day, TIMESTAMP '2026-03-01 12:00:00.000001' AS at, '' AS empty FROM orders"""
    shop.declare(EXTERNAL, types=query)
    shop.append("orders", 1)
    shop.run()
    place = str(shop.root / "lake" / "types")
    by_spark = spark.read.format("delta").load(place).toArrow().to_pylist()
    by_delta_rs = shop.lake("types").to_pyarrow_table().to_pylist()
    with shop.open() as project:
        ours = project.service.read("types").rows.to_pylist()
        framed = project.read("types", spark=spark).toArrow().to_pylist()
    wanted = {
        "id": 1,
        "select": math.inf,
        "größe": Decimal("1.2500000000"),
        "m": [("a", 1), ("b", None)],
        "list": [1, None],
        "deep": {"x": 1, "y": {"z": "q"}},
        "raw": None,
        "day": date(2026, 3, 1),
        "at": datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC),
        "empty": "",
    }
    for rows in (ours, framed, by_spark, by_delta_rs):
        [row] = rows
        assert math.isnan(row.pop("nan"))
        assert row == wanted
    printed: Any = shop.rows("types")[0]
    assert (printed["größe"], printed["at"], printed["deep"]) in [
        ("1.2500000000", "2026-03-01T12:00:00.000001Z", {"x": 1, "y": {"z": "q"}}),
        (1.25, "2026-03-01T12:00:00.000001Z", {"x": 1, "y": {"z": "q"}}),
    ]
