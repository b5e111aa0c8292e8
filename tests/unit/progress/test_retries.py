"""Retries: within the budget, within the bound, spread over all of it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress.retries import (
    DeadLetter,
    GiveUp,
    RetryBudget,
    RetryIn,
    Severity,
    Stop,
    decide_retry,
    longest_wait_us,
)

BUDGET = st.builds(
    lambda attempts, base, extra: RetryBudget(attempts=attempts, base_us=base, max_us=base + extra),
    st.integers(1, 50),
    st.integers(0, 10**6),
    st.integers(0, 10**9),
)


@given(BUDGET, st.integers(1, 60), st.integers())
def test_a_transient_failure_is_tried_again_while_the_budget_lasts(
    budget: RetryBudget, attempt: int, seed: int
) -> None:
    """The wait lies between nothing and a bound that doubles, up to the longest."""
    decided = decide_retry(budget, attempt, Severity.TRANSIENT, random.Random(seed))
    if attempt >= budget.attempts:
        assert isinstance(decided, GiveUp)
    else:
        assert isinstance(decided, RetryIn)
        assert 0 <= decided.wait_us <= min(budget.max_us, budget.base_us * 2 ** (attempt - 1))


@given(BUDGET, st.integers(1, 60), st.integers())
def test_only_what_may_pass_by_itself_is_tried_again(budget: RetryBudget, attempt: int, seed: int) -> None:
    """Whatever is left of the budget: poison goes aside, what will fail again is given up, what is fatal ends all."""
    answers = {Severity.PERMANENT: GiveUp, Severity.POISON: DeadLetter, Severity.FATAL: Stop}
    for severity, answer in answers.items():
        decided = decide_retry(budget, attempt, severity, random.Random(seed))
        assert type(decided) is answer


def test_a_retry_is_at_a_time() -> None:
    """The wait from now on."""
    assert RetryIn(wait_us=7).at_us(100) == 107


def test_the_bound_of_the_wait_doubles_up_to_the_longest() -> None:
    """The first is the base."""
    budget = RetryBudget(attempts=9, base_us=100, max_us=500)
    assert [longest_wait_us(budget, attempt) for attempt in (0, 1, 2, 3, 4, 5)] == [100, 100, 200, 400, 500, 500]


def test_the_budget_counts_tries_in_all() -> None:
    """Five attempts are four waits."""
    rng = random.Random(1)
    decided = [decide_retry(RetryBudget(), attempt, Severity.TRANSIENT, rng) for attempt in range(1, 6)]
    assert [type(one) for one in decided] == [RetryIn] * 4 + [GiveUp]
    assert decided[-1] == GiveUp(reason="it failed 5 times")


def test_waits_are_spread_over_the_whole_bound() -> None:
    """Full jitter: many that failed together come back at all times, the earliest half as often as the latest."""
    rng, budget = random.Random(7), RetryBudget(attempts=9, base_us=1_000_000, max_us=4_000_000)
    waits = [decide_retry(budget, 8, Severity.TRANSIENT, rng) for _ in range(4000)]
    quarters = [0] * 4
    for wait in waits:
        assert isinstance(wait, RetryIn)
        quarters[min(3, wait.wait_us // 1_000_000)] += 1
    assert all(850 < quarter < 1150 for quarter in quarters)


@given(BUDGET, st.integers(1, 60), st.integers())
def test_the_same_chance_decides_the_same(budget: RetryBudget, attempt: int, seed: int) -> None:
    """What `explain` shows is what happens."""
    first, again = (decide_retry(budget, attempt, Severity.TRANSIENT, random.Random(seed)) for _ in range(2))
    assert first == again


def test_a_very_late_attempt_waits_no_longer_than_the_longest() -> None:
    """Nor does its bound take a thousand digits to compute."""
    decided = decide_retry(RetryBudget(attempts=10**9), 10**8, Severity.TRANSIENT, random.Random(0))
    assert isinstance(decided, RetryIn)
    assert decided.wait_us <= 30_000_000


def test_a_budget_that_cannot_be_is_refused() -> None:
    """No attempts, or a first wait above the longest."""
    with pytest.raises(ValueError, match="at least 1"):
        RetryBudget(attempts=0)
    with pytest.raises(ValueError, match="exceeds the longest"):
        RetryBudget(base_us=2, max_us=1)
    with pytest.raises(ValueError, match="exceeds the longest"):
        RetryBudget(base_us=-1)
    assert RetryBudget(attempts=1, base_us=5, max_us=5).max_us == 5
