"""When a table asks to be refreshed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.clock import to_micros
from tidegate.tables.schedules import Schedule, Trigger, parse_cron, parse_schedule


def us(text: str) -> int:
    return to_micros(datetime.fromisoformat(text).replace(tzinfo=UTC))


@pytest.mark.parametrize("text", ["on_advance", "every 30s", "every 2h", "cron 0 * * * *", "downstream", "manual"])
def test_a_schedule_is_written_as_it_is_read(text: str) -> None:
    assert parse_schedule(text).text == text


@pytest.mark.parametrize("text", ["on_advance", "downstream", "manual"])
def test_no_clock_makes_those_due_that_have_none(text: str) -> None:
    assert parse_schedule(text).next_due_us(None) is None
    assert parse_schedule(text).next_due_us(5) is None


def test_what_was_left_out_is_on_advance() -> None:
    assert Schedule().trigger is Trigger.ON_ADVANCE


def test_an_interval_runs_from_the_last_refresh() -> None:
    every = parse_schedule("every 30s")
    assert (every.next_due_us(None), every.next_due_us(1_000_000)) == (0, 31_000_000)


@pytest.mark.parametrize(
    ("line", "after", "due"),
    [
        ("0 * * * *", "2026-03-01T12:00:00", "2026-03-01T13:00:00"),
        ("0 * * * *", "2026-03-01T12:59:59", "2026-03-01T13:00:00"),
        ("*/15 9-17 * * 1-5", "2026-02-27T17:45:00", "2026-03-02T09:00:00"),  # a Friday evening
        ("30 6 * * 7", "2026-03-01T06:30:00", "2026-03-08T06:30:00"),  # 7 is a Sunday as well as 0
        ("0 0 31 * *", "2026-01-31T00:00:00", "2026-03-31T00:00:00"),
        ("0 0 29 2 *", "2026-03-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 13 * 5", "2026-03-01T00:00:00", "2026-03-06T00:00:00"),  # either of them is enough
        ("5,10 0 1 1 *", "2026-12-31T23:59:00", "2027-01-01T00:05:00"),
        ("58/1 23 31 12 *", "2026-12-31T23:58:00", "2026-12-31T23:59:00"),
    ],
)
def test_a_cron_line_names_its_next_minute(line: str, after: str, due: str) -> None:
    assert parse_cron(line).next_after(us(after)) == us(due)


def test_a_table_of_cron_that_was_never_refreshed_is_due() -> None:
    assert parse_schedule("cron 0 0 1 1 *").next_due_us(None) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("every 0s", "would never rest"),
        ("every 30", "duration"),
        ("cron 0 * * *", "has 4 fields, not 5"),
        ("cron 60 * * * *", "lies outside 0 to 59"),
        ("cron */0 * * * *", "is not a minute"),
        ("cron 5-1 * * * *", "is not a minute"),
        ("cron 0 0 31 2 *", "names no day that exists"),
        ("cron 0 0 * * MON", "is not a weekday"),
        ("hourly", "is not one of on_advance"),
        ("", "is not one of on_advance"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_schedule(text)
