"""One try of one piece: read, transform, deliver to the sinks that lack it. Runs in a worker's thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from tidegate import errors
from tidegate.pipelines.commit import Intake
from tidegate.pipelines.declare import Late, Transform
from tidegate.pipelines.documents import PlanDocument
from tidegate.pipelines.faults import Fault, fault_of, told
from tidegate.progress.ranges import Range
from tidegate.sinks.contract import Delivery, Ownership, Receipt, Sink, SinkState
from tidegate.sources.contract import Source, SourceRows
from tidegate.sources.intake import Reading, intake
from tidegate.spark import session as spark_session
from tidegate.spark.session import Spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEAD = "__dead"
LATE = "__late"


class Outlet:
    """A sink that is opened when it is first needed, and again after that has failed.

    `check` is shown what is published in it, and raises when nothing may be added to that.
    """

    def __init__(self, sink: Sink, owner: Ownership, check: Callable[[SinkState], None] = lambda state: None) -> None:
        self.sink = sink
        self._owner = owner
        self._check = check
        self._lock = threading.Lock()
        self._state: SinkState | None = None

    @property
    def name(self) -> str:
        return self.sink.spec.name

    @property
    def is_open(self) -> bool:
        return self._state is not None

    def open(self) -> SinkState:
        """What is published in it; opened by the first caller."""
        with self._lock:
            if self._state is None:
                state = self.sink.open(self._owner)
                self._check(state)
                self._state = state
            return self._state


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that a try needs and that is the same for every try of a run."""

    pipeline: str
    spark: Spark
    source: Source
    transform: Transform | None
    late: Late
    owner: Ownership
    outlets: Mapping[str, Outlet]
    side: Mapping[str, Outlet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One piece to try. `counts` asks for the intake: nobody has counted these rows yet."""

    plan: PlanDocument
    range: Range
    sinks: tuple[str, ...]
    attempt: int
    counts: bool

    @property
    def tag(self) -> str:
        """What its Spark jobs are tagged with."""
        return f"{self.range.lo}-{self.range.hi}-{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an order. `fatal` says why this run must stop: another took over, or its Spark is gone."""

    order: Order
    receipts: tuple[Receipt, ...] = ()
    faults: tuple[Fault, ...] = ()
    intake: Intake | None = None
    opened: Mapping[str, SinkState] = field(default_factory=dict)
    fatal: errors.StaleWriter | errors.SparkUnavailable | None = None


def carry_out(bench: Bench, order: Order) -> Outcome:
    """Try the piece once. Every failure is in the outcome; nothing is raised."""
    try:
        with bench.spark.job(bench.pipeline, order.tag):
            outcome = _tried(bench, order)
    except errors.StaleWriter as stale:
        return Outcome(order=order, fatal=stale)
    except errors.SparkUnavailable as unavailable:
        # One that we start ourselves does not start at the next try either; a server may come back.
        if bench.spark.settings.remote is None:
            return Outcome(order=order, fatal=unavailable)
        outcome = Outcome(order=order, faults=(fault_of(unavailable),))
    except Exception as exc:  # noqa: BLE001 -- the edge of a worker: whatever it is becomes a fault
        outcome = Outcome(order=order, faults=(fault_of(exc),))
    # A process that went away shows itself in many ways, in every sink another: it is asked itself.
    if outcome.faults and bench.spark.is_gone:
        return Outcome(order=order, fatal=spark_session.gone())
    return outcome


def _tried(bench: Bench, order: Order) -> Outcome:
    slices = order.plan.slices_of(order.range)
    opened, unopened = _open(bench, order.sinks)
    sinks = tuple(name for name in order.sinks if name in opened)
    if not sinks:
        return Outcome(order=order, faults=tuple(unopened))
    rows, reading = _read(bench, order)
    frame = _transformed(bench, order, rows)
    if reading is not None and bench.transform is not None:
        reading.transformed(frame)
    with _shared(frame, len(sinks)) as shared:
        receipts, faults = _deliver(bench, order, shared, sinks)
    if not receipts:
        _blame_the_source(bench, order)
    bench.source.verify(slices)
    counted: Intake | None = None
    side: tuple[Receipt, ...] = ()
    if order.counts and reading is not None and receipts:
        counted, side = _count(bench, order, rows, reading)
    return Outcome(
        order=order,
        receipts=(*receipts, *side),
        faults=(*unopened, *faults),
        intake=counted,
        opened=opened,
    )


def _open(bench: Bench, names: Sequence[str]) -> tuple[dict[str, SinkState], list[Fault]]:
    opened: dict[str, SinkState] = {}
    faults = []
    for name in names:
        try:
            opened[name] = bench.outlets[name].open()
        except errors.StaleWriter:
            raise
        except (errors.TidegateError, OSError) as exc:
            faults.append(fault_of(exc, sink=name))
    return opened, faults


def _read(bench: Bench, order: Order) -> tuple[SourceRows, Reading | None]:
    rows = bench.source.rows(bench.spark.session, order.plan.slices_of(order.range))
    if not order.counts:
        return rows, None
    observed, reading = intake(
        rows,
        bench.source.parts(),
        late_before_us=order.plan.late_before_us,
        future_after_us=order.plan.future_after_us,
    )
    return replace(rows, df=observed), reading


def _transformed(bench: Bench, order: Order, rows: SourceRows) -> DataFrame:
    is_late = None if bench.late is Late.KEEP else _late(order, rows)
    kept = rows
    if is_late is not None:
        kept = replace(rows, df=rows.df.where(~is_late))
    good = kept.good()
    if bench.transform is None:
        return good
    first, last = order.range.inclusive
    try:
        made: object = bench.transform(good)
    except Exception as exc:  # the user's own code: whatever it raises fails its checkpoint, visibly
        why = f"{type(exc).__name__}: {told(exc)}"
        raise errors.TransformFailed(pipeline=bench.pipeline, first=first, last=last, why=why) from exc
    if not _is_frame(made):
        why = f"it returned {type(made).__name__}, not a DataFrame"
        hint = "end it with `return` and the DataFrame it made"
        raise errors.TransformFailed(pipeline=bench.pipeline, first=first, last=last, why=why, hint=hint)
    return cast("DataFrame", made)


def _is_frame(made: object) -> bool:
    from pyspark.sql import DataFrame  # noqa: PLC0415 -- Spark is there by now

    return isinstance(made, DataFrame)


def _late(order: Order, rows: SourceRows):  # type: ignore[no-untyped-def]  # a Column, whose module is heavy
    if rows.event_time is None or order.plan.late_before_us is None:
        return None
    from pyspark.sql import functions as F  # noqa: PLC0415, N812 -- Spark is there by now

    return F.coalesce(rows.event_time < F.lit(order.plan.late_before_us), F.lit(False))


@contextlib.contextmanager
def _shared(frame: DataFrame, readers: int) -> Iterator[DataFrame]:
    """The frame, computed once where several sinks read it."""
    if readers < 2:
        yield frame
        return
    kept = frame.persist()
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()


def _deliver(bench: Bench, order: Order, frame: DataFrame, sinks: Sequence[str]) -> tuple[list[Receipt], list[Fault]]:
    delivery = Delivery(owner=bench.owner, range=order.range, attempt=order.attempt)
    if len(sinks) == 1:
        tries = [_deliver_one(bench.outlets[sinks[0]], frame, delivery)]
    else:
        with ThreadPoolExecutor(max_workers=len(sinks), thread_name_prefix=bench.pipeline) as pool:
            tries = list(pool.map(lambda name: _in_job(bench, order, name, frame, delivery), sinks))
    receipts = [one for one in tries if isinstance(one, Receipt)]
    return receipts, [one for one in tries if isinstance(one, Fault)]


def _in_job(bench: Bench, order: Order, name: str, frame: DataFrame, delivery: Delivery) -> Receipt | Fault:
    with bench.spark.job(bench.pipeline, order.tag):
        return _deliver_one(bench.outlets[name], frame, delivery)


def _deliver_one(outlet: Outlet, frame: DataFrame, delivery: Delivery) -> Receipt | Fault:
    try:
        return outlet.sink.deliver(frame, delivery)
    except errors.StaleWriter:
        raise
    except Exception as exc:  # noqa: BLE001 -- the edge of a sink: one that fails must not take the others along
        return fault_of(exc, sink=outlet.name)


def _blame_the_source(bench: Bench, order: Order) -> None:
    """When every sink failed, the source may be the reason: then it says so."""
    bench.source.verify(order.plan.slices_of(order.range))


def _count(bench: Bench, order: Order, rows: SourceRows, reading: Reading) -> tuple[Intake, tuple[Receipt, ...]]:
    """What was counted on the way, and the receipts of the side tables where anything belongs there."""
    taken = reading.get()
    slices = order.plan.slices_of(order.range)
    delivery = Delivery(owner=bench.owner, range=order.range, attempt=order.attempt)
    side: list[Receipt] = []
    if taken.dead:
        dead = bench.source.dead(bench.spark.session, slices)
        if dead is not None:
            side.append(_deliver_side(bench, DEAD, dead, delivery))
    is_late = _late(order, rows)
    if taken.late and bench.late is Late.SIDE and is_late is not None:
        plain = bench.source.rows(bench.spark.session, slices)
        late_rows = replace(plain, df=plain.df.where(_late(order, plain))).good()
        side.append(_deliver_side(bench, LATE, late_rows, delivery))
    counted = Intake(
        rows=taken.rows,
        late=taken.late,
        dead=taken.dead,
        skewed=taken.skewed,
        maxima=taken.maxima,
        size_bytes=sum(one.size_bytes for one in slices),
    )
    return counted, tuple(side)


def _deliver_side(bench: Bench, name: str, frame: DataFrame, delivery: Delivery) -> Receipt:
    outlet = bench.side[name]
    outlet.open()
    return outlet.sink.deliver(frame, delivery)
