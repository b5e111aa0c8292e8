"""Whether something that failed is tried again, and when."""

from __future__ import annotations

import random
from enum import Enum
from typing import TypeAlias

from tidegate.quick import dataclass


class Severity(Enum):
    """Whether trying again may help."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Do not try again, and why."""

    reason: str


Retry: TypeAlias = RetryIn | GiveUp


def decide_retry(budget: RetryBudget, attempt: int, severity: Severity, rng: random.Random) -> Retry:
    """What to do after try number `attempt`, counted from 1, has failed.

    Full jitter: the wait is anything from nothing to a bound that doubles with each try, so that many
    that failed together do not come back together.
    """
    if severity is Severity.PERMANENT:
        return GiveUp(reason="trying again would not help")
    if attempt >= budget.attempts:
        return GiveUp(reason=f"it failed {attempt} {'time' if attempt == 1 else 'times'}")
    return RetryIn(wait_us=rng.randint(0, longest_wait_us(budget, attempt)))


def longest_wait_us(budget: RetryBudget, attempt: int) -> int:
    """The bound of the wait after try number `attempt`."""
    return min(budget.max_us, budget.base_us << min(max(attempt, 1) - 1, 64))
