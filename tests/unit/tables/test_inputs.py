"""Which versions of an input could be read, and what each is complete through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tables.lakes import World, n, vector
from tidegate.lake.log import Kind
from tidegate.progress.cut import Choice, InputState, Mode
from tidegate.progress.watermarks import ValueKind
from tidegate.sources.advances import Advance, SourceDocument, advanced
from tidegate.tables import inputs
from tidegate.tables.graph import Input, InputKind

ORDERS = Input(name="orders", kind=InputKind.PIPELINE, table="orders", roots=frozenset({"orders"}))
FX = Input(name="fx", kind=InputKind.EXTERNAL, table="fx", roots=frozenset({"fx"}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def orders(
    world: World,
    mode: Mode = Mode.HOLD_BACK,
    *,
    frontier: int | None = None,
    advanced: bool = False,
    retained: bool = False,
    whole_from: int | None = None,
) -> InputState:
    return inputs.of_lake(
        ORDERS,
        world.lake("orders"),
        mode=mode,
        frontier=frontier,
        advanced=advanced,
        retained=retained,
        whole_from=whole_from,
    )


def fx(
    world: World,
    *said: Advance,
    mode: Mode = Mode.GATE,
    parts: tuple[str, ...] = (),
    frontier: int | None = None,
    gone: int | None = None,
) -> InputState:
    document = heard(*said) if said else None
    return inputs.of_external(FX, world.lake("fx"), document, mode=mode, parts=parts, frontier=frontier, gone=gone)


def heard(*said: Advance) -> SourceDocument:
    document = SourceDocument(source="fx", kind=ValueKind.INTEGER)
    for one in said:
        document = advanced(document, one)
    return document


def says(value: int, version: int | None, part: str | None = None) -> Advance:
    return Advance(seq=1, value=n(value), at_us=value, by="loader", version=version, part=part)


def seen(state: InputState) -> list[tuple[int, int | None, bool]]:
    """Version, watermark, and whether rows beyond it may be in it."""
    found = []
    for one in state.choices:
        value = next(iter(one.vector.values()), None)
        found.append((one.version, None if value is None else value.value, one.holds_more))
    return found


# lake tables


def test_a_lake_table_that_is_not_there_has_no_versions(world: World) -> None:
    assert orders(world) == InputState(name="orders", roots=frozenset({"orders"}))


def test_who_reads_the_newest_gets_the_newest_change_and_who_is_held_back_every_one(world: World) -> None:
    """Commits that change no row and no claim are not versions to be read."""
    world.publish("orders", 1)
    world.publish("orders", 2)
    world.commit("orders", Kind.CLAIM)
    assert seen(orders(world, Mode.GATE)) == [(1, 2, False)]
    assert seen(orders(world)) == [(0, 1, False), (1, 2, False)]


def test_from_the_frontier_on(world: World) -> None:
    for value in range(5):
        world.publish("orders", value)
    assert seen(orders(world, frontier=3)) == [(3, 3, False), (4, 4, False)]


def test_of_versions_with_one_watermark_that_a_loader_raised_only_the_first_holds_nothing_beyond(world: World) -> None:
    """Rows come before the word about them. A watermark that is made from the rows comes with them."""
    for value in (1, 1, 2):
        world.publish("orders", value)
    assert [one[2] for one in seen(orders(world, advanced=True))] == [False, True, False]
    assert [one[2] for one in seen(orders(world, advanced=True, frontier=1))] == [True, False]
    assert [one[2] for one in seen(orders(world, advanced=False))] == [False, False, False]


def test_a_log_that_went_back_closes_the_gate(world: World) -> None:
    world.publish("orders", 1)
    state = orders(world, frontier=7)
    assert state.problem is not None
    assert state.problem.text == "orders is at version 0, below version 7 that was read before"


def test_a_commit_of_somebody_else_closes_the_gate(world: World) -> None:
    world.publish("orders", 1)
    world.append("orders")
    state = orders(world)
    assert state.problem is not None
    assert "committed by somebody else" in state.problem.text


def test_an_entry_that_cannot_be_read_closes_the_gate(world: World) -> None:
    world.publish("orders", 1)
    world.publish("orders", 2)
    entry = world.root / "orders/_delta_log/00000000000000000001.json"
    entry.write_text(entry.read_text().replace('\\"tidegate\\":1', '\\"tidegate\\":99'))
    world.tables.clear()
    broken = orders(world).problem
    assert broken is not None
    assert "newer Tidegate" in broken.text


def test_a_prune_is_no_change_to_who_counts_what_was_there_before(world: World) -> None:
    """Unless the table is over what is retained."""
    world.publish("orders", 1)
    world.publish("orders", 2)
    world.prune("orders", "data/0.parquet", reader_lo=1)
    for mode in (Mode.GATE, Mode.HOLD_BACK):
        assert seen(orders(world, mode, frontier=1)) == [(1, 2, False)]
        assert seen(orders(world, mode, frontier=1, retained=True)) == [(1, 2, False), (2, 2, False)]


@pytest.mark.parametrize("mode", [Mode.NONE, Mode.GATE, Mode.HOLD_BACK])
def test_a_first_refresh_reads_nothing_that_readers_have_given_up(world: World, mode: Mode) -> None:
    """Nobody has pinned the files below the prune: they may be deleted already."""
    world.publish("orders", 1)
    world.publish("orders", 2)
    world.prune("orders", "data/0.parquet", reader_lo=1)
    assert seen(orders(world, mode)) == [(2, 2, False)]
    world.publish("orders", 3, reader_lo=1)
    assert seen(orders(world, mode))[-1] == (3, 3, False)
    assert seen(orders(world, mode))[0][0] >= 2


def test_what_is_pinned_for_a_first_refresh_is_offered(world: World) -> None:
    world.publish("orders", 1)
    world.publish("orders", 2)
    world.prune("orders", "data/0.parquet", reader_lo=1)
    assert [one[0] for one in seen(orders(world, whole_from=1))] == [1, 2]


def test_versions_that_were_cleaned_away_are_not_offered(world: World) -> None:
    for value in range(4):
        world.publish("orders", value)
    assert [one[0] for one in seen(orders(world, frontier=0, whole_from=2))] == [2, 3]


def test_rows_beyond_are_passed_on(world: World) -> None:
    """A table that read a version with rows beyond its vector has such rows too."""
    world.publish("orders", 1, extra={inputs.HOLDS_MORE: True})
    assert seen(orders(world)) == [(0, 1, True)]


# external tables


def test_an_external_table_that_is_not_there_has_no_versions(world: World) -> None:
    assert fx(world, says(1, 0)).choices == ()


def test_only_versions_that_an_advance_names_are_read(world: World) -> None:
    for _ in range(4):
        world.append("fx")
    assert seen(fx(world, says(1, 0), says(2, 2))) == [(0, 1, False), (2, 2, False)]


def test_before_the_first_advance_there_is_the_newest_version_of_which_nothing_is_known(world: World) -> None:
    world.append("fx")
    world.append("fx")
    assert seen(fx(world)) == [(1, None, False)]
    assert seen(fx(world, mode=Mode.NONE)) == [(1, None, False)]


def test_without_gating_the_newest_is_read_and_rows_that_came_after_the_advance_are_beyond_it(world: World) -> None:
    world.append("fx")
    assert seen(fx(world, says(1, 0), mode=Mode.NONE)) == [(0, 1, False)]
    world.append("fx")
    assert seen(fx(world, says(1, 0), mode=Mode.NONE)) == [(1, 1, True)]


def test_an_external_table_that_was_made_anew_is_complete_to_nothing(world: World) -> None:
    world.append("fx")
    assert seen(fx(world, says(1, 5), mode=Mode.NONE)) == [(0, None, False)]
    broken = fx(world, says(1, 5)).problem
    assert broken is not None
    assert broken.text == "version 5 of fx, which its watermark 1 speaks of, is gone"


def test_a_version_that_was_found_vacuumed_is_named(world: World) -> None:
    """So are all below it; a later advance opens the way again."""
    for _ in range(3):
        world.append("fx")
    broken = fx(world, says(1, 1), gone=1).problem
    assert broken is not None
    assert (broken.code, broken.text) == ("TG-T002", "version 1 of fx, which its watermark 1 speaks of, is gone")
    assert seen(fx(world, says(1, 1), says(2, 2), gone=1)) == [(2, 2, False)]
    assert seen(fx(world, says(1, 1), says(1, 2), gone=1)) == [(2, 1, False)]


def test_an_advance_that_names_a_version_below_what_was_read_closes_the_gate(world: World) -> None:
    for _ in range(3):
        world.append("fx")
    broken = fx(world, says(1, 0), frontier=2).problem
    assert broken is not None
    assert broken.text == "fx was advanced at version 0, below version 2 that was read before"


def bound(*said: Advance, parts: tuple[str, ...] = ()) -> list[tuple[int, int | None, bool]]:
    choices = inputs.bound_versions(heard(*said), parts)
    assert [one.version for one in choices] == sorted({one.version for one in choices})
    return seen(InputState(name="fx", roots=frozenset(), choices=choices))


def test_an_equal_value_with_a_new_version_binds_again() -> None:
    assert bound(says(1, 0), says(2, 1), says(2, 4)) == [(0, 1, False), (4, 2, False)]


def test_a_higher_value_of_the_same_version_is_known_of_the_same_rows() -> None:
    assert bound(says(1, 3), says(2, 3)) == [(3, 2, False)]


def test_a_value_that_names_an_older_version_takes_the_newer_ones_back() -> None:
    """The loader speaks of what it wrote: what it named before was wrong."""
    assert bound(says(1, 5), says(2, 3)) == [(3, 2, False)]


def test_parts_are_complete_to_their_least() -> None:
    parts = ("eu", "us")
    assert bound(says(10, 0, "eu"), parts=parts) == [(0, None, False)]
    assert bound(says(10, 0, "eu"), says(8, 1, "us"), parts=parts) == [(0, None, False), (1, 8, False)]


def test_a_part_that_goes_ahead_alone_brings_rows_beyond() -> None:
    parts = ("eu", "us")
    said = [says(8, 0, "eu"), says(8, 1, "us"), says(9, 2, "eu"), says(9, 3, "us")]
    assert bound(*said, parts=parts)[1:] == [(1, 8, False), (2, 8, True), (3, 9, False)]


def test_parts_that_name_one_version_speak_of_the_same_rows() -> None:
    parts = ("eu", "us")
    assert bound(says(8, 1, "us"), says(8, 1, "eu"), says(9, 1, "eu"), parts=parts) == [(1, 8, False)]


def test_parts_that_are_told_in_another_order_than_they_were_loaded_have_one_version_with_the_rows_of_both() -> None:
    """Two loaders commit versions 5 and 6, and the one of 6 tells first: version 5 has no rows of it."""
    parts = ("eu", "us")
    said = [says(8, 1, "us"), says(8, 2, "eu"), says(12, 6, "us"), says(10, 5, "eu")]
    assert bound(*said, parts=parts)[-1] == (6, 10, False)


def test_a_part_that_is_declared_no_more_counts_no_more() -> None:
    assert bound(says(1, 0, "eu"), says(9, 7, "asia"), says(2, 3, "us"), parts=("eu", "us")) == [
        (0, None, False),
        (3, 1, False),
    ]


def test_a_choice_knows_what_readers_had_given_up(world: World) -> None:
    world.publish("orders", 1, reader_lo=4)
    [one] = orders(world).choices
    assert one == Choice(version=0, vector=vector(orders=1), at_us=one.at_us, reader_lo=4)
