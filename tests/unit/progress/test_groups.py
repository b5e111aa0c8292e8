"""Groups: whether sources agree, and the sentence when they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.progress.groups import Alignment, AtLeast, Group, Tolerance, alignment, parse_tolerance
from tidegate.progress.watermarks import ValueKind, Watermark, parse_watermark

PAIR = Group(name="order_pipeline", sources=("orders", "order_lines"))
NOON_US = parse_watermark("2026-03-01T12:00:00Z").value


def at(clock: str) -> Watermark:
    return parse_watermark(f"2026-03-01T{clock}Z")


def judged(group: Group = PAIR, now_us: int = NOON_US, tolerance: int | None = None, **values: str) -> Alignment:
    known = {name: None if text == "never" else at(text) for name, text in values.items()}
    return alignment(group, known, now_us, tolerance)


def test_the_example_of_the_seed_is_ten_minutes_apart() -> None:
    found = judged(orders="12:05:00", order_lines="11:55:00")
    assert not found.aligned
    assert (found.low, found.high, found.lag) == (at("11:55:00"), at("12:05:00"), 600_000_000)
    assert found.blocked_by == ("order_lines",)
    assert found.reason == "order_lines is 10m behind orders in group order_pipeline (tolerance 0s)"


def test_a_lag_of_exactly_the_tolerance_is_aligned() -> None:
    assert judged(tolerance=600_000_000, orders="12:05:00", order_lines="11:55:00").aligned
    assert not judged(tolerance=599_999_999, orders="12:05:00", order_lines="11:55:00").aligned


def test_a_member_that_never_reported_is_the_one_in_the_way() -> None:
    found = judged(orders="12:05:00", order_lines="never")
    assert (found.aligned, found.lag, found.low) == (False, None, at("12:05:00"))
    assert found.blocked_by == ("order_lines",)
    assert found.reason == "order_lines has not reported a watermark yet in group order_pipeline"


def test_members_that_are_not_asked_about_do_not_count() -> None:
    assert judged(orders="12:05:00").aligned


def test_a_group_of_one_closes_only_below_its_floor() -> None:
    rates = Group(name="rates", sources=("fx_rates",), at_least=AtLeast(now_minus_us=3_600_000_000))
    assert judged(rates, fx_rates="11:00:00").aligned
    late = judged(rates, fx_rates="10:59:59")
    assert late.blocked_by == ("fx_rates",)
    assert late.reason == (
        "fx_rates is complete to 2026-03-01T10:59:59Z, 1s short of group rates (at least 2026-03-01T11:00:00Z)"
    )


def test_integers_are_compared_as_numbers() -> None:
    group = Group(name="batches", sources=("a", "b"), tolerance=1)
    found = alignment(group, {"a": Watermark.of_integer(47), "b": Watermark.of_integer(44)}, 0)
    assert found.reason == "b is 3 behind a in group batches (tolerance 1)"


def test_times_and_integers_cannot_be_in_one_group() -> None:
    with pytest.raises(errors.MixedKinds, match="orders: timestamp, order_lines: integer"):
        alignment(PAIR, {"orders": at("12:00:00"), "order_lines": Watermark.of_integer(3)}, 0)


@pytest.mark.parametrize("values", [{"sources": ()}, {"sources": ("a", "a")}, {"sources": ("a",), "tolerance": -5}])
def test_a_group_that_cannot_be_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="group g"):
        Group(name="g", **values)  # type: ignore[arg-type]


def test_stuck_is_a_silence_longer_than_allowed() -> None:
    group = Group(name="g", sources=("a",), stuck_after_us=10)
    assert not group.is_stuck(90, 100)
    assert group.is_stuck(89, 100)
    assert not group.is_stuck(None, 100)
    assert not Group(name="g", sources=("a",)).is_stuck(0, 10**18)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.integers(0, 100))
def test_aligned_is_the_spread_within_the_tolerance(values: list[int], tolerance: int) -> None:
    sources = tuple(f"s{n}" for n in range(len(values)))
    group = Group(name="g", sources=sources, tolerance=tolerance)
    found = alignment(group, {s: Watermark.of_integer(v) for s, v in zip(sources, values, strict=True)}, 0)
    assert found.aligned == (max(values) - min(values) <= tolerance)
    assert set(found.behind) == {s for s, v in zip(sources, values, strict=True) if max(values) - v > tolerance}


def test_a_floor_is_a_value_or_a_time_before_now_and_says_which() -> None:
    fixed, moving = AtLeast(value=Watermark.of_integer(7)), AtLeast(now_minus_us=3_600_000_000)
    assert (fixed.text, fixed.floor(99)) == ("7", Watermark.of_integer(7))
    assert (moving.text, moving.floor(NOON_US)) == ("now - 1h", at("11:00:00"))
    assert AtLeast(now_minus_us=0).floor(5) == Watermark.of_micros(5)
    for wrong in ({}, {"value": Watermark.of_integer(7), "now_minus_us": 1}):
        with pytest.raises(ValueError, match="a value or a time before now"):
            AtLeast(**wrong)  # type: ignore[arg-type]


def test_a_tolerance_is_a_duration_or_a_number_and_zero_is_both() -> None:
    assert parse_tolerance("5") == Tolerance(amount=5, kind=ValueKind.INTEGER)
    assert parse_tolerance("30s") == Tolerance(amount=30_000_000, kind=ValueKind.TIMESTAMP)
    assert parse_tolerance("0") == parse_tolerance("0s") == Tolerance(amount=0, kind=None)
    with pytest.raises(ValueError, match="not a duration"):
        parse_tolerance("soon")


def test_all_who_never_reported_are_named() -> None:
    """As a sentence."""
    three = Group(name="three", sources=("a", "b", "c"))
    assert judged(three, a="never", b="never", c="never").reason == (
        "a, b and c have not reported a watermark yet in group three"
    )
