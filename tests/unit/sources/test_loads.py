"""The word in a commit of `tidegate.load`, heard when its process died before it told the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tables.lakes import World, n
from tidegate.progress.watermarks import Watermark
from tidegate.sources import advances, loads
from tidegate.sources.specs import ExternalSpec, WatermarkKind


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def fx(*parts: str) -> ExternalSpec:
    return ExternalSpec(name="fx", table="fx", watermark=WatermarkKind.INTEGER, parts=parts)


def hear(world: World, spec: ExternalSpec | None = None) -> list[tuple[int, int | None]]:
    document = loads.hear(world.store, spec or fx(), world.lake("fx"))
    assert document == advances.read(world.store, "fx")
    return [] if document is None else [(one.value.value, one.version) for one in document.log]


def test_a_load_that_died_is_heard_with_its_version_and_its_loader(world: World) -> None:
    world.append("fx")
    world.load("fx", 5)
    assert hear(world) == [(5, 1)]
    document = advances.read(world.store, "fx")
    assert document is not None
    assert document.log[0].by == "loader"
    assert hear(world) == [(5, 1)]


def test_what_the_ledger_was_told_is_not_told_again(world: World) -> None:
    world.advance("fx", 5, world.load("fx", 5))
    assert hear(world) == [(5, 0)]


def test_loads_since_the_last_one_that_was_told_are_heard_in_order(world: World) -> None:
    world.advance("fx", 5, world.load("fx", 5))
    world.load("fx", 6)
    world.append("fx", 'not json: "tidegate_load"')
    world.load("fx", 7)
    assert hear(world) == [(5, 0), (6, 1), (7, 3)]


def test_a_value_that_the_source_has_passed_changes_nothing(world: World) -> None:
    """Another loader told of a later version meanwhile, or somebody advanced by hand."""
    world.advance("fx", 9)
    world.load("fx", 6)
    assert hear(world) == [(9, None)]


def test_parts_are_heard_each_for_itself_and_strange_ones_not(world: World) -> None:
    world.load("fx", 5, "eu")
    world.load("fx", 6, "asia")
    world.load("fx", 7, "us")
    assert hear(world, fx("eu", "us")) == [(5, 0), (7, 2)]
    assert advances.watermark(advances.read(world.store, "fx"), ("eu", "us")) == n(5)


def test_a_word_about_another_source_or_of_another_kind_is_not_taken(world: World) -> None:
    (world.root / "fx").mkdir()
    world.load("fx", 5)
    entry = world.root / "fx/_delta_log/00000000000000000000.json"
    entry.write_text(entry.read_text().replace('\\"source\\": \\"fx\\"', '\\"source\\": \\"fy\\"'))
    assert hear(world) == []
    world.append("fx", loads.word("fx", advances.Advance(seq=0, value=Watermark.of_micros(5), at_us=1, by="x")))
    assert hear(world) == []


def test_commits_that_were_looked_through_are_not_looked_through_again(world: World) -> None:
    """A table that others write without a word is looked at at every step of a run."""
    world.load("fx", 5)
    world.append("fx")
    assert loads.hear(world.store, fx(), world.lake("fx"), after=0) is None
    assert hear(world) == [(5, 0)]


def test_there_is_nothing_to_hear_before_there_is_a_table(world: World) -> None:
    assert hear(world) == []
