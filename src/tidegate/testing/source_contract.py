"""The contracts of sources as suites of tests. Whoever writes a source subclasses one of the two.

    class TestMySource(NumberingSourceContract):
        numbers = (3, 4, 6)                               # what `make` finds; at least three, with a hole
        def make(self): return MySource(...)              # a new object over the same place each time
        def ids(self, number): return [...]               # the ids of a checkpoint
        def add(self, number): ...                        # let a checkpoint arrive
        def session(self): return spark

The rows have a column `id`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import CutSource, Limits, NumberingSource, Slice, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _SourceContract(ABC):
    """What all sources share."""

    @abstractmethod
    def session(self) -> SparkSession:
        """A Spark session."""

    def read(self, source: Source, slices: Sequence[Slice]) -> list[int]:
        """The sorted ids of the slices."""
        return sorted(row["id"] for row in source.rows(self.session(), slices).good().collect())


class NumberingSourceContract(_SourceContract):
    """What a source that numbers its own checkpoints must do."""

    numbers: ClassVar[tuple[int, ...]]

    @abstractmethod
    def make(self) -> NumberingSource:
        """A new source over this test's place."""

    @abstractmethod
    def ids(self, number: int) -> list[int]:
        """The ids of a checkpoint."""

    @abstractmethod
    def add(self, number: int) -> None:
        """Let this checkpoint arrive."""

    def window(self) -> Range:
        return Range(min(self.numbers), max(self.numbers) + 10)

    def hole(self) -> int:
        """A number that has not arrived and lies between others."""
        return min(set(range(min(self.numbers), max(self.numbers))) - set(self.numbers))

    def found(self, source: NumberingSource, *numbers: int) -> list[Slice]:
        """The slices of these numbers, discovered before, as they must be."""
        source.discover(self.window())
        return source.slices(RangeSet.of(*numbers))

    def test_the_identity_is_the_same_for_every_object(self) -> None:
        assert self.make().identity() == self.make().identity() != ""

    def test_it_discovers_what_is_there_and_no_hole(self) -> None:
        found = self.make().discover(self.window())
        assert list(found.numbers.numbers()) == sorted(self.numbers)
        assert found.highest == max(self.numbers)

    def test_it_discovers_no_number_outside_of_the_window(self) -> None:
        lowest, *_, highest = sorted(self.numbers)
        found = self.make().discover(Range(lowest + 1, highest))
        assert set(found.numbers.numbers()) == set(self.numbers) - {lowest, highest}

    def test_an_empty_window_holds_nothing(self) -> None:
        assert not self.make().discover(Range(min(self.numbers), min(self.numbers))).numbers

    def test_what_arrives_later_is_discovered_later(self) -> None:
        source = self.make()
        assert self.hole() not in source.discover(self.window()).numbers
        self.add(self.hole())
        assert self.hole() in source.discover(self.window()).numbers

    def test_there_is_a_slice_for_each_number_ascending(self) -> None:
        slices = self.found(self.make(), *self.numbers)
        assert [one.number for one in slices] == sorted(self.numbers)

    def test_slices_name_only_parts_of_the_source(self) -> None:
        source = self.make()
        for one in self.found(source, *self.numbers):
            assert set(one.parts) <= set(source.parts())

    def test_the_rows_of_slices_are_those_of_their_numbers(self) -> None:
        source = self.make()
        slices = self.found(source, *self.numbers)
        assert self.read(source, slices) == sorted(one for number in self.numbers for one in self.ids(number))

    def test_each_slice_can_be_read_alone(self) -> None:
        source = self.make()
        for one in self.found(source, *self.numbers):
            assert self.read(source, [one]) == sorted(self.ids(one.number))

    def test_rows_know_their_checkpoint(self) -> None:
        source = self.make()
        rows = source.rows(self.session(), self.found(source, *self.numbers))
        if rows.number is None:  # a source need not say
            return
        said = {(row["id"], row["n"]) for row in rows.df.select("id", rows.number.alias("n")).collect()}
        assert said == {(one, number) for number in self.numbers for one in self.ids(number)}

    def test_a_later_run_reads_the_same_rows_from_a_stored_slice(self) -> None:
        stored = self.found(self.make(), *self.numbers)
        self.add(self.hole())
        later = self.make()
        assert self.read(later, stored) == sorted(one for number in self.numbers for one in self.ids(number))
        later.verify(stored)

    def test_what_did_not_change_verifies(self) -> None:
        source = self.make()
        source.verify(self.found(source, *self.numbers))


class CutSourceContract(_SourceContract):
    """What a source whose checkpoints Tidegate cuts must do.

    `make` has at least three units; `land` adds one and answers its ids; `ids_between` are the ids of
    a part's positions.
    """

    @abstractmethod
    def make(self) -> CutSource:
        """A new source over this test's place."""

    @abstractmethod
    def land(self) -> list[int]:
        """Let one more unit arrive; its ids."""

    @abstractmethod
    def all_ids(self) -> list[int]:
        """The ids of everything that has arrived."""

    def cut(self, source: CutSource, limits: Limits, *, stops: Sequence[Mapping[str, int]] = ()) -> list[Slice]:
        """Everything there is, cut from the start."""
        return source.cut(self.start(source), source.ends().ends, limits, 0, stops)

    def start(self, source: CutSource) -> dict[str, int]:
        return dict.fromkeys(source.parts(), 0)

    def test_the_identity_is_the_same_for_every_object(self) -> None:
        assert self.make().identity() == self.make().identity() != ""

    def test_ends_name_the_parts(self) -> None:
        source = self.make()
        assert set(source.ends().ends) == set(source.parts())

    def test_ends_never_move_back(self) -> None:
        source = self.make()
        before = source.ends().ends
        self.land()
        after = source.ends().ends
        assert all(after[part] >= before[part] for part in before)
        assert after != before

    def test_a_later_run_sees_the_same_ends(self) -> None:
        assert self.make().ends().ends == self.make().ends().ends

    def test_nothing_new_cuts_nothing(self) -> None:
        source = self.make()
        ends = source.ends().ends
        assert source.cut(ends, ends, Limits(max_slices=10), 0) == []

    def test_slices_follow_each_other_and_miss_nothing(self) -> None:
        source = self.make()
        slices = self.cut(source, Limits(max_bytes=1, max_slices=1000))
        ends = source.ends().ends
        assert [one.number for one in slices] == list(range(len(slices)))
        for part in source.parts():
            at = 0
            for one in slices:
                if part in one.parts:
                    assert one.parts[part].lo == at
                    at = one.parts[part].hi
            assert at == ends[part]

    def test_a_unit_larger_than_the_limit_is_a_checkpoint_of_its_own(self) -> None:
        source = self.make()
        slices = self.cut(source, Limits(max_bytes=1, max_slices=1000))
        assert len(slices) >= 3
        assert all(sum(len(one) for one in part.parts.values()) == 1 for part in slices)

    def test_no_more_slices_than_are_wanted(self) -> None:
        assert len(self.cut(self.make(), Limits(max_bytes=1, max_slices=2))) == 2

    def test_cutting_is_a_function_of_its_arguments(self) -> None:
        source = self.make()
        limits = Limits(max_bytes=1, max_slices=3)
        assert self.cut(source, limits) == self.cut(source, limits)

    def test_no_slice_reaches_over_a_stop(self) -> None:
        source = self.make()
        stop = {part: min(1, end) for part, end in source.ends().ends.items()}
        for one in self.cut(source, Limits(max_slices=100), stops=[stop]):
            for part, positions in one.parts.items():
                assert positions.hi <= stop[part] or positions.lo >= stop[part]

    def test_the_rows_are_those_that_arrived(self) -> None:
        source = self.make()
        assert self.read(source, self.cut(source, Limits(max_slices=1000))) == sorted(self.all_ids())

    def test_a_later_run_reads_the_same_rows_from_a_stored_slice(self) -> None:
        source = self.make()
        stored, before = self.cut(source, Limits(max_slices=1000)), sorted(self.all_ids())
        self.land()
        later = self.make()
        later.ends()
        assert self.read(later, stored) == before
        later.verify(stored)

    def test_what_arrives_later_comes_behind(self) -> None:
        source = self.make()
        before = source.ends().ends
        ids = self.land()
        slices = source.cut(before, source.ends().ends, Limits(max_slices=10), 7)
        assert [one.number for one in slices] == list(range(7, 7 + len(slices)))
        assert self.read(source, slices) == sorted(ids)
