"""What a table's file says: options in the comment at its top, and one query."""

from __future__ import annotations

import pytest

from tidegate import errors
from tidegate.progress.cut import Mode
from tidegate.progress.groups import Tolerance
from tidegate.progress.watermarks import ValueKind
from tidegate.tables import declare
from tidegate.tables.declare import Over, PythonQuery, Refresh, SqlQuery, TableSpec, parse_sql
from tidegate.tables.schedules import Trigger


def parsed(text: str) -> TableSpec:
    return parse_sql("t", text, "tables/t.sql")


def test_every_option_is_read_and_the_query_begins_after_them() -> None:
    spec = parsed(
        "-- The report of the day.\n"
        "-- gating: hold_back\n--tolerance:30s\n-- schedule: cron 0 * * * *   every hour\n"
        "-- refresh: full # always\n\n-- over: retained\nSELECT 1 AS one\n-- gating: none\n"
    )
    assert (spec.gating, spec.tolerance, spec.refresh, spec.over) == (
        Mode.HOLD_BACK,
        Tolerance(amount=30_000_000, kind=ValueKind.TIMESTAMP),
        Refresh.FULL,
        Over.RETAINED,
    )
    assert spec.schedule.text == "cron 0 * * * *"
    assert spec.query == SqlQuery(text="SELECT 1 AS one\n-- gating: none", line=8)


def test_what_is_left_out_is_inferred_or_the_default() -> None:
    spec = parsed("SELECT 1 AS one")
    assert (spec.gating, spec.tolerance, spec.refresh, spec.over) == (None, None, Refresh.AUTO, Over.HISTORY)
    assert spec.schedule.trigger is Trigger.ON_ADVANCE


@pytest.mark.parametrize(
    "text",
    [
        "-- See the handbook\nSELECT 1",
        "-- as of 10:30\nSELECT 1",  # a line of prose has a colon in its middle
        "\r\n-- gating: none\r\nSELECT 1\r\n",
    ],
)
def test_prose_and_line_ends_of_other_systems_are_fine(text: str) -> None:
    assert isinstance(parsed(text).query, SqlQuery)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-- gatng: none\nSELECT 1", "tables/t.sql:1: gatng is not an option of a table; did you mean gating?"),
        ("--\n-- note: me\nSELECT 1", "tables/t.sql:2: note is not an option of a table; the options are gating"),
        ("-- gating: gates\nSELECT 1", "tables/t.sql:1: gating: 'gates' is not one of none, gate, hold_back"),
        ("-- gating: none\n-- gating: none\nSELECT 1", "tables/t.sql:2: gating is given twice"),
        ("-- tolerance: -5s\nSELECT 1", "tables/t.sql:1: tolerance: '-5s' is not a duration"),
        ("-- tolerance: ٣\nSELECT 1", "tables/t.sql:1: tolerance: '٣' is not a duration"),
        ("-- refresh: incremental\nSELECT 1", "tables/t.sql:1: refresh: incremental is strict"),
        ("-- over: retention\nSELECT 1", "tables/t.sql:1: over: 'retention' is not one of history, retained"),
        ("-- schedule: hourly\nSELECT 1", "tables/t.sql:1: schedule: 'hourly' is not one of on_advance"),
        ("", "tables/t.sql:1: table t has no query"),
        ("-- gating: none\n\n", "tables/t.sql:2: table t has no query"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(errors.ConfigError) as refused:
        parsed(text)
    assert refused.value.message.startswith(told)


@pytest.mark.parametrize("name", ["a-b", "1st", "a b", "", "a.b"])
def test_a_name_that_no_query_could_say_is_refused(name: str) -> None:
    with pytest.raises(errors.ConfigError, match="cannot be the name of a table"):
        parse_sql(name, "SELECT 1", "tables/t.sql")


def test_the_definition_is_that_of_the_query_and_not_of_its_options() -> None:
    """Other options need no other contents; another query does."""
    assert parsed("SELECT 1\n").definition == parsed("-- gating: gate\n\nSELECT 1").definition
    assert parsed("SELECT 1").definition != parsed("SELECT 2").definition


def test_a_function_reads_what_its_parameters_name() -> None:
    def report(orders: object, fx_rates: object) -> object:
        return orders, fx_rates

    spec = declare.from_function(report, "tables/report.py", {"gating": "gate"})
    assert isinstance(spec.query, PythonQuery)
    assert (spec.name, spec.query.inputs, spec.gating) == ("report", ("orders", "fx_rates"), Mode.GATE)
    assert "return orders, fx_rates" in spec.query.source
