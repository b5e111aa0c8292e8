"""The scripted source: what its marks do to whoever reads it. Rows need Spark; these are its numbers."""

from __future__ import annotations

import pytest

from tidegate import errors
from tidegate.progress.ranges import Range, RangeSet
from tidegate.testing.sources import CRASH, EOF, PAUSE, Script, ScriptedSource

ALL = Range(0, 100)


def rows(number: int) -> list[dict[str, int]]:
    return [{"id": number}]


def source(script: Script) -> ScriptedSource:
    return ScriptedSource(script, "id BIGINT")


def test_what_is_behind_the_end_of_a_run_is_seen_by_the_next() -> None:
    script = Script([rows(0), EOF, rows(1)])
    first = source(script)
    assert first.discover(ALL).numbers == RangeSet.of(0)
    assert first.discover(ALL).numbers == RangeSet.of(0)
    assert source(script).discover(ALL).numbers == RangeSet.of(0, 1)


def test_each_run_passes_one_end() -> None:
    script = Script([rows(0), EOF, rows(1), EOF, rows(2)])
    assert [source(script).discover(ALL).highest for _ in range(4)] == [0, 1, 2, 2]


def test_a_pause_holds_until_it_is_resumed_and_a_new_run_does_not_end_it() -> None:
    script = Script([rows(0), PAUSE, rows(1)])
    assert source(script).discover(ALL).highest == 0
    playing = source(script)
    assert playing.discover(ALL).highest == 0
    script.resume()
    assert playing.discover(ALL).highest == 1


def test_a_crash_hides_nothing_and_strikes_once() -> None:
    script = Script([rows(0), CRASH, rows(1)], first=7)
    assert source(script).discover(ALL).numbers == RangeSet.of(7, 8)
    assert not script.crash_before(7)
    assert script.crash_before(8)
    assert not script.crash_before(8)


def test_a_number_that_has_not_arrived_is_a_hole() -> None:
    script = Script([rows(0), rows(1), rows(2)], missing=RangeSet.of(1))
    playing = source(script)
    assert playing.discover(ALL).numbers == RangeSet.of(0, 2)
    script.arrive(1)
    assert playing.discover(ALL).numbers == RangeSet.of(Range(0, 3))


def test_a_checkpoint_that_changed_does_not_verify() -> None:
    script = Script([rows(0), rows(1)])
    playing = source(script)
    slices = playing.slices(RangeSet.of(0, 1))
    playing.verify(slices)
    script.change(1)
    playing.verify(slices[:1])
    with pytest.raises(errors.SourceChanged):
        playing.verify(slices)
