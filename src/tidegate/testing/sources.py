"""A source that plays a script: rows, and marks for what happens between them.

    script = Script([rows(1), rows(2), EOF, rows(3), CRASH, rows(4), PAUSE, rows(5)])

One runner reads up to EOF and finds no more; the next goes on behind it. CRASH raises `Crashed` when
the checkpoint behind it is read for the first time; afterwards it can be read. PAUSE hides what is
behind it until `script.resume()`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegate import errors
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import ONLY_PART, Available, NumberingSource, Slice, SourceRows
from tidegate.sources.specs import FileFormat, NumberedSpec, Reading, SourceSpec, WatermarkKind, schema_fields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows: TypeAlias = Sequence[Mapping[str, Any]]

_NUMBER: Final = "__checkpoint"


class Sign(Enum):
    """What happens between two checkpoints of a script."""

    EOF = "eof"
    CRASH = "crash"
    PAUSE = "pause"


EOF: Final = Sign.EOF
CRASH: Final = Sign.CRASH
PAUSE: Final = Sign.PAUSE


class Crashed(errors.SourceError):
    """A script said CRASH."""

    text = "source {source}: the script crashes at checkpoint {number}"


@dataclass(slots=True)
class Script:
    """The items, and what of them is behind us. It outlives the runners that read it.

    `missing` are numbers that have not arrived; `arrive` lets them.
    """

    items: Sequence[Rows | Sign]
    first: int = 0
    missing: RangeSet = field(default_factory=RangeSet)
    changed: RangeSet = field(default_factory=RangeSet)
    _past: set[int] = field(default_factory=set)
    _has_run: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arrive(self, *numbers: int) -> None:
        """Let these numbers be there."""
        with self._lock:
            self.missing = self.missing - RangeSet.of(*numbers)

    def change(self, number: int) -> None:
        """Make this checkpoint other than it was planned: it no longer verifies."""
        with self._lock:
            self.changed = self.changed | Range.one(number)

    def resume(self) -> None:
        """Go on behind the first PAUSE that holds."""
        self._pass(PAUSE)

    def begin(self) -> None:
        """A new run begins: go on behind the EOF that ended the last one."""
        if self._has_run:
            self._pass(EOF)
        self._has_run = True

    def rows(self, number: int) -> Rows:
        """The rows of a checkpoint."""
        return self._numbered()[number][0]

    def available(self) -> RangeSet:
        """The numbers that are there now."""
        with self._lock:
            there = RangeSet(Range.one(n) for n, (_, before) in self._numbered().items() if self._reached(before))
            return there - self.missing

    def crash_before(self, number: int) -> bool:
        """Whether a CRASH stands before this checkpoint that has not struck yet; it strikes by this."""
        with self._lock:
            before = self._numbered()[number][1]
            due = [at for at in before if self.items[at] is CRASH and at not in self._past]
            self._past.update(due)
            return bool(due) and self._is_right_before(due[-1], number)

    def _pass(self, sign: Sign) -> None:
        with self._lock:
            waiting = (at for at, item in enumerate(self.items) if item in (EOF, PAUSE) and at not in self._past)
            at = next(waiting, None)
            if at is not None and self.items[at] is sign:
                self._past.add(at)

    def _reached(self, before: Sequence[int]) -> bool:
        return all(self.items[at] is CRASH or at in self._past for at in before)

    def _is_right_before(self, at: int, number: int) -> bool:
        return all(isinstance(item, Sign) for item in self.items[at : self._place(number)])

    def _place(self, number: int) -> int:
        return [at for at, item in enumerate(self.items) if not isinstance(item, Sign)][number - self.first]

    def _numbered(self) -> dict[int, tuple[Rows, tuple[int, ...]]]:
        return {number: (rows, before) for number, rows, before in self._walk()}

    def _walk(self) -> Iterator[tuple[int, Rows, tuple[int, ...]]]:
        number, before = self.first, []
        for at, item in enumerate(self.items):
            if isinstance(item, Sign):
                before.append(at)
            else:
                yield number, item, tuple(before)
                number += 1


class ScriptedSource(NumberingSource):
    """Plays a script. Making one begins a new run of it."""

    def __init__(
        self,
        script: Script,
        schema: str,
        *,
        name: str = "scripted",
        event_time: str | None = None,
        spec: SourceSpec | None = None,
    ) -> None:
        self.spec = spec or NumberedSpec(
            name=name,
            watermark=WatermarkKind.CHECKPOINT,
            path="{number}",
            reading=Reading(format=FileFormat.JSON, schema=schema),
        )
        self.script = script
        self._schema = schema
        self._event_time = event_time
        script.begin()

    def identity(self) -> str:
        return f"scripted:{self.spec.name}:{self.script.first}:{self._schema}"

    def first(self) -> int | None:
        return self.script.first

    def last(self) -> int | None:
        return None

    def discover(self, window: Range) -> Available:
        there = self.script.available()
        return Available(numbers=there & window, highest=None if there.hi is None else there.hi - 1, lowest=there.lo)

    def slices(self, numbers: RangeSet) -> list[Slice]:
        return [
            Slice(number=n, parts={ONLY_PART: Range.one(n)}, rows=len(self.script.rows(n))) for n in numbers.numbers()
        ]

    def rows(self, spark: SparkSession, slices: Sequence[Slice]) -> SourceRows:
        # A test that never reads rows must not need Spark to import this module.
        from pyspark.sql import functions as F  # noqa: PLC0415, N812

        for one in slices:
            if self.script.crash_before(one.number):
                raise Crashed(source=self.spec.name, number=one.number)
        columns = tuple(name for name, _ in schema_fields(self._schema))
        values = [
            (*(row.get(name) for name in columns), one.number) for one in slices for row in self.script.rows(one.number)
        ]
        df = spark.createDataFrame(values, f"{self._schema}, {_NUMBER} BIGINT")
        return SourceRows(
            df=df,
            columns=columns,
            numbered=lambda: F.col(_NUMBER),
            event_time=None if self._event_time is None else F.unix_micros(F.col(self._event_time)),
        )

    def verify(self, slices: Sequence[Slice]) -> None:
        for one in slices:
            if one.number in self.script.changed:
                raise errors.SourceChanged(source=self.spec.name, what=f"checkpoint {one.number} changed")
