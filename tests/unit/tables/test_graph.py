"""What tables read, in which order they are computed, and how they treat groups unless told."""

from __future__ import annotations

import pytest

from tests.unit.tables.shop import PAIR, shop
from tidegate import errors
from tidegate.progress.cut import Mode
from tidegate.progress.groups import AtLeast, Group
from tidegate.tables import graph, queries, scan
from tidegate.tables.declare import parse_sql
from tidegate.tables.graph import InputKind

SUMMARIES = {
    "order_summary": "SELECT id, at FROM orders",
    "line_summary": "SELECT id, count(*) AS n FROM order_lines GROUP BY id",
}
REPORT = "SELECT * FROM order_summary JOIN line_summary USING (id)"


def test_inputs_come_before_their_readers_with_the_roots_of_all() -> None:
    built = graph.build(shop(PAIR, order_report=REPORT, **SUMMARIES), queries.references)
    assert list(built.nodes) == ["order_summary", "line_summary", "order_report"]
    report = built.nodes["order_report"]
    assert report.roots == {"orders", "order_lines"}
    assert [(one.name, one.kind) for one in report.inputs] == [
        ("order_summary", InputKind.TABLE),
        ("line_summary", InputKind.TABLE),
    ]
    assert built.readers("order_summary") == ("order_report",)


def test_a_table_where_members_of_a_group_meet_is_gated() -> None:
    nodes = graph.build(shop(PAIR, order_report=REPORT, **SUMMARIES), queries.references).nodes
    assert (nodes["order_report"].mode, nodes["order_report"].why) == (
        Mode.GATE,
        "orders and order_lines of group order_pipeline meet in it",
    )
    assert nodes["order_summary"].mode is Mode.NONE
    assert nodes["order_summary"].groups == ("order_pipeline",)


def test_a_table_above_a_gated_one_is_not_gated_again() -> None:
    nodes = graph.build(
        shop(PAIR, order_report=REPORT, top="SELECT * FROM order_report", **SUMMARIES), queries.references
    ).nodes
    assert nodes["top"].mode is Mode.NONE


def test_what_is_declared_wins() -> None:
    report = graph.build(shop(PAIR, order_report=f"-- gating: none\n{REPORT}", **SUMMARIES), queries.references)
    assert report.nodes["order_report"].mode is Mode.NONE
    assert report.nodes["order_report"].why == "declared in tables/order_report.sql"


def test_reading_a_source_that_must_have_reached_something_is_gated() -> None:
    rates = Group(name="rates", sources=("fx_rates",), at_least=AtLeast(now_minus_us=3_600_000_000))
    declared = shop(rates, rate="SELECT * FROM fx_rates", top="SELECT * FROM rate")
    nodes = graph.build(declared, queries.references).nodes
    assert nodes["rate"].why == "it reads fx_rates, and group rates asks for at least now - 1h"
    assert (nodes["rate"].mode, nodes["top"].mode) == (Mode.GATE, Mode.NONE)


def test_a_pipeline_is_read_by_its_own_name_and_by_its_table() -> None:
    nodes = graph.build(
        shop(a="SELECT * FROM clicks", b="SELECT * FROM Raw_Clicks", c="SELECT * FROM fx_rates"), queries.references
    ).nodes
    for name in ("a", "b"):
        [one] = nodes[name].inputs
        assert (one.kind, one.table, one.roots) == (InputKind.PIPELINE, "raw_clicks", {"page_views"})
    assert nodes["c"].inputs[0].kind is InputKind.EXTERNAL


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "-- gating: none\n\nSELECT *\nFROM odrers",
            "tables/t.sql:4: there is nothing called odrers; did you mean orders?",
        ),
        ("SELECT * FROM page_views", "tables/t.sql:1: page_views is a source; read clicks instead"),
        ("SELECT * FROM exports", "tables/t.sql:1: pipeline exports has no delta sink, so there is no table exports"),
        ("SELECT * FROM lake.orders", "tables/t.sql:1: lake.orders is not known here"),
        ("SELECT * FROM parquet.`/x`", "tables/t.sql:1: parquet.`/x` is not known here"),
        ("SELECT * FROM t", "tables/t.sql:1: table t reads itself"),
        ("SELECT * FROM a", "tables/a.sql:1: tables read each other in a circle: t → a → t"),
        ("DELETE FROM orders", "tables/t.sql:1: this is DELETE, no query"),
        ("SELECT 1; SELECT 2", "tables/t.sql:1: there are 2 statements"),
        ("SELECT *\nFROM orders WHERE (", "tables/t.sql:2: the query does not parse"),
        ("SELECT 'open", "tables/t.sql:1: the query does not parse"),
    ],
)
def test_a_query_that_cannot_be_is_refused_with_its_line(query: str, told: str) -> None:
    with pytest.raises(errors.ConfigError) as refused:
        graph.build(shop(t=query, a="SELECT * FROM t"), queries.references)
    assert refused.value.message.startswith(told)


@pytest.mark.parametrize(("tolerance", "told"), [("5s", "a whole number"), ("5", None), ("0s", None), ("0", None)])
def test_a_tolerance_counts_in_what_the_watermarks_count_in(tolerance: str, told: str | None) -> None:
    """Five seconds of batches would be five million of them, and no gate at all."""
    declared = shop(Group(name="rates", sources=("fx_rates",)), t=f"-- tolerance: {tolerance}\nSELECT * FROM fx_rates")
    if told is None:
        assert graph.build(declared, queries.references).nodes["t"].groups == ("rates",)
    else:
        with pytest.raises(errors.ConfigError, match=rf"tables/t.sql: tolerance must be {told}"):
            graph.build(declared, queries.references)
    pair = shop(PAIR, t=f"-- tolerance: 5\n{REPORT}", **SUMMARIES)
    with pytest.raises(errors.ConfigError, match="tolerance must be a duration"):
        graph.build(pair, queries.references)


def test_a_status_gets_a_graph_of_what_is_right() -> None:
    declared = shop(t="SELECT * FROM a, nowhere", a="SELECT * FROM t JOIN orders USING (id)")
    nodes = graph.build(declared, scan.references, strict=False).nodes
    assert {name: [one.name for one in node.inputs] for name, node in nodes.items()} == {"a": ["orders"], "t": ["a"]}


LINES = ["order_lines"]
QUERIES = [
    ("SELECT * FROM orders", ["orders"]),
    ("SELECT 1 FROM `orders` o, order_lines AS l WHERE o.id IN (SELECT id FROM clicks)", ["orders", *LINES, "clicks"]),
    ("WITH a AS (SELECT * FROM orders), b AS (SELECT * FROM a) SELECT * FROM b JOIN order_lines", ["orders", *LINES]),
    ("SELECT id FROM orders UNION ALL SELECT id FROM order_lines ORDER BY id, id", ["orders", "order_lines"]),
    ("-- gating: none\nSELECT 'FROM clicks', \"FROM clicks\" /* FROM clicks */ FROM orders -- FROM clicks", ["orders"]),
    ("SELECT * FROM orders TABLESAMPLE (10 PERCENT) JOIN (SELECT max(id) m FROM order_lines)", ["orders", *LINES]),
    ("SELECT id FROM range(10) JOIN orders USING (id)", ["orders"]),
    ("SELECT extract(year FROM at) AS y FROM orders", ["orders"]),
    ("SELECT EXISTS (SELECT 1 FROM order_lines l WHERE l.id = o.id) AS e FROM orders o", ["orders", "order_lines"]),
    ("SELECT 1 AS one", []),
]  # fmt: skip
#: A name with two meanings, and a list that is not one of tables.
ONLY_PARSED = [
    ("WITH orders AS (SELECT * FROM orders WHERE id > 1) SELECT * FROM orders", ["orders"]),
    ("SELECT id, x FROM orders LATERAL VIEW explode(items) t AS x, y", ["orders"]),
]


@pytest.mark.parametrize(("query", "names"), QUERIES + ONLY_PARSED)
def test_the_parser_finds_what_a_query_reads(query: str, names: list[str]) -> None:
    assert sorted(one.name for one in queries.references(parse_sql("t", query, "t.sql"))) == sorted(names)


@pytest.mark.parametrize(("query", "names"), QUERIES)
def test_a_glance_finds_the_same_names_of_what_is_declared(query: str, names: list[str]) -> None:
    declared = shop(t=query)
    assert sorted(i.name for i in graph.build(declared, scan.references, strict=False).nodes["t"].inputs) == sorted(
        names
    )
