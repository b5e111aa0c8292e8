"""Watermark values: what is written is read, what is read is one moment, and kinds never mix."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.clock import to_micros
from tidegate.progress.watermarks import ValueKind, Vector, Watermark, format_micros, parse_watermark

AWARE = st.datetimes(
    min_value=datetime(2, 1, 1),
    max_value=datetime(9998, 12, 31),
    timezones=st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-839, 839)),
)
MICROS = AWARE.map(to_micros)
WATERMARK = st.builds(Watermark.of_micros, MICROS) | st.builds(Watermark.of_integer, st.integers(-(2**63), 2**63))
VECTOR = st.dictionaries(st.sampled_from("abcd"), st.builds(Watermark.of_integer, st.integers(0, 5))).map(Vector)


@given(AWARE)
def test_a_time_is_written_in_utc_and_read_back(moment: datetime) -> None:
    """Exactly; and its text is what Python understands too."""
    text = format_micros(to_micros(moment))
    assert parse_watermark(text) == parse_watermark(text, ValueKind.TIMESTAMP) == Watermark.of_micros(to_micros(moment))
    assert datetime.fromisoformat(text) == moment
    assert text.endswith("Z")


@given(AWARE)
def test_a_time_is_read_as_others_write_it(moment: datetime) -> None:
    """With an offset, a space, or to the minute."""
    assert parse_watermark(moment.isoformat()).value == to_micros(moment)
    assert parse_watermark(f" {moment.isoformat(sep=' ')} ").value == to_micros(moment)
    minute = moment.replace(second=0, microsecond=0)
    assert parse_watermark(minute.isoformat(timespec="minutes")).value == to_micros(minute)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (to_micros(datetime(2026, 3, 1, 12, 5, tzinfo=UTC)), "2026-03-01T12:05:00Z"),
        (to_micros(datetime(2026, 3, 1, 12, 4, 59, 999_999, tzinfo=UTC)), "2026-03-01T12:04:59.999999Z"),
        (to_micros(datetime(2026, 3, 1, 12, 5, 0, 500_000, tzinfo=UTC)), "2026-03-01T12:05:00.5Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (to_micros(datetime(1, 1, 1, tzinfo=UTC)) - 30_000_000, "0000-12-31T23:59:30Z"),
        (to_micros(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) + 1_000_000, "+10000-01-01T00:00:00Z"),
    ],
)
def test_times_are_printed_with_as_many_digits_as_needed(micros: int, text: str) -> None:
    """Also those that no calendar of Python has."""
    assert format_micros(micros) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_of_64_bits_has_a_text(micros: int) -> None:
    """A status must not fail because of a sentinel in somebody's rows."""
    assert format_micros(micros).endswith("Z")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("2026-03-01", "write 2026-03-01T00:00:00Z"),
        ("2026-03-01T12:05:00", "write 2026-03-01T12:05:00Z"),
        ("2026-03-01 12:05", "write 2026-03-01T12:05:00Z"),
        ("2026-03-01T12:05:00.1234567Z", "write 2026-03-01T12:05:00.123456Z"),
        ("1200", "write it like 2026-03-01T12:05:00Z"),
        ("2026-02-30T00:00:00Z", "write it like 2026-03-01T12:05:00Z"),
        ("2026-03-01T12:05.5Z", "write it like"),
        ("now", "write it like"),
        ("", "write it like"),
        ("2026-03-01T25:00:00Z", "write it like"),
    ],
)
def test_what_is_refused_is_refused_with_the_spelling_that_works(text: str, advice: str) -> None:
    """Naive times and bare dates above all."""
    with pytest.raises(ValueError, match="write") as refused:
        parse_watermark(text, ValueKind.TIMESTAMP)
    assert advice in str(refused.value)


@pytest.mark.parametrize("text", ["2026-03-01", "2026-03-01T12:05:00", "2026-03-01 12:05"])
def test_the_advice_works(text: str) -> None:
    """What the refusal says to write is accepted."""
    with pytest.raises(ValueError, match="write") as refused:
        parse_watermark(text)
    advised = str(refused.value).split("write ")[1].split(",")[0]
    assert parse_watermark(advised).kind is ValueKind.TIMESTAMP


@given(st.integers())
def test_integers_are_read_back(value: int) -> None:
    """Guessed from the digits, or asked for."""
    assert (
        parse_watermark(str(value)) == parse_watermark(f" {value} ", ValueKind.INTEGER) == Watermark.of_integer(value)
    )


@pytest.mark.parametrize("text", ["2026-03-01T12:05:00Z", "1.5", "1e3", "0x10", "", "1_000", "٣"])
def test_an_integer_watermark_takes_integers_only(text: str) -> None:
    """And says so."""
    with pytest.raises(ValueError, match="not an integer"):
        parse_watermark(text, ValueKind.INTEGER)


@given(WATERMARK, WATERMARK)
def test_one_kind_is_ordered_and_two_never_mix(a: Watermark, b: Watermark) -> None:
    """By value; across kinds every order is an error, and equality is not."""
    assert (a == b) is ((a.kind, a.value) == (b.kind, b.value))
    orders: list[Callable[[Watermark, Watermark], object]] = [operator.lt, operator.le, operator.gt, operator.ge]
    for order in orders:
        if a.kind is b.kind:
            assert order(a, b) is order(a.value, b.value)  # type: ignore[arg-type]
        else:
            with pytest.raises(errors.MixedKinds):
                order(a, b)
    if a.kind is b.kind:
        assert a.minus(b) == a.value - b.value
    else:
        with pytest.raises(errors.MixedKinds):
            a.minus(b)


@given(WATERMARK)
def test_a_watermark_survives_its_document_and_its_text(watermark: Watermark) -> None:
    """With its kind."""
    assert Watermark.from_json(watermark.to_json()) == watermark
    assert parse_watermark(watermark.text, watermark.kind) == watermark
    assert list(watermark.to_json()) == [watermark.kind.value]


@pytest.mark.parametrize(
    "document", [{}, {"timestamp": 1, "integer": 1}, {"date": 1}, {"integer": "1"}, {"integer": True}]
)
def test_a_document_that_is_no_watermark_is_refused(document: dict[str, int]) -> None:
    """Not read as something else."""
    with pytest.raises(ValueError, match=r"."):
        Watermark.from_json(document)


@given(VECTOR, VECTOR)
def test_what_two_vectors_contain_together(a: Vector, b: Vector) -> None:
    """Every source of either; the lower value of one that is in both; the order does not matter."""
    both = a.merged(b)
    assert set(both) == set(a) | set(b)
    assert all(both[name] == min(v[name] for v in (a, b) if name in v) for name in both)
    assert both == b.merged(a)
    assert a.merged(a) == a.merged(Vector()) == a


@given(VECTOR)
def test_a_vector_is_a_value(vector: Vector) -> None:
    """Equal and equal-hashed however it was made; it survives its document."""
    again = Vector(list(reversed(list(vector.items()))))
    assert (again, hash(again)) == (vector, hash(vector))
    assert Vector.from_json(vector.to_json()) == vector == dict(vector)
    assert list(vector) == sorted(vector)


def test_a_vector_does_not_change_with_what_it_was_made_of() -> None:
    """It is frozen."""
    made_of = {"a": Watermark.of_integer(1)}
    vector = Vector(made_of)
    made_of["b"] = Watermark.of_integer(2)
    assert list(vector) == ["a"]


def test_the_same_source_cannot_be_of_two_kinds() -> None:
    """Not even in two inputs of a table."""
    with pytest.raises(errors.MixedKinds):
        Vector({"a": Watermark.of_integer(1)}).merged({"a": Watermark.of_micros(1)})
