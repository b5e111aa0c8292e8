"""The oracle of ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.testing import oracle

ids = st.lists(st.integers(0, 20))


@given(st.sets(st.integers()), st.randoms())
def test_each_id_once_in_any_order_is_clean(expected: set[int], random: object) -> None:
    assert oracle.judge(expected, list(expected)[::-1]).is_clean


@given(st.sets(st.integers(0, 20)), ids)
def test_it_finds_what_counting_finds(expected: set[int], found: list[int]) -> None:
    findings = oracle.judge(expected, found)
    assert set(findings.missing) == expected - set(found)
    assert set(findings.unexpected) == set(found) - expected
    assert set(findings.twice) == {one for one in expected if found.count(one) > 1}
    assert findings.is_clean == (sorted(found) == sorted(expected))


def test_what_is_expected_twice_must_be_there_twice() -> None:
    assert oracle.judge([1, 1], [1]).missing == (1,)
    assert oracle.judge([1, 1], [1, 1]).is_clean


def test_it_says_what_is_wrong() -> None:
    text = str(oracle.judge([1, 2, 3], [2, 2, 3, 9]))
    assert text == "1 missing: 1; 1 twice: 2; 1 unexpected: 9"
    assert "and 40 more" in str(oracle.judge(range(50), []))


def test_only_sinks_where_something_is_wrong_are_named() -> None:
    wrong = oracle.judge_sinks([1, 2], {"lake": [2, 1], "files": [1], "other": [1, 2, 2]})
    assert set(wrong) == {"files", "other"}
