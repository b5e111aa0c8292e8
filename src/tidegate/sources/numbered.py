"""Files that carry their own checkpoint number in their path, one file a number."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom

from tidegate.clock import Clock, to_micros
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import ONLY_PART, Available, NumberingSource, Slice, SourceRows
from tidegate.sources.planned import PlannedFile, changed, unreachable, verify
from tidegate.sources.reading import FileReader, Unit
from tidegate.sources.specs import MAX_NUMBER, NUMBER_FIELD, NumberedSpec
from tidegate.spark import files as spark_files

#: A folder that has been still for so long is not read again while its time stays: a file that came in
#: the same tick of the file system's clock as the last reading would go unseen for ever otherwise.
STILL_US = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """A path with a number in it: everything before the number's own component is one folder.

    `{number}` takes the digits without zeros in front, `{number:08d}` pads them to eight.
    """

    folder: str  #: literal, may be empty
    before: str  #: in the number's component
    after: str
    below: str  #: the rest of the path behind that component, literal; often empty
    width: int

    @classmethod
    def of(cls, path: str) -> PathPattern:
        """The pattern of a path that holds one number field."""
        field = NUMBER_FIELD.search(path)
        if field is None:
            raise ValueError(f"{path} has no {{number}}")
        head, tail = path[: field.start()], path[field.end() :]
        folder, slash, before = head.rpartition("/")
        after, below_slash, below = tail.partition("/")
        return cls(
            folder=folder or slash,
            before=before,
            after=after,
            below=below_slash + below,
            width=int(field.group(1) or 0),
        )

    def path(self, number: int) -> str:
        """The path of a number."""
        return os.path.join(self.folder, f"{self.before}{number:0{self.width}d}{self.after}{self.below}")

    def number(self, name: str) -> int | None:
        """The number that a name in the folder carries; None when it is not spelt as `path` would."""
        if not (name.startswith(self.before) and name.endswith(self.after)):
            return None
        digits = name[len(self.before) : len(name) - len(self.after)]
        if not digits or len(digits) > 19 or not (digits.isascii() and digits.isdigit()):
            return None
        padded = len(digits) == self.width or (len(digits) > self.width and (digits[0] != "0" or digits == "0"))
        return int(digits) if padded and int(digits) <= MAX_NUMBER else None

    def expression(self, reported: Column) -> Column:
        """The number in a path as Spark reports it."""
        before, after = (re.escape(spark_files.reported_path(t)) for t in (self.before, self.after + self.below))
        return F.regexp_extract(reported, f"/{before}([0-9]+){after}$", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    folder_mtime_ns: int
    is_still: bool
    numbers: tuple[int, ...]


class NumberedSource(NumberingSource):
    """Finds files by one listing of their folder, and reads many of them in one job."""

    spec: NumberedSpec

    def __init__(self, spec: NumberedSpec, *, root: Path, clock: Clock) -> None:
        self.spec = spec
        self._root = root.absolute()
        self._clock = clock
        self._pattern = PathPattern.of(spec.path)
        self._reader = FileReader(spec, self._root, self._pattern.expression)
        self._listing: _Listing | None = None
        self._first = spec.first_checkpoint

    def identity(self) -> str:
        return f"numbered {self.spec.path}"

    def first(self) -> int | None:
        return self.spec.first_checkpoint

    def last(self) -> int | None:
        return self.spec.last_checkpoint

    def starts_at(self, first: int) -> None:
        self._first = first

    def discover(self, window: Range) -> Available:
        numbers = self._numbers()
        numbers = numbers[: bisect_right(numbers, self.spec.last)]
        below = bisect_left(numbers, self._first or 0)
        known = numbers[below:]
        there: Sequence[int] = known[bisect_left(known, window.lo) : bisect_left(known, window.hi)]
        if self._pattern.below:
            there = [number for number in there if os.path.exists(self._absolute(number))]
        return Available(
            numbers=RangeSet(_runs(there)),
            highest=known[-1] if known else None,
            lowest=known[0] if known else None,
            below_first=below,
        )

    def slices(self, numbers: RangeSet) -> list[Slice]:
        return [self._slice(number) for run in numbers for number in run]

    def rows(self, spark: SparkSession, slices: Sequence[Slice]) -> SourceRows:
        return self._reader.rows(spark, [self._unit(one) for one in slices])

    def dead(self, spark: SparkSession, slices: Sequence[Slice]) -> DataFrame | None:
        return self._reader.dead(spark, [self._unit(one) for one in slices])

    def verify(self, slices: Sequence[Slice]) -> None:
        verify(self.spec.name, self._root, (self._planned(one) for one in slices))

    def _absolute(self, number: int) -> str:
        return os.path.join(self._root, self._pattern.path(number))

    def _slice(self, number: int) -> Slice:
        try:
            found = os.stat(self._absolute(number))
        except OSError as unread:  # gone since it was discovered: a gap again, once it is looked for again
            raise unreachable(self.spec.name, self._pattern.path(number), unread) from unread
        return Slice(
            number=number,
            parts={ONLY_PART: Range.one(number)},
            size_bytes=found.st_size,
            rows=0 if found.st_size == 0 else None,
            detail={"mtime_ns": found.st_mtime_ns},
        )

    def _unit(self, one: Slice) -> Unit:
        return Unit(number=one.number, files=(self._planned(one),))

    def _planned(self, one: Slice) -> PlannedFile:
        mtime_ns = one.detail.get("mtime_ns")
        if not isinstance(mtime_ns, int):
            raise changed(self.spec.name, f"the plan of checkpoint {one.number} is not one of this source")
        return PlannedFile(path=self._pattern.path(one.number), size_bytes=one.size_bytes, mtime_ns=mtime_ns)

    def _numbers(self) -> tuple[int, ...]:
        """The numbers in the folder, ascending. A folder that is not there yet holds none."""
        folder = os.path.join(self._root, self._pattern.folder)
        try:
            mtime_ns = os.stat(folder).st_mtime_ns
            if self._listing is not None and self._listing.is_still and self._listing.folder_mtime_ns == mtime_ns:
                return self._listing.numbers
            now_us = to_micros(self._clock.now())
            numbers = tuple(sorted(set(self._listed(folder))))
        except FileNotFoundError:
            return ()
        except OSError as unread:
            raise unreachable(self.spec.name, self._pattern.folder or ".", unread) from unread
        is_still = now_us - mtime_ns // 1000 > STILL_US
        self._listing = _Listing(folder_mtime_ns=mtime_ns, is_still=is_still, numbers=numbers)
        return numbers

    def _listed(self, folder: str) -> Iterator[int]:
        wants_folder = bool(self._pattern.below)
        with os.scandir(folder) as entries:
            for entry in entries:
                number = self._pattern.number(entry.name)
                if number is not None and (entry.is_dir() if wants_folder else entry.is_file()):
                    yield number


def _runs(ascending: Sequence[int]) -> Iterator[Range]:
    """The unbroken ranges of ascending numbers."""
    start = 0
    for at in range(1, len(ascending) + 1):
        if at == len(ascending) or ascending[at] != ascending[at - 1] + 1:
            yield Range(ascending[start], ascending[at - 1] + 1)
            start = at
