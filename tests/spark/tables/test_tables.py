"""Tables over what others load, kept by runs of a project: gates, cuts, failures, and what every reader then sees."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import tidegate as tg
from tests.spark.tables.conftest import EXTERNAL, PAIR, Shop
from tidegate.progress.watermarks import Watermark
from tidegate.project import outputs
from tidegate.sources.advances import Advance

pytestmark = pytest.mark.spark

JOIN = "SELECT o.id, o.total, l.line FROM orders o JOIN order_lines l ON o.id = l.id"


def test_a_gate_over_tables_that_others_load_waits_and_opens(shop: Shop) -> None:
    """Only versions that an advance names are read: rows that nobody vouched for are in none of them."""
    shop.declare(EXTERNAL + PAIR, report=JOIN)
    shop.load("orders", 1, 1, 2, total=1.5)
    shop.load("order_lines", 1, 1, 2, line=7)
    shop.run()
    assert shop.ids("report") == [1, 2]
    shop.load("orders", 2, 3, total=2.5)
    shop.append("order_lines", 3, line=8)  # written, and its loader says nothing yet
    shop.run()
    table = shop.table("report")
    assert (table["verdict"], table["blocked_by"]) == ("closed", ["order_lines"])
    assert table["reason"] == "order_lines is 1 behind orders in group pair (tolerance 0)"
    refused = shop.tg("refresh", "report", expect=3)
    assert "order_lines is 1 behind orders" in refused.err
    assert shop.ids("report") == [1, 2]
    shop.tg("advance", "order_lines", "2", "--version", "1")
    shop.run()
    assert (shop.ids("report"), shop.table("report")["effective_watermarks"]) == ([1, 2, 3], {"pair": 2})
    # nothing is new: nothing is done
    before = shop.table("report")
    shop.run()
    assert shop.table("report") == before


def test_hold_back_reads_the_versions_that_agree(shop: Shop) -> None:
    """Within the group's tolerance; as the table's own loosens it, further."""
    groups = "groups: {pair: {sources: [orders, order_lines], tolerance: 1}}\n"
    query = (
        "SELECT count(DISTINCT o.id) AS orders, count(DISTINCT l.id) AS lines FROM orders o CROSS JOIN order_lines l"
    )
    shop.declare(
        EXTERNAL + groups,
        strict=f"-- gating: hold_back\n-- tolerance: 0\n{query}",
        loose=f"-- gating: hold_back\n{query}",
    )
    shop.load("orders", 1, 1, total=1.0)
    shop.load("orders", 2, 2, total=1.0)
    shop.load("order_lines", 1, 1, line=1)
    shop.load("orders", 5, 3, total=1.0)
    shop.run()
    assert shop.rows("strict") == [{"orders": 1, "lines": 1}]
    assert shop.rows("loose") == [{"orders": 2, "lines": 1}]
    table = shop.table("loose")
    assert (table["verdict"], table["effective_watermark"], table["blocked_by"]) == ("capped", 1, ["order_lines"])


def test_an_equal_value_with_another_version_binds_again(shop: Shop) -> None:
    """A loader that mends what it loaded says the same of what it wrote then."""
    shop.declare(EXTERNAL, copy="-- gating: gate\nSELECT id FROM orders")
    shop.load("orders", 1, 1)
    shop.run()
    shop.append("orders", 2, mode="overwrite")
    shop.run()
    assert shop.ids("copy") == [1]
    shop.tg("advance", "orders", "1", "--version", "1")
    shop.run()
    assert (shop.ids("copy"), shop.table("copy")["effective_watermark"]) == ([2], None)


def test_a_floor_closes_a_group_of_one(shop: Shop, spark: SparkSession) -> None:
    """Plain Spark loads the table, and the word about it comes from the command line."""
    shop.declare(
        EXTERNAL + "groups: {rates: {sources: [fx_rates], at_least: now - 1h}}\n", rates="SELECT * FROM fx_rates"
    )
    place = str(shop.root / "external" / "fx_rates")
    spark.range(3).write.format("delta").save(place)
    shop.tg("advance", "fx_rates", "2026-03-01T12:00:00Z", "--version", "0")
    shop.run()
    assert "short of group rates (at least " in shop.table("rates")["reason"]
    shop.tg("read", "rates", expect=3)
    spark.range(3, 5).write.format("delta").mode("append").save(place)
    shop.tg("advance", "fx_rates", f"{datetime.now(UTC).isoformat()}")
    shop.run()
    assert shop.ids("rates") == [0, 1, 2, 3, 4]


def test_a_version_that_was_vacuumed_away_closes_the_gate_and_is_named(shop: Shop) -> None:
    shop.declare(EXTERNAL, copy="-- gating: gate\nSELECT id FROM orders")
    shop.load("orders", 1, 1)
    shop.append("orders", 2, mode="overwrite")
    DeltaTable(str(shop.root / "external" / "orders")).vacuum(0, enforce_retention_duration=False, dry_run=False)
    shop.run(expect=1)  # it is found by reading it
    shop.run()
    table = shop.table("copy")
    assert (table["verdict"], table["reason"]) == (
        "closed",
        "version 0 of orders, which its watermark 1 speaks of, is gone",
    )
    assert shop.explain("copy")["remedy"] == "tidegate advance orders VALUE --version V, with a version that is there"
    shop.tg("read", "copy", expect=3)
    shop.tg("advance", "orders", "1", "--version", "1")
    shop.run()
    assert (shop.ids("copy"), shop.table("copy")["verdict"]) == ([2], "open")


def test_a_table_that_runs_before_all_have_reported_is_ungated_and_unhealthy(shop: Shop) -> None:
    shop.declare(EXTERNAL + PAIR, report=JOIN)
    shop.load("orders", 1, 1, total=1.0)
    shop.append("order_lines", 1, line=1)
    shop.run()
    status = shop.tg("status", "--json").json
    assert (status["healthy"], status["tables"][0]["ungated"], status["groups"][0]["state"]) == (
        False,
        True,
        "bootstrapping",
    )
    assert "ungated" in shop.tg("read", "report", "--format", "json").err
    shop.tg("advance", "order_lines", "1")  # of the very version that was read
    shop.run()
    status = shop.tg("status", "--json").json
    assert (status["healthy"], status["tables"][0]["ungated"], status["tables"][0]["effective_watermark"]) == (
        True,
        False,
        1,
    )
    # a member that is added to a group in use is waited for
    shop.declare(
        EXTERNAL + "groups: {pair: {sources: [orders, order_lines, regions]}}\n",
        report="SELECT o.id FROM orders o JOIN order_lines USING (id) LEFT JOIN regions r USING (id)",
    )
    shop.append("regions", 1)
    shop.run()
    assert shop.table("report")["reason"] == "regions has not reported a watermark yet in group pair"
    assert shop.ids("report") == [1]


def test_force_goes_past_the_gate_and_is_told_for_ever(shop: Shop) -> None:
    shop.declare(EXTERNAL + PAIR, report=JOIN)
    shop.load("orders", 1, 1, total=1.0)
    shop.load("order_lines", 1, 1, line=1)
    shop.run()
    shop.load("orders", 2, 2, total=1.0)
    shop.load("order_lines", 5, 2, line=1)
    forced = shop.tg("refresh", "report", "--force", "--json").json
    assert (forced["ungated"], forced["verdict"]) == (True, "closed")
    assert shop.ids("report") == [1, 2]
    assert shop.tg("status", "--json").json["healthy"] is False
    shop.tg("advance", "orders", "5")  # nothing new up to there: the rows that are shown are gated after all
    shop.run()
    table = shop.table("report")
    assert (table["ungated"], table["effective_watermark"], table["last_refresh"]) == (False, 5, "unchanged")
    assert [row["what"] for row in shop.explain("report")["history"]] == ["refreshed", "forced", "refreshed"]
    shop.tg("refresh", "report", "--full")
    assert shop.table("report")["last_refresh"] == "full"


def test_a_query_that_fails_leaves_what_was_there(shop: Shop) -> None:
    """Never an empty table; exit 1, the reason, and no second try that nothing asks for."""
    shop.declare(EXTERNAL, bad="SELECT id, 10 / (id - 2) AS x FROM orders", good="SELECT id FROM orders")
    shop.append("orders", 1)
    shop.run()
    shop.append("orders", 2)
    failed = shop.run(expect=1)
    assert "DIVIDE_BY_ZERO" in failed.out + failed.err
    assert (shop.ids("bad"), shop.ids("good")) == ([1], [1, 2])
    status = shop.tg("status", "--json").json
    assert status["healthy"] is False
    told = shop.explain("bad")
    assert "DIVIDE_BY_ZERO" in told["reason"]
    assert shop.lake("bad").to_pyarrow_table().num_rows == 1
    shop.tg("refresh", "bad", expect=1)
    shop.declare(EXTERNAL, bad="SELECT id, id AS x FROM orders")
    shop.run()
    assert (shop.ids("bad"), shop.tg("status", "--json").json["healthy"]) == ([1, 2], True)


def test_another_query_makes_other_columns_in_one_step(shop: Shop, spark: SparkSession) -> None:
    """Readers of the version before go on with it; everybody agrees on the rows of both."""
    shop.declare(EXTERNAL, wide="SELECT id, total, CAST(id AS STRING) AS name FROM orders")
    shop.append("orders", 1, 2, total=1.5)
    shop.run()
    held = spark.read.format("delta").option("versionAsOf", 0).load(str(shop.root / "lake" / "wide"))
    shop.declare(EXTERNAL, wide="SELECT total AS id, id AS name, NULL :: DATE AS day FROM orders")
    shop.run()
    wanted = [{"id": 1.5, "name": 1, "day": None}, {"id": 1.5, "name": 2, "day": None}]
    ours = sorted(shop.rows("wide"), key=lambda row: row["name"])
    by_spark = spark.read.format("delta").load(str(shop.root / "lake" / "wide")).orderBy("name").collect()
    by_delta_rs = shop.lake("wide").to_pyarrow_table().sort_by("name").to_pylist()
    assert ours == [row.asDict() for row in by_spark] == by_delta_rs == wanted
    assert [row["name"] for row in shop.rows("wide", "--as-of", "0")] == ["1", "2"]
    assert sorted(row.name for row in held.collect()) == ["1", "2"]
    assert "wide has no version" not in shop.tg("read", "wide", "--as-of", "9", expect=3).err


def test_tables_over_tables_are_complete_to_what_they_were_made_from(shop: Shop) -> None:
    shop.declare(
        EXTERNAL + PAIR,
        order_summary="SELECT id, sum(total) AS total FROM orders GROUP BY id",
        line_summary="-- schedule: manual\nSELECT id, count(*) AS lines FROM order_lines GROUP BY id",
        order_report="SELECT id, total, lines FROM order_summary JOIN line_summary USING (id)",
    )
    shop.load("orders", 1, 1, total=1.0)
    shop.load("order_lines", 1, 1, 1, line=1)
    shop.run()
    assert shop.table("order_report")["reason"] == "line_summary has nothing published yet"
    shop.tg("refresh", "line_summary")
    shop.run()
    assert shop.rows("order_report") == [{"id": 1, "total": 1.0, "lines": 2}]
    shop.load("orders", 2, 2, total=1.0)
    shop.load("order_lines", 2, 2, line=1)
    shop.run()
    report = shop.table("order_report")
    assert (report["verdict"], report["blocked_by"]) == ("closed", ["order_lines"])
    assert "tidegate refresh line_summary" in shop.explain("order_report")["remedy"]
    shop.tg("read", "order_report", "--complete-to", "2", expect=3)
    shop.tg("refresh", "line_summary")
    shop.run()
    assert len(shop.rows("order_report", "--complete-to", "2")) == 2


def test_tables_in_python(shop: Shop) -> None:
    """Parameters name what is read; what the function raises or gives wrongly is told with its file."""
    shop.declare(EXTERNAL, above="SELECT max(id) AS id FROM doubled")
    script = "import tidegate as tg\n\n@tg.table(gating='none')\ndef doubled(orders):\n    return {}\n"
    shop.write("tables/more.py", script.format("orders.selectExpr('id * 2 AS id')"))
    shop.append("orders", 1, 2)
    shop.run()
    assert (shop.ids("doubled"), shop.ids("above")) == ([2, 4], [4])
    shop.write("tables/more.py", script.format("orders.count()"))
    wrong = shop.run(expect=1)
    assert "its function gave int, not a DataFrame" in wrong.err + wrong.out
    shop.write("tables/more.py", script.format("orders[0]['x']['y'].nothing()"))
    shop.run(expect=1)
    assert (shop.ids("doubled"), shop.ids("above")) == ([2, 4], [4])


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (
            {"a": "SELECT * FROM b", "b": "SELECT *\nFROM orders JOIN a USING (id)"},
            "tables/b.sql:2: tables read each other in a circle: a → b → a",
        ),
        ({"a": "-- gating: none\nSELECT * FROM\n  odrers"}, "tables/a.sql:3: there is nothing called odrers; did you"),
        ({"a": "SELECT 1 AS x;\nSELECT 2 AS x"}, "tables/a.sql:1: there are 2 statements"),
        ({"a": "-- gatng: none\nSELECT 1"}, "tables/a.sql:1: gatng is not an option of a table; did you mean gating?"),
        ({"orders": "SELECT 1 AS id"}, "orders"),
        ({"Orders": "SELECT 1 AS id"}, "rders"),
    ],
)
def test_what_cannot_be_is_refused_before_spark_and_nothing_is_made(
    shop: Shop, tables: dict[str, str], told: str
) -> None:
    shop.declare(EXTERNAL, **tables)
    refused = shop.run(expect=2)
    assert told in refused.err
    assert not (shop.root / ".tidegate" / "ledger.db").exists()


# reading


def test_versions_that_are_there_are_read_and_others_told_apart(shop: Shop) -> None:
    """By number, and by what they are complete to; a table that was never refreshed is not an empty one."""
    shop.declare(EXTERNAL, copy="-- gating: gate\nSELECT id FROM orders")
    shop.tg("read", "copy", expect=3)
    shop.load("orders", 1, 1)
    shop.run()
    shop.load("orders", 2, 2)
    shop.run()
    assert (shop.ids("copy", "--as-of", "0"), shop.ids("copy", "--as-of", "1")) == ([1], [1, 2])
    shop.tg("read", "copy", "--as-of", "2", expect=3)
    assert shop.ids("copy", "--complete-to", "2") == [1, 2]
    shop.tg("read", "copy", "--complete-to", "3", expect=3)
    shop.tg("read", "copy", "--complete-to", "2026-03-01T00:00:00Z", expect=2)
    assert shop.ids("orders", "--complete-to", "2") == [1, 2]
    assert shop.ids("orders", "--as-of", "0") == [1]


def test_python_reads_loads_and_attaches(shop: Shop, spark: SparkSession) -> None:
    """`tg.open`, `tg.load`, `tg.attach`: rows and their watermark in one commit, and views of what is complete."""
    shop.declare(
        EXTERNAL + PAIR, report="-- gating: gate\nSELECT id, at FROM fx_rates", parted="SELECT id FROM regions"
    )
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with tg.open(shop.root) as project:
        loader = tg.load(project, "fx_rates")
        loaded = loader.append(spark.sql("SELECT 1L AS id, TIMESTAMP '2026-03-01 11:00:00' AS at"), watermark=noon)
        assert loaded.watermark == Watermark.of_micros(int(noon.timestamp() * 1e6))
        with pytest.raises(tg.WatermarkBackwards):
            loader.append(spark.range(1), watermark=datetime(2026, 3, 1, 11, tzinfo=UTC))
        with pytest.raises(tg.ConfigError, match="zone"):
            loader.append(spark.range(1), watermark=datetime(2026, 3, 1, 13))
        parts = tg.load(project, "regions")
        with pytest.raises(tg.TidegateError, match="no part was named"):
            parts.append(pa.table({"id": [1]}), watermark=1)
        with pytest.raises(tg.TidegateError, match="asia"):
            parts.append(pa.table({"id": [1]}), watermark=1, part="asia")
        assert not (shop.root / "external" / "regions").exists()
        assert parts.append(pa.table({"id": [1]}), watermark=3, part="eu").watermark is None
        assert parts.append(pa.table({"id": [2]}), watermark=2, part="us").watermark == Watermark.of_integer(2)
        with pytest.raises(tg.ConfigError, match="there is no source nowhere"):
            tg.load(project, "nowhere")
        project.run(once=True)
        frame = project.read("report", complete_to="2026-03-01T12:00:00Z")
        assert [(row.id, row.at) for row in frame.collect()] == [(1, datetime(2026, 3, 1, 11))]
        with pytest.raises(tg.NotComplete):
            project.read("report", complete_to="2026-03-01T12:00:01Z")
        assert sorted(tg.attach(spark, project)) == ["parted", "report"]
        assert spark.sql("SELECT count(*) AS n FROM parted JOIN report USING (id)").first().n == 1  # type: ignore[union-attr]
        said = {row.name: row for row in spark.sql("SELECT * FROM watermarks()").collect()}
        assert (said["fx_rates"].watermark, said["regions"].watermark) == ("2026-03-01T12:00:00Z", "2")
        [group] = spark.sql("SELECT * FROM watermark_groups()").collect()
        assert (group.name, group.sources, group.tolerance) == ("pair", ["orders", "order_lines"], "0")
        [aligned] = spark.sql("SELECT aligned, lag FROM watermark_status()").collect()
        assert (aligned.aligned, aligned.lag) == (False, None)


def test_a_load_that_died_before_it_told_the_ledger_is_heard(shop: Shop) -> None:
    """The commit has both: a loader that starts again finds how far it was, and tables are not kept waiting."""
    shop.declare(EXTERNAL, copy="-- gating: gate\nSELECT id FROM orders")
    with tg.open(shop.root) as project:
        tg.load(project, "orders").append(pa.table({"id": [1]}), watermark=1)
        said = Advance(seq=0, value=Watermark.of_integer(2), at_us=1, by="a loader that died")
        outputs.append(project.service.spec, project.service.external("orders"), pa.table({"id": [2]}), said)
        assert project.status().sources["orders"].watermark == Watermark.of_integer(1)
        tg.load(project, "orders")
        assert project.status().sources["orders"].watermark == Watermark.of_integer(2)
        outputs.append(
            project.service.spec,
            project.service.external("orders"),
            pa.table({"id": [3]}),
            Advance(seq=0, value=Watermark.of_integer(3), at_us=1, by="another"),
        )
    shop.run()
    assert (shop.ids("copy"), shop.explain("copy")["inputs"][0]["version"]) == ([1, 2, 3], 2)
    sources = {one["name"]: one for one in shop.tg("status", "--json").json["sources"]}
    assert sources["orders"]["advanced_by"] == "another"


def test_functions_in_python_run_under_the_python_of_the_project(shop: Shop, spark: SparkSession) -> None:
    """Also where the command was called by its path, and `python3` is another one."""
    script = """
import sys
import tidegate as tg
from pyspark.sql.functions import udf

@tg.table
def told(orders):
    return orders.select(udf(lambda id: sys.executable)("id").alias("id"))
"""
    shop.declare(EXTERNAL)
    shop.write("tables/told.py", script)
    shop.append("orders", 1)
    shop.run()
    assert shop.ids("told") == [sys.executable]
