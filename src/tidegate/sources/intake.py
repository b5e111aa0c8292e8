"""What is counted of a source's rows on their way to the sinks: in the job that writes them, with one `observe`.

Event time is taken here, before the transform: a checkpoint whose rows were all filtered away still
moves the watermark. The maxima of many parts come in one expression, a tuple sketch that keeps the
greatest time per part; an expression a part made the write of 2 M rows in 100 parts 3.4 times slower.

An observation speaks of the first action that meets it, and of what that read. So it is believed where the
query hands on every row; where it may stop early (a limit, some joins), or where the transform has run
an action of its own, only if it saw as many rows as there are; else the rows are counted again.

Filters are not pushed below an observed frame (its rows are to be counted), pruned columns are; where
nothing needs counting nothing is observed, and filters reach Parquet.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom

from tidegate.sources.contract import SourceRows
from tidegate.spark import observing
from tidegate.spark.observing import Reach

#: A sketch keeps 2 to this power of parts without loss.
MIN_LG_PARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What some slices held. `rows` are those that decoded; `dead` those that did not.

    `late` rows are below the plan's threshold. `skewed` ones are too far in the future to move a
    watermark. `maxima` is the latest event time of each part that had one, in microseconds.
    """

    rows: int
    dead: int = 0
    late: int = 0
    skewed: int = 0
    maxima: Mapping[str, int] = field(default_factory=dict)


class Reading:
    """The counts of one reading, to be asked for after an action that succeeded."""

    def __init__(self, measure: _Measure, plain: DataFrame, observed: DataFrame, observation: Observation | None):
        self._measure = measure
        self._plain = plain
        self._frame = observed
        self._observation = observation
        self._reach = Reach.WHOLE
        self._taken: Taken | None = None
        self._lock = threading.Lock()

    def transformed(self, frame: DataFrame) -> None:
        """Told what a transform made of the observed frame, before that is read for the first time."""
        if self._observation is None:
            return
        used_up = observing.is_over(self._observation, self._plain.sparkSession)
        self._reach = Reach.UNKNOWN if used_up else observing.reach(frame, self._frame)

    def get(self) -> Taken:
        """What was counted. Asked before an action, it reads the rows by itself."""
        with self._lock:
            if self._taken is None:
                self._taken = self._measure.taken(self._values() if self._measure.expressions else {})
            return self._taken

    def _values(self) -> Mapping[str, Any]:
        """The metrics of the action; counted again where it did not read all of the rows.

        Spark takes the whole reading out of a plan that it knows to be empty (a transform that ends in
        a join with nothing), and the counts with it.
        """
        found = self._metrics()
        if ROWS in found and (self._reach is Reach.WHOLE or found[ROWS] == self._rows_there()):
            return found
        row: Row = self._plain.agg(*self._measure.expressions).collect()[0]
        return row.asDict()

    def _metrics(self) -> Mapping[str, Any]:
        if self._observation is None or not observing.is_over(self._observation, self._plain.sparkSession):
            return {}
        try:
            return self._observation.get
        except (Py4JError, PySparkException):
            return {}

    def _rows_there(self) -> int:
        known = self._measure.known_rows
        return self._plain.count() if known is None else known


ROWS, DEAD, LATE, SKEWED, MAXIMA = "rows", "dead", "late", "skewed", "maxima"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """The expressions of a reading, and how their values become `Taken`."""

    expressions: tuple[Column, ...]
    parts: tuple[str, ...]
    known_rows: int | None

    def taken(self, values: Mapping[str, Any]) -> Taken:
        dead = values.get(DEAD) or 0
        return Taken(
            rows=values[ROWS] - dead if ROWS in values else self.known_rows or 0,
            dead=dead,
            late=values.get(LATE) or 0,
            skewed=values.get(SKEWED) or 0,
            maxima=self._maxima(values.get(MAXIMA)),
        )

    def _maxima(self, value: int | bytes | None) -> dict[str, int]:
        if value is None:
            return {}
        if isinstance(value, int):
            return {self.parts[0]: value}
        found = unsketched(bytes(value))
        return {name: found[key] for key, name in _keys(self.parts).items() if key in found}


def intake(
    rows: SourceRows, parts: Sequence[str], *, late_before_us: int | None, future_after_us: int | None
) -> tuple[DataFrame, Reading]:
    """The rows with their counting attached, and where to ask for the counts after the first action."""
    expressions = _expressions(rows, len(parts), late_before_us, future_after_us)
    measure = _Measure(expressions=expressions, parts=tuple(parts), known_rows=rows.known_rows)
    if not expressions:
        return rows.df, Reading(measure, rows.df, rows.df, None)
    observation = Observation()
    observed = rows.df.observe(observation, *expressions)
    return observed, Reading(measure, rows.df, observed, observation)


def _expressions(
    rows: SourceRows, parts: int, late_before_us: int | None, future_after_us: int | None
) -> tuple[Column, ...]:
    counted = [] if rows.dead is None else [_count(rows.dead).alias(DEAD)]
    if rows.event_time is not None:
        at = rows.event_time if rows.dead is None else F.when(~rows.dead, rows.event_time)
        if late_before_us is not None:
            counted.append(_count(at < _given(late_before_us, at)).alias(LATE))
        if future_after_us is not None:
            future_after = _given(future_after_us, at)
            counted.append(_count(at > future_after).alias(SKEWED))
            at = F.when(at <= future_after, at)
        counted.append(_maxima(at, rows.part, parts).alias(MAXIMA))
    if rows.known_rows is not None and not counted:
        return ()
    return (F.count(F.lit(1)).alias(ROWS), *counted)


def _count(condition: Column) -> Column:
    """How often it is true. `count_if` would put a projection of its own, a copy of each row, below."""
    return F.count(F.when(condition, F.lit(1)))


def _given(value: int, at: Column) -> Column:
    """The value wherever `at` is not null, in a form that leaves Spark's generated code the same for every value.

    A literal becomes part of the code, and code that was never seen is compiled: 60 ms of CPU for each
    checkpoint. An array is handed to the code, and its place depends on the row, so it is not folded away.
    """
    return F.get(F.array(F.lit(value)), at.isNotNull().cast("int") - F.lit(1))


def _maxima(at: Column, part: Column | None, parts: int) -> Column:
    if part is None or parts == 1:
        return F.max(at)
    lg_parts = max(MIN_LG_PARTS, parts.bit_length())
    # a double holds microseconds exactly up to the year 2255; a null time or part adds nothing
    moves = F.when(at.isNotNull(), part.cast("bigint"))
    return F.tuple_sketch_agg_double(moves, at.cast("double"), F.lit(lg_parts), F.lit("max"))


_MASK = (1 << 64) - 1
_SEED = 9001
_ENTRY = struct.Struct("<qdB")
_FAMILY_TUPLE = 9


def unsketched(sketch: bytes) -> dict[int, int]:
    """The value of each key hash in a tuple sketch of Apache DataSketches that has lost none.

    Its first byte is the length of its head in words: 1 for none or one entry, 2 with a count, 3 with the
    threshold of a sketch that has begun to drop entries, which ours are too large to do.
    """
    words, family = sketch[0], sketch[2]
    if family != _FAMILY_TUPLE or words > 2:
        raise ValueError(f"a sketch of family {family} with a head of {words} words is not one of ours")
    entries = memoryview(sketch)[8 * words :]
    return {key: int(value) for key, value, _ in _ENTRY.iter_unpack(entries)}


def _keys(parts: Sequence[str]) -> dict[int, str]:
    return {hashed(place): name for place, name in enumerate(parts)}


def hashed(key: int) -> int:
    """The hash under which a sketch holds a BIGINT: MurmurHash3 of its 8 bytes, without the lowest bit."""
    k1 = (key & _MASK) * 0x87C37B91114253D5 & _MASK
    k1 = _rotated(k1, 31) * 0x4CF5AD432745937F & _MASK
    h1, h2 = (_SEED ^ k1) ^ 8, _SEED ^ 8
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_mixed(h1) + _mixed(h2) & _MASK) >> 1


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK


def _mixed(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
