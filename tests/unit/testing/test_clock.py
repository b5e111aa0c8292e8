"""The manual clock: time passes when it is told to, and whoever waits wakes then."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.clock import Clock, SystemClock
from tidegate.testing.clock import ManualClock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_time_stands_still_until_it_is_moved() -> None:
    """Both clocks move together, exactly."""
    clock = ManualClock(START)
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    clock.advance(1_500_000)
    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=1.5), 1.5)


def test_the_wall_clock_can_be_corrected_and_no_time_passes() -> None:
    """As by NTP, back too."""
    clock = ManualClock(START)
    clock.set_now(START - timedelta(hours=1))
    assert (clock.now(), clock.monotonic()) == (START - timedelta(hours=1), 0.0)


def test_the_time_is_utc_whatever_it_was_started_with() -> None:
    """And a naive start is refused."""
    local = START.astimezone(timezone(timedelta(hours=5)))
    assert ManualClock(local).now().tzinfo is UTC
    with pytest.raises(ValueError, match="no time zone"):
        ManualClock(datetime(2026, 3, 1))
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock(START).advance(-1)


def waiting(clock: Clock, event: threading.Event, timeout_s: float) -> tuple[threading.Thread, list[bool]]:
    """Somebody who waits on another thread, and what came of it."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(clock.wait(event, timeout_s)))
    thread.start()
    return thread, answers


def test_a_waiter_wakes_when_its_time_was_made_to_pass() -> None:
    """And not before all of it has."""
    clock = ManualClock(START)
    thread, answers = waiting(clock, threading.Event(), 10)
    clock.advance(9_999_999)
    thread.join(0.02)
    assert thread.is_alive()
    while thread.is_alive():  # the waiter may have started to wait only after the first advance
        clock.advance(1)
        clock.advance(9_999_999)
        thread.join(0.01)
    assert answers == [False]


def test_a_waiter_wakes_when_its_event_is_set() -> None:
    """While time stands still."""
    clock, event = ManualClock(START), threading.Event()
    thread, answers = waiting(clock, event, 10)
    event.set()
    thread.join(10)
    assert (answers, clock.now()) == ([True], START)


def test_time_can_pass_by_waiting() -> None:
    """For code that waits on the test's own thread; not for what is there already."""
    clock, event = ManualClock(START, passes_by_waiting=True), threading.Event()
    assert clock.wait(event, 2.5) is False
    assert clock.monotonic() == 2.5
    event.set()
    assert clock.wait(event, 2.5) is True
    assert clock.monotonic() == 2.5


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(START)])
def test_both_clocks_keep_the_contract(clock: Clock) -> None:
    """UTC with microseconds; never back; an event that is set ends a wait at once."""
    event = threading.Event()
    event.set()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
    assert clock.wait(event, 3600) is True
    assert clock.wait(threading.Event(), 0) is False
