"""Durations and sizes: what is written is read, what is read is written, the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.progress.durations import (
    BYTES,
    MICROS,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@given(st.integers(min_value=0, max_value=10**18))
def test_what_is_written_is_read_back(amount: int) -> None:
    """Exactly, for every duration and size."""
    assert parse_duration(format_duration(amount)) == amount
    assert parse_size(format_size(amount)) == amount


@given(st.integers(min_value=1, max_value=10**15))
def test_a_negative_duration_has_a_sign(amount: int) -> None:
    """For differences that are shown."""
    assert format_duration(-amount) == f"-{format_duration(amount)}"


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(sorted(MICROS))), min_size=1, max_size=4))
def test_a_sum_of_units_is_their_sum(pieces: list[tuple[int, str]]) -> None:
    """`1h30m`, in any order, spaces or none."""
    text = " ".join(f"{count}{unit}" for count, unit in pieces)
    wanted = sum(count * MICROS[unit] for count, unit in pieces)
    assert parse_duration(text.replace(" ", "")) == wanted
    assert parse_duration(f"  {pieces[0][0]} {pieces[0][1]} ") == pieces[0][0] * MICROS[pieces[0][1]]


@given(st.integers(0, 999), st.integers(0, 999), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_a_fraction_is_exact(whole: int, thousandths: int, unit: str) -> None:
    """No floating point on the way."""
    assert parse_duration(f"{whole}.{thousandths:03d}{unit}") == (whole * 1000 + thousandths) * MICROS[unit] // 1000


@pytest.mark.parametrize(
    ("text", "micros"),
    [("500ms", 500_000), ("30s", 30_000_000), ("5m", 300_000_000), ("2h", 7_200_000_000), ("30d", 30 * MICROS["d"]),
     ("0", 0), ("1h30m", 5_400_000_000), ("0.25ms", 250)],
)  # fmt: skip
def test_the_durations_of_the_documentation(text: str, micros: int) -> None:
    """As people write them."""
    assert parse_duration(text) == micros


@pytest.mark.parametrize(
    ("text", "size"), [("64KiB", 65_536), ("8MiB", 8_388_608), ("1GiB", 1 << 30), ("1.5GiB", 3 << 29), ("7B", 7)]
)
def test_the_sizes_of_the_documentation(text: str, size: int) -> None:
    """As people write them."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 parsecs", "s", "5s,", "5ss", "1e3s", "5KB", "٥ s x", "5s 3"])
def test_anything_else_is_refused_with_the_spelling_that_works(text: str) -> None:
    """A bare number too: nobody knows its unit."""
    with pytest.raises(ValueError, match="30s"):
        parse_duration(text)
    with pytest.raises(ValueError, match="8MiB"):
        parse_size(text)


def test_what_is_finer_than_can_be_kept_is_refused() -> None:
    """Rather than rounded."""
    with pytest.raises(ValueError, match="finer"):
        parse_duration("0.5us")


@pytest.mark.parametrize(("size", "text"), [(0, "0B"), (1536, "1536B"), (BYTES["MiB"] * 64, "64MiB")])
def test_sizes_are_shown_in_the_largest_unit_that_is_exact(size: int, text: str) -> None:
    """`64MiB`, and `1536B` rather than `1.5KiB`."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("micros", "text"), [(0, "0s"), (600_000_000, "10m"), (5_400_000_000, "1h30m"), (90_001_000, "1m30s1ms")]
)
def test_durations_are_shown_as_the_shortest_sum(micros: int, text: str) -> None:
    """`10m` and not `600s`."""
    assert format_duration(micros) == text


def test_units_of_size_are_powers_of_1024() -> None:
    """Each is 1,024 of the one before."""
    assert [parse_size(f"1{unit}") for unit in ("KiB", "MiB", "GiB", "TiB")] == [1024**n for n in (1, 2, 3, 4)]
