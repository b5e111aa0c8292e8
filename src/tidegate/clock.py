"""The only place that asks for the time. Everything else is handed a `Clock`."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Tells the time and waits. `tidegate.testing.ManualClock` is the other one."""

    def now(self) -> datetime:
        """The wall-clock time, in UTC, with microseconds."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; for durations within one process."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until the event is set or the time has passed; true when it was set."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(timeout_s)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 in UTC. A naive time is refused: nobody knows what it means."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The UTC time of so many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)
