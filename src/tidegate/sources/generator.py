"""Rows made up by a rule, the same at every reading: for demos, tests and benchmarks.

Checkpoint n has `rows_per_checkpoint` rows, shared out to the parts as evenly as can be; the first parts
get the rest. Row k of it has the id n * rows_per_checkpoint + k, and its position in its part gives
its time: start + position * step, less the part's skew, less a pseudo-random part of the disorder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom

from tidegate import errors
from tidegate.clock import Clock, to_micros
from tidegate.ledger.contract import Store
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.contract import Available, NumberingSource, Slice, SourceRows
from tidegate.sources.specs import GENERATED_COLUMNS, MAX_NUMBER, GeneratorSpec

ROW_BYTES = 48
TASK_ROWS = 100_000
USERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How the rows of a checkpoint are shared out to the parts."""

    rows: int
    parts: int

    def size(self, part: int) -> int:
        """How many rows of each checkpoint are the part's."""
        return self.rows // self.parts + (part < self.rows % self.parts)

    def start(self, part: int) -> int:
        """The place in a checkpoint of the part's first row."""
        return part * (self.rows // self.parts) + min(part, self.rows % self.parts)


class GeneratorSource(NumberingSource):
    """Numbers from 0. With a rate they come as the clock goes, from the first time somebody looked."""

    spec: GeneratorSpec

    def __init__(self, spec: GeneratorSpec, *, store: Store, clock: Clock) -> None:
        self.spec = spec
        self._store = store
        self._clock = clock
        self._shares = Shares(rows=spec.rows_per_checkpoint, parts=spec.parts)
        self._started_us: int | None = None

    def identity(self) -> str:
        spec = self.spec
        rule = [spec.parts, spec.rows_per_checkpoint, spec.start_us, spec.step_us, spec.seed, spec.disorder_us]
        odd = [sorted(spec.skew_us.items()), sorted(spec.silent.items())]
        return f"generator {json.dumps([*rule, *odd], separators=(',', ':'))}"

    def parts(self) -> tuple[str, ...]:
        return tuple(str(part) for part in range(self.spec.parts))

    def first(self) -> int | None:
        return 0

    def last(self) -> int | None:
        return None if self.spec.checkpoints is None else self.spec.checkpoints - 1

    def discover(self, window: Range) -> Available:
        there = Range(0, self._count())
        return Available(
            numbers=RangeSet([there.intersect(window)]),
            highest=there.hi - 1 if there else None,
            lowest=0 if there else None,
        )

    def slices(self, numbers: RangeSet) -> list[Slice]:
        return [self._slice(number) for run in numbers for number in run]

    def rows(self, spark: SparkSession, slices: Sequence[Slice]) -> SourceRows:
        df = self._made(spark, RangeSet(Range.one(one.number) for one in slices))
        return SourceRows(
            df=df,
            columns=GENERATED_COLUMNS,
            event_time=None if self.spec.event_time is None else F.unix_micros(F.col(self.spec.event_time.column)),
            part=F.col("part") if self.spec.parts > 1 else None,
            numbered=lambda: F.expr(f"id div {self.spec.rows_per_checkpoint}"),
            known_rows=sum(one.rows or 0 for one in slices),
        )

    def verify(self, slices: Sequence[Slice]) -> None:
        return None

    def _count(self) -> int:
        """How many checkpoints there are by now."""
        count = MAX_NUMBER if self.spec.checkpoints is None else self.spec.checkpoints
        if self.spec.rate_per_s is None:
            return count
        gone_us = max(0, to_micros(self._clock.now()) - self._start_us())
        return min(count, int(gone_us * self.spec.rate_per_s / self.spec.rows_per_checkpoint / 1_000_000))

    def _start_us(self) -> int:
        """When the rate began: kept in the ledger, so that the rows go on where they were after a restart."""
        if self._started_us is None:
            key = f"sources/{self.spec.name}/started"
            found = self._store.get(key)
            if found is None:
                body = json.dumps({"started_us": to_micros(self._clock.now())}).encode()
                with suppress(errors.VersionConflict):  # another one began it
                    self._store.put(key, body, history=False)
                found = self._store.get(key)
            if found is None:
                raise errors.SourceUnreachable(source=self.spec.name, what="its start is not in the ledger")
            self._started_us = int(json.loads(found.body)["started_us"])
        return self._started_us

    def _slice(self, number: int) -> Slice:
        parts = {str(part): self._positions(part, number) for part in range(self.spec.parts)}
        rows = sum(len(positions) for positions in parts.values())
        return Slice(number=number, parts=parts, size_bytes=rows * ROW_BYTES, rows=rows)

    def _positions(self, part: int, number: int) -> Range:
        size, end = self._shares.size(part), self.spec.silent.get(part)
        if end is not None and number >= end:
            return Range(end * size, end * size)
        return Range(number * size, (number + 1) * size)

    def _made(self, spark: SparkSession, numbers: RangeSet) -> DataFrame:
        ids = self._ids(spark, numbers)
        rows = self.spec.rows_per_checkpoint
        part, position, made = self._part(), F.col("position"), F.xxhash64(F.col("id"), F.lit(self.spec.seed))
        placed = ids.select("id", part.alias("part"), F.expr(f"id div {rows}").alias("number"))
        placed = placed.where(self._speaks()).select("id", "part", self._position().alias("position"))
        late = F.pmod(F.xxhash64(F.col("id"), F.lit(self.spec.seed), F.lit("late")), F.lit(self.spec.disorder_us + 1))
        at = F.lit(self.spec.start_us) + position * F.lit(self.spec.step_us) - self._skew() - late
        return placed.select(
            "id",
            F.col("part").cast("int").alias("part"),
            F.timestamp_micros(at).alias("at"),
            F.concat(F.lit("user-"), F.pmod(made, F.lit(USERS)).cast("string")).alias("user"),
            (F.pmod(F.shiftright(made, 20), F.lit(100_000)) / 100).alias("amount"),
        )

    def _ids(self, spark: SparkSession, numbers: RangeSet) -> DataFrame:
        rows = self.spec.rows_per_checkpoint
        frames = [spark.range(run.lo * rows, run.hi * rows, 1, max(1, len(run) * rows // TASK_ROWS)) for run in numbers]
        whole = frames[0] if frames else spark.range(0)
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        return whole

    def _part(self) -> Column:
        """The part of an id: the first parts hold one row more than the others."""
        size, more = divmod(self.spec.rows_per_checkpoint, self.spec.parts)
        place, wide = f"id % {self.spec.rows_per_checkpoint}", more * (size + 1)
        if not more:
            return F.expr(f"({place}) div {size}")
        return F.expr(f"if({place} < {wide}, ({place}) div {size + 1}, {more} + ({place} - {wide}) div {size})")

    def _position(self) -> Column:
        size, more = divmod(self.spec.rows_per_checkpoint, self.spec.parts)
        return F.expr(
            f"number * ({size} + if(part < {more}, 1, 0))"
            f" + id % {self.spec.rows_per_checkpoint} - (part * {size} + least(part, {more}))"
        )

    def _skew(self) -> Column:
        behind = F.lit(0)
        for part, skew_us in self.spec.skew_us.items():
            behind = F.when(F.col("part") == part, F.lit(skew_us)).otherwise(behind)
        return behind

    def _speaks(self) -> Column:
        speaks = F.lit(True)
        for part, after in self.spec.silent.items():
            speaks = speaks & ~((F.col("part") == part) & (F.col("number") >= after))
        return speaks
