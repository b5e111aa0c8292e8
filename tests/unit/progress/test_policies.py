"""Commit policies by ranges, against asking each number which sinks have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress.policies import CommitPolicy
from tidegate.progress.ranges import Range, RangeSet

POLICY = st.sampled_from([CommitPolicy.all(), CommitPolicy.required()]) | st.builds(
    CommitPolicy.quorum, st.integers(1, 4)
)
SINKS = st.dictionaries(st.sampled_from("abcd"), st.booleans(), max_size=4)
DELIVERED = st.dictionaries(st.sampled_from("abcde"), st.sets(st.integers(0, 12)))


def passes(policy: CommitPolicy, number: int, delivered: dict[str, set[int]], required: dict[str, bool]) -> bool:
    """The slow model."""
    have = {name for name in required if number in delivered.get(name, set())}
    if policy.count is not None:
        return len(have) >= policy.count
    asked = {name for name, is_required in required.items() if is_required or policy.name == "all"}
    return bool(asked) and asked <= have


@given(POLICY, DELIVERED, SINKS)
def test_a_number_passes_when_the_sinks_that_the_policy_asks_have_it(
    policy: CommitPolicy, delivered: dict[str, set[int]], required: dict[str, bool]
) -> None:
    """Sinks that nobody declared do not count; sinks that delivered nothing do."""
    model = {number for number in range(13) if passes(policy, number, delivered, required)}
    ours = policy.committed({name: RangeSet.of(*numbers) for name, numbers in delivered.items()}, required)
    assert ours == RangeSet.of(*model)


@given(POLICY, SINKS, DELIVERED)
def test_a_policy_without_a_problem_commits_what_everybody_has_and_nothing_that_nobody_has(
    policy: CommitPolicy, required: dict[str, bool], delivered: dict[str, set[int]]
) -> None:
    """And one with a problem would commit nothing, ever."""
    everybody = dict.fromkeys(required, RangeSet.of(1, 2))
    if policy.problem(required) is None:
        assert policy.committed(everybody, required) == RangeSet.of(1, 2)
    else:
        assert policy.committed(everybody, required) == RangeSet()
    somebody = RangeSet.of(*(number for numbers in delivered.values() for number in numbers))
    sets = {name: RangeSet.of(*numbers) for name, numbers in delivered.items()}
    assert not policy.committed(sets, required) - somebody


@pytest.mark.parametrize(
    ("policy", "sinks", "problem"),
    [
        (CommitPolicy.all(), {}, "has no sinks"),
        (CommitPolicy.required(), {"a": False}, "none of its sinks is required"),
        (CommitPolicy.quorum(3), {"a": True, "b": True}, "a quorum of 3, but only 2 sinks"),
        (CommitPolicy.quorum(2), {"a": True}, "a quorum of 2, but only 1 sink"),
        (CommitPolicy.quorum(0), {"a": True}, "at least 1"),
        (CommitPolicy.quorum(-1), {"a": True}, "at least 1"),
    ],
)
def test_an_impossible_policy_says_why(policy: CommitPolicy, sinks: dict[str, bool], problem: str) -> None:
    """When the project loads, not when it has run for a day."""
    assert problem in (policy.problem(sinks) or "")


def test_a_quorum_may_be_one_of_one_and_all_of_all() -> None:
    """The edges of what is possible."""
    assert CommitPolicy.quorum(1).problem({"a": False}) is None
    assert CommitPolicy.quorum(2).problem({"a": False, "b": False}) is None
    assert CommitPolicy.required().problem({"a": False, "b": True}) is None


def test_a_policy_has_the_name_of_the_settings() -> None:
    """`quorum` and its count are two settings."""
    policies = [CommitPolicy.all(), CommitPolicy.required(), CommitPolicy.quorum(2)]
    assert [policy.name for policy in policies] == ["all", "required", "quorum"]
    assert [str(policy) for policy in policies] == ["all", "required", "quorum(2)"]


def test_a_quorum_of_a_billion_numbers_is_as_quick_as_of_ten() -> None:
    """By ranges, never by number."""
    far = {"a": RangeSet.of(Range(0, 10**9)), "b": RangeSet.of(Range(5, 10**9)), "c": RangeSet.of(Range(0, 7))}
    assert CommitPolicy.quorum(2).committed(far, dict.fromkeys("abc", True)) == RangeSet.of(Range(0, 10**9))
    assert CommitPolicy.quorum(3).committed(far, dict.fromkeys("abc", True)) == RangeSet.of(Range(5, 7))
