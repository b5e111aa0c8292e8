"""What loaders said: a value only rises, an equal one is a heartbeat, and nothing said is lost in a race."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import errors
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.sqlite import SqliteStore
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.sources import advances
from tidegate.sources.advances import Advance, SourceDocument
from tidegate.testing.clock import ManualClock

INTEGER, TIMESTAMP = ValueKind.INTEGER, ValueKind.TIMESTAMP


def n(value: int) -> Watermark:
    return Watermark.of_integer(value)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(clock)


def test_nobody_ever_advanced_it(store: Store) -> None:
    """No document, no watermark."""
    assert advances.read(store, "fx") is None
    assert advances.watermark(None) is None


def test_an_advance_is_remembered_with_all_that_was_said(store: Store, clock: ManualClock) -> None:
    """What `advance` gives is what `read` gives later."""
    said = advances.advance(store, "fx", INTEGER, n(5), by="etl@host", version=3, ends={"0": 7})
    assert said == advances.read(store, "fx")
    at_us = said.heard_at_us
    assert said.log == (Advance(seq=1, value=n(5), at_us=at_us, by="etl@host", version=3, ends={"0": 7}),)
    assert (said.source, said.kind, said.heard_by) == ("fx", INTEGER, "etl@host")
    assert advances.watermark(said) == n(5)
    clock.advance(9)
    later = advances.advance(store, "fx", INTEGER, n(6), by="b")
    assert [(one.seq, one.at_us) for one in later.log] == [(1, at_us), (2, at_us + 9)]


def test_a_lower_value_is_refused_and_changes_nothing(store: Store) -> None:
    """The message has both values as people write them."""
    noon = Watermark.of_micros(1_772_366_400_000_000)
    before = advances.advance(store, "fx", TIMESTAMP, noon, by="a")
    with pytest.raises(errors.WatermarkBackwards) as refused:
        advances.advance(store, "fx", TIMESTAMP, Watermark.of_micros(noon.value - 1), by="b")
    assert refused.value.fields == {
        "source": "fx",
        "current": "2026-03-01T12:00:00Z",
        "asked": "2026-03-01T11:59:59.999999Z",
    }
    assert advances.read(store, "fx") == before


def test_an_equal_value_is_a_heartbeat(store: Store, clock: ManualClock) -> None:
    """No new entry and no new version in the history, but the loader was heard."""
    first = advances.advance(store, "fx", INTEGER, n(5), by="a", version=3)
    for _ in range(3):
        clock.advance(60_000_000)
        beat = advances.advance(store, "fx", INTEGER, n(5), by="b")
    assert beat.log == first.log
    assert (beat.heard_at_us, beat.heard_by) == (first.heard_at_us + 180_000_000, "b")
    advances.advance(store, "fx", INTEGER, n(5), by="b", version=3)
    advances.advance(store, "fx", INTEGER, n(6), by="a")
    assert [info.version for info in store.versions(advances.key("fx"))] == [1, 6]


def test_an_equal_value_with_another_version_binds_it_anew(store: Store) -> None:
    """A table loaded again is complete to the same point at another version."""
    for version in (3, 4):
        said = advances.advance(store, "fx", INTEGER, n(5), by="a", version=version)
    assert [(one.seq, one.value, one.version) for one in said.log] == [(1, n(5), 3), (2, n(5), 4)]


def test_values_of_another_kind_are_refused(store: Store) -> None:
    """Of what the source is declared as, and of what was said before it was declared otherwise."""
    with pytest.raises(errors.MixedKinds, match="source fx") as refused:
        advances.advance(store, "fx", TIMESTAMP, n(5), by="a")
    assert "2026-" in refused.value.hint
    advances.advance(store, "fx", INTEGER, n(5), by="a")
    with pytest.raises(errors.MixedKinds):
        advances.advance(store, "fx", TIMESTAMP, Watermark.of_micros(5), by="a")


def test_parts_rise_on_their_own_and_the_least_counts(store: Store) -> None:
    """None until every declared part has spoken."""
    parts = ("eu", "us")
    said = advances.advance(store, "fx", INTEGER, n(5), by="a", parts=parts, part="eu")
    assert advances.watermark(said, parts) is None
    said = advances.advance(store, "fx", INTEGER, n(3), by="a", parts=parts, part="us")
    assert advances.watermark(said, parts) == n(3)
    said = advances.advance(store, "fx", INTEGER, n(9), by="a", parts=parts, part="us")
    assert advances.watermark(said, parts) == n(5)
    with pytest.raises(errors.WatermarkBackwards, match="part us"):
        advances.advance(store, "fx", INTEGER, n(8), by="a", parts=parts, part="us")
    assert advances.watermark(said, (*parts, "asia")) is None


@pytest.mark.parametrize(
    ("parts", "part", "told"),
    [
        (("eu", "us"), None, "no part was named"),
        (("eu", "us"), "EU", "partition EU of source fx"),
        ((), "eu", "partition eu of source fx"),
    ],
)
def test_a_part_that_is_none_is_refused(store: Store, parts: tuple[str, ...], part: str | None, told: str) -> None:
    """The hint names the parts there are."""
    with pytest.raises(errors.WatermarkError, match=told) as refused:
        advances.advance(store, "fx", INTEGER, n(5), by="a", parts=parts, part=part)
    assert ("eu, us" in refused.value.hint) == bool(parts)
    assert advances.read(store, "fx") is None


def test_fields_of_a_newer_tidegate_survive(store: Store) -> None:
    """Both of the document and of its entries."""
    advances.advance(store, "fx", INTEGER, n(5), by="a")
    found = store.get(advances.key("fx"))
    assert found is not None
    document = json.loads(found.body)
    document["new"] = [1]
    document["log"][0]["newer"] = {"x": None}
    store.put(advances.key("fx"), json.dumps(document).encode(), expect=1)
    advances.advance(store, "fx", INTEGER, n(6), by="a")
    found = store.get(advances.key("fx"))
    assert found is not None
    after = json.loads(found.body)
    assert after["new"] == [1]
    assert [entry.get("newer") for entry in after["log"]] == [{"x": None}, None]


ENTRIES = st.lists(
    st.tuples(st.sampled_from([None, "eu", "us"]), st.integers(0, 30), st.sampled_from([None, 1, 2])), max_size=40
)


@given(ENTRIES)
def test_a_watermark_never_falls(entries: list[tuple[str | None, int, int | None]]) -> None:
    """And is the highest value that was accepted, for each part; refused ones leave no trace."""
    document = SourceDocument(source="fx", kind=INTEGER)
    highest: dict[str | None, int] = {}
    for seq, (part, value, version) in enumerate(entries, 1):
        said = Advance(seq=seq, value=n(value), at_us=seq, by="a", part=part, version=version)
        try:
            document = advances.advanced(document, said)
        except errors.WatermarkBackwards:
            assert value < highest[part]
        else:
            assert value >= highest.get(part, 0)
            highest[part] = value
        for known, best in highest.items():
            newest = document.newest(known)
            assert newest is not None
            assert newest.value == n(best)
        assert SourceDocument.from_body(document.to_body()) == document


@given(
    st.lists(st.sampled_from(["eu", "us", "asia"]), max_size=60),
    st.integers(4, 12),
)
def test_the_log_is_bounded_and_keeps_each_parts_last(parts: list[str], most: int) -> None:
    """Thinned, never reordered; what is left is what was said; the newest half is whole."""
    log: tuple[Advance, ...] = ()
    full: list[Advance] = []
    for seq, part in enumerate(parts, 1):
        full.append(Advance(seq=seq, value=n(seq), at_us=seq, by="a", part=part))
        log = advances.thinned((*log, full[-1]), most)
        assert len(log) <= max(most, 2 * len(set(parts)) + 1)
        assert [one for one in full if one in log] == list(log)
        assert {one.part: one.seq for one in log} == {one.part: one.seq for one in full}
        assert log[-(most // 2) :] == tuple(full[-(most // 2) :]) or len(full) <= most


def test_a_full_log_takes_more(store: Store) -> None:
    """Long after the bound the document is small and right."""
    known = SourceDocument(source="fx", kind=INTEGER)
    for seq in range(1, advances.MAX_LOG + 300):
        known = advances.advanced(known, Advance(seq=seq, value=n(seq), at_us=seq, by="a"))
    store.put(advances.key("fx"), known.to_body())
    said = advances.advance(store, "fx", INTEGER, n(advances.MAX_LOG + 300), by="a")
    assert len(said.log) <= advances.MAX_LOG
    assert said.log[-1].seq == advances.MAX_LOG + 300
    assert advances.watermark(said) == n(advances.MAX_LOG + 300)


def test_processes_that_advance_together_lose_nothing(tmp_path: Path) -> None:
    """Each advances its own part; every entry is there, with a number of its own."""
    code = """
import sys
from pathlib import Path
from tidegate.ledger.sqlite import SqliteStore
from tidegate.progress.watermarks import ValueKind, Watermark
from tidegate.sources import advances
store = SqliteStore(Path(sys.argv[1]))
for value in range(30):
    advances.advance(store, "fx", ValueKind.INTEGER, Watermark.of_integer(value), by="x", parts=("a", "b"),
                     part=sys.argv[2])
"""
    path = tmp_path / "ledger.db"
    loaders = [subprocess.Popen([sys.executable, "-c", code, str(path), part]) for part in "ab"]
    assert [loader.wait(timeout=60) for loader in loaders] == [0, 0]
    document = advances.read(SqliteStore(path), "fx")
    assert document is not None
    assert [one.seq for one in document.log] == list(range(1, 61))
    for part in "ab":
        assert [one.value for one in document.log if one.part == part] == [n(value) for value in range(30)]
