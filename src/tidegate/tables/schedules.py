"""When a table asks to be refreshed. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum

from tidegate.clock import from_micros, to_micros
from tidegate.progress.durations import format_duration, parse_duration
from tidegate.quick import dataclass

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_SEARCH_DAYS = 366 * 8 + 2  # a leap day that falls on a given weekday may be that far away


class Trigger(Enum):
    """What makes a table due."""

    ON_ADVANCE = "on_advance"
    EVERY = "every"
    CRON = "cron"
    DOWNSTREAM = "downstream"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """The five fields of a crontab line, as the sets of values they allow; UTC."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def next_after(self, moment_us: int) -> int:
        """The first minute strictly after the moment that the line names, as micros."""
        start = from_micros(moment_us).replace(second=0, microsecond=0) + timedelta(minutes=1)
        for offset in range(_SEARCH_DAYS):
            day = (start + timedelta(days=offset)).date()
            if self._allows(day.month, day.day, day.isoweekday() % 7):
                first = start.hour * 60 + start.minute if offset == 0 else 0
                minute = self._minute_of_day(first)
                if minute is not None:
                    return to_micros(datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minute))
        raise ValueError(f"cron {self.text} names no day that exists")

    def _allows(self, month: int, day: int, weekday: int) -> bool:
        if month not in self.months:
            return False
        by_day, by_weekday = day in self.days, weekday in self.weekdays
        # As every cron does: where both fields are given, either of them is enough.
        if len(self.days) < 31 and len(self.weekdays) < 7:
            return by_day or by_weekday
        return by_day and by_weekday

    def _minute_of_day(self, first: int) -> int | None:
        return min((h * 60 + m for h in self.hours for m in self.minutes if h * 60 + m >= first), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a table is due. `every_us` belongs to EVERY, `cron` to CRON."""

    trigger: Trigger = Trigger.ON_ADVANCE
    every_us: int | None = None
    cron: Cron | None = None

    def next_due_us(self, last_us: int | None) -> int | None:
        """When the clock makes it due after a refresh at `last_us`; None where no clock does."""
        if self.trigger is Trigger.EVERY and self.every_us is not None:
            return 0 if last_us is None else last_us + self.every_us
        if self.trigger is Trigger.CRON and self.cron is not None:
            return 0 if last_us is None else self.cron.next_after(last_us)
        return None

    @property
    def text(self) -> str:
        """As it is written in a table's file."""
        if self.every_us is not None:
            return f"every {format_duration(self.every_us)}"
        return f"cron {self.cron.text}" if self.cron is not None else self.trigger.value


def parse_schedule(text: str) -> Schedule:
    """`on_advance | every 30s | cron 0 * * * * | downstream | manual`; ValueError says what is wrong."""
    word, _, rest = text.strip().partition(" ")
    if word == "every":
        every_us = parse_duration(rest.strip())
        if every_us <= 0:
            raise ValueError(f"every {rest.strip()} would never rest; give a duration above 0s")
        return Schedule(trigger=Trigger.EVERY, every_us=every_us)
    if word == "cron":
        return Schedule(trigger=Trigger.CRON, cron=parse_cron(rest.strip()))
    try:
        return Schedule(trigger=Trigger(text.strip()))
    except ValueError:
        raise ValueError(f"{text!r} is not one of on_advance, every 30s, cron 0 * * * *, downstream, manual") from None


def parse_cron(text: str) -> Cron:
    """The crontab line as a value; ValueError names the field that is wrong."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"cron {text!r} has {len(fields)} fields, not 5: minute hour day month weekday")
    minutes, hours, days, months, weekdays = (
        _parse_field(field, name, low, high) for field, (name, low, high) in zip(fields, _FIELDS, strict=True)
    )
    cron = Cron(
        text=" ".join(fields),
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
    )
    cron.next_after(0)  # a line such as `0 0 31 2 *` never comes; refuse it at birth
    return cron


def _parse_field(field: str, name: str, low: int, high: int) -> frozenset[int]:
    try:
        values = frozenset(value for item in field.split(",") for value in _parse_item(item, low, high))
    except ValueError:
        raise ValueError(f"cron: {field!r} is not a {name} ({low} to {high}, *, a-b, */n, lists of them)") from None
    if not values or min(values) < low or max(values) > high:
        raise ValueError(f"cron: {field!r} is not a {name}: it lies outside {low} to {high}")
    return values


def _parse_item(item: str, low: int, high: int) -> range:
    span, _, step = item.partition("/")
    if span == "*":
        first, last = low, high
    else:
        first_text, dash, last_text = span.partition("-")
        first = int(first_text)
        last = int(last_text) if dash else (high if step else first)
    return range(first, last + 1, int(step) if step else 1)
