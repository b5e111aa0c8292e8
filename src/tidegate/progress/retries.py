"""Whether something that failed is tried again, and when; and what becomes of it if not."""

from __future__ import annotations

import random
from enum import Enum
from typing import TypeAlias, assert_never

from tidegate.quick import dataclass


class Severity(Enum):
    """What kind of failure it is: whether trying again may help, and how much is lost if not."""

    TRANSIENT = "transient"  #: it may pass by itself: a network, a disk, a busy server
    PERMANENT = "permanent"  #: this work will fail again: a schema, a transform
    POISON = "poison"  #: these rows will never pass, and the others of their checkpoint will
    FATAL = "fatal"  #: nothing more may be done: another runner took over, the ledger is corrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """How often a thing is tried in all, and how long the waits between grow."""

    attempts: int = 5
    base_us: int = 200_000
    max_us: int = 30_000_000

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"a retry budget of {self.attempts} attempts tries nothing; it must be at least 1")
        if not 0 <= self.base_us <= self.max_us:
            raise ValueError(
                f"the first wait of a retry budget ({self.base_us} us) exceeds the longest ({self.max_us} us)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryIn:
    """Try again after this wait."""

    wait_us: int

    def at_us(self, now_us: int) -> int:
        """When that is."""
        return now_us + self.wait_us


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Do not try again by itself, and why: a gap stays, visibly, until somebody mends it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Set these rows aside, and why: the rest of their checkpoint goes on without them."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End the run, and why: whatever else it did might do harm."""

    reason: str


Retry: TypeAlias = RetryIn | GiveUp | DeadLetter | Stop


def decide_retry(budget: RetryBudget, attempt: int, severity: Severity, rng: random.Random) -> Retry:
    """What to do after try number `attempt`, counted from 1, has failed.

    Full jitter: the wait is anything from nothing to a bound that doubles with each try, so that many
    that failed together do not come back together.
    """
    match severity:
        case Severity.FATAL:
            return Stop(reason="nothing more may be done")
        case Severity.POISON:
            return DeadLetter(reason="these rows will never pass")
        case Severity.PERMANENT:
            return GiveUp(reason="trying again would not help")
        case Severity.TRANSIENT:
            pass
        case _:
            assert_never(severity)
    if attempt >= budget.attempts:
        return GiveUp(reason=f"it failed {attempt} {'time' if attempt == 1 else 'times'}")
    return RetryIn(wait_us=rng.randint(0, longest_wait_us(budget, attempt)))


def longest_wait_us(budget: RetryBudget, attempt: int) -> int:
    """The bound of the wait after try number `attempt`."""
    return min(budget.max_us, budget.base_us << min(max(attempt, 1) - 1, 64))
