"""A clock that moves only when it is told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from tidegate.clock import to_micros

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)

# How often a waiter looks whether its event was set: setting an event cannot wake somebody who waits for the clock.
_LOOK_S = 0.002


class ManualClock:
    """A `Clock` for tests: time stands still until `advance`; whoever waits wakes when its time has come.

    With `passes_by_waiting` each wait lets its own time pass and returns at once: for code under test
    that waits on the test's own thread.
    """

    def __init__(self, start: datetime = _START, *, passes_by_waiting: bool = False) -> None:
        to_micros(start)  # refuses a naive time
        self._passes_by_waiting = passes_by_waiting
        self._now = start.astimezone(UTC)
        self._elapsed_us = 0
        self._moved = threading.Condition()

    def now(self) -> datetime:
        """The time it was told."""
        with self._moved:
            return self._now

    def monotonic(self) -> float:
        """Seconds it has been advanced in all."""
        with self._moved:
            return self._elapsed_us / 1_000_000

    def advance(self, micros: int) -> None:
        """Let so many microseconds pass."""
        if micros < 0:
            raise ValueError("time does not go back; use set_now for a wall clock that is corrected")
        with self._moved:
            self._now += timedelta(microseconds=micros)
            self._elapsed_us += micros
            self._moved.notify_all()

    def set_now(self, moment: datetime) -> None:
        """Correct the wall clock, forward or back; no time passes."""
        to_micros(moment)
        with self._moved:
            self._now = moment.astimezone(UTC)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until the event is set or so much time was made to pass; true when it was set."""
        if self._passes_by_waiting:
            if not event.is_set():
                self.advance(round(timeout_s * 1_000_000))
            return event.is_set()
        with self._moved:
            until_us = self._elapsed_us + round(timeout_s * 1_000_000)
            while not event.is_set() and self._elapsed_us < until_us:
                self._moved.wait(_LOOK_S)
        return event.is_set()
