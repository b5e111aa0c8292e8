"""A run of a project: a thread for each pipeline, the tables on the caller's, one Spark for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tidegate import errors
from tidegate.clock import Clock, SystemClock, to_micros
from tidegate.ledger.contract import Store
from tidegate.pipelines import opening, retain
from tidegate.pipelines.documents import PipelineDocument, read_state
from tidegate.pipelines.memory import Memory
from tidegate.project import wiring
from tidegate.project.model import ProjectSpec
from tidegate.sinks.contract import Ownership, Sink

if TYPE_CHECKING:
    from tidegate.pipelines.run import Finished, PipelineRun
    from tidegate.spark.session import Spark
    from tidegate.tables.maintainer import Maintainer

Tell = Callable[[str, Mapping[str, object]], None]

TABLES_POLL_S: Final = 0.2
#: How long a run waits for Spark's jobs to end once it was told to stop.
JOIN_S: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended, for the exit code and for a summary."""

    exit_code: int  #: 0, 1 or 4
    failed: tuple[str, ...] = ()  #: pipelines and tables that failed
    skipped: tuple[str, ...] = ()  #: pipelines that are paused or stopped
    waiting: tuple[str, ...] = ()  #: tables whose gate is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What pruning did to one pipeline, or would do. Numbers are inclusive, as people see them."""

    pipeline: str  #: its name
    reader_lo: int | None  #: the first checkpoint that readers may rely on
    pruner_hi: int | None  #: the highest checkpoint that was deleted
    deleted_files: int = 0  #: files that were deleted
    deleted_bytes: int = 0  #: and their size
    would_raise_reader_lo_to: int | None = None  #: with `--dry-run`: the step that would be taken
    due: tuple[int, int] | None = None  #: with `--dry-run`: what would be deleted, first and last
    held_by: tuple[str, ...] = ()  #: who needs what is not deleted
    note: str | None = None  #: why nothing was done


@dataclass(slots=True)
class _Lane:
    """One pipeline's thread, and what became of it."""

    run: PipelineRun
    name: str
    finished: Finished | None = None
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def start(self, failed: Callable[[], None]) -> None:
        def work() -> None:
            try:
                self.finished = self.run.run()
            except BaseException as exc:  # noqa: BLE001 -- the edge of a thread: the caller raises it again
                self.error = exc
                failed()

        self.thread = threading.Thread(target=work, name=f"tidegate-{self.name}")
        self.thread.start()

    @property
    def is_over(self) -> bool:
        return self.thread is None or not self.thread.is_alive()


@dataclass(slots=True)
class _Tables:
    """What the tables of a run did."""

    failed: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)


def run_project(
    spec: ProjectSpec,
    store: Store,
    *,
    names: Sequence[str],
    once: bool,
    stop: threading.Event,
    on_event: Tell,
    clock: Clock | None = None,
) -> RunOutcome:
    """Run the named pipelines and tables, or all; `once` ends when nothing is left to do.

    The first error that is not about one batch stops the others, which drain, and is raised then.
    """
    clock = clock or SystemClock()
    spark = wiring.open_spark(spec)
    ending = _Either(stop)
    pipelines = [name for name in spec.pipelines if not names or name in names]
    tables = [name for name in spec.tables if not names or name in names]
    try:
        maintainer = wiring.open_maintainer(spec, store, spark, only=tables, tell=on_event, clock=clock)
        shop = _Shop(spec, store, spark, on_event, clock)
        lanes = [_Lane(run=_pipeline_run(shop, name, once, ending), name=name) for name in pipelines]
        for lane in lanes:
            lane.start(ending.set)
        try:
            done = _tend(lanes, maintainer, once=once, ending=ending, clock=clock)
        except BaseException:
            ending.set()
            raise
        finally:
            _join(lanes)
        _raise_first(lanes)
        finished = [lane.finished for lane in lanes if lane.finished is not None]
        failed = [one.pipeline for one in finished if one.has_failed] + sorted(done.failed)
        return RunOutcome(
            exit_code=1 if failed else 0,
            failed=tuple(failed),
            skipped=tuple(one.pipeline for one in finished if one.skipped),
            waiting=tuple(sorted(done.waiting)),
        )
    finally:
        spark.close()


class _Either(threading.Event):
    """Set by itself, or by the event of the caller."""

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


@dataclass(frozen=True, slots=True)
class _Shop:
    """What all pipelines of a run share."""

    spec: ProjectSpec
    store: Store
    spark: Spark
    tell: Tell
    clock: Clock


def _pipeline_run(shop: _Shop, name: str, once: bool, stop: threading.Event) -> PipelineRun:
    # Spark is loaded here, and not by those who only prune.
    from tidegate.pipelines.run import Equipment, PipelineRun  # noqa: PLC0415

    spec, store, clock = shop.spec, shop.store, shop.clock
    pipeline = spec.pipelines[name]
    equipment = Equipment(
        spec=pipeline,
        store=store,
        spark=shop.spark,
        source=wiring.open_source(spec, spec.sources[pipeline.source], store, clock),
        sinks=tuple(wiring.open_sinks(spec, pipeline, clock).values()),
        side=wiring.open_side_sinks(spec, pipeline, clock),
        clock=clock,
        tell=shop.tell,
        pins=lambda: wiring.pins(spec, store),
        drift=lambda: wiring.drift_now(spec, store, pipeline.source),
    )
    return PipelineRun(equipment, once=once, stop=stop)


def _tend(
    lanes: Sequence[_Lane], maintainer: Maintainer | None, *, once: bool, ending: threading.Event, clock: Clock
) -> _Tables:
    """Keep the tables fresh while the pipelines run; of `--once`, after they have ended too."""
    done = _Tables()
    never = threading.Event()
    while not (once and all(lane.is_over for lane in lanes)):
        if ending.is_set():
            return done
        if maintainer is not None and not once:
            _step(maintainer, done, ending)
        elif not once and not lanes:
            return done
        clock.wait(never, TABLES_POLL_S)
    _join(lanes)
    while maintainer is not None and not ending.is_set() and _step(maintainer, done, ending, again=False):
        pass
    return done


def _step(maintainer: Maintainer, done: _Tables, ending: threading.Event, *, again: bool = True) -> bool:
    """Refresh what is due; whether anything changed. `again`: try what failed over the same inputs once more."""
    refreshed = maintainer.step(ending, again=again)
    done.failed = set(maintainer.failed)
    done.waiting = set(maintainer.waiting)
    return bool(refreshed)


def _join(lanes: Sequence[_Lane]) -> None:
    for lane in lanes:
        if lane.thread is not None:
            lane.thread.join(JOIN_S)


def _raise_first(lanes: Sequence[_Lane]) -> None:
    """Raise what ended a pipeline's thread: a refusal before anything else, since it explains the rest."""
    found = [lane.error for lane in lanes if lane.error is not None]
    refused = [error for error in found if isinstance(error, errors.Refused)]
    for error in [*refused, *found]:
        raise error


def prune_project(
    spec: ProjectSpec, store: Store, *, names: Sequence[str], dry_run: bool, clock: Clock | None = None
) -> list[PruneReport]:
    """Take the reader step of each pipeline now, and delete what is due. Needs no Spark."""
    clock = clock or SystemClock()
    prune = _would_prune if dry_run else _prune
    return [prune(spec, store, name, clock) for name in names]


def _prune(spec: ProjectSpec, store: Store, name: str, clock: Clock) -> PruneReport:
    pipeline = spec.pipelines[name]
    note = _nothing_to_prune(spec, store, name)
    if note is not None:
        return note
    lease = opening.take_lease(store, name, stop=threading.Event(), tell=lambda event, facts: None)
    sinks: dict[str, Sink] = {}
    try:
        memory = Memory(store, name, lease)
        known = memory.document
        if known is None:
            return PruneReport(pipeline=name, reader_lo=None, pruner_hi=None, note="it has not run yet")
        document = replace(known, token=lease.token)
        sinks = retain.open_published(document, list(wiring.open_sinks(spec, pipeline, clock).values()))
        owner = Ownership(pipeline=name, epoch=document.epoch, token=lease.token)
        for sink in sinks.values():
            sink.open(owner)
        now_us = to_micros(clock.now())
        memory.document = retain.raise_reader_lo(document, pipeline, sinks, now_us)
        memory.save()
        pruned = retain.delete_due(memory.document, sinks, wiring.pins(spec, store), now_us)
        memory.document = pruned.document
        memory.save()
        held = tuple(f"files of checkpoints {one.lo} to {one.hi - 1} are still read by a table" for one in pruned.held)
        return _report(name, pruned.document, files=pruned.files, size_bytes=pruned.size_bytes, held_by=held)
    finally:
        for sink in sinks.values():
            sink.close()
        lease.release()


def _would_prune(spec: ProjectSpec, store: Store, name: str, clock: Clock) -> PruneReport:
    pipeline = spec.pipelines[name]
    note = _nothing_to_prune(spec, store, name)
    document = read_state(store, name)
    if note is not None or document is None:
        return note or PruneReport(pipeline=name, reader_lo=None, pruner_hi=None, note="it has not run yet")
    main = wiring.open_sink(spec, pipeline.main_sink, clock)
    try:
        now_us = to_micros(clock.now())
        found = retain.floor(document, pipeline, main, now_us)
        due = document.marks.due(now_us)
        report = _report(name, document, held_by=tuple(f"{one.holder} at {one.number}" for one in found.held_by))
        raised = found.reader_lo if found.reader_lo != document.marks.reader_lo else None
        return replace(report, would_raise_reader_lo_to=raised, due=due.inclusive if due else None)
    finally:
        main.close()


def _nothing_to_prune(spec: ProjectSpec, store: Store, name: str) -> PruneReport | None:
    document = read_state(store, name)
    if document is None or document.marks.checkpoint_hi_inclusive is None:
        return PruneReport(pipeline=name, reader_lo=None, pruner_hi=None, note="nothing is complete yet")
    if not spec.pipelines[name].retention.keep.is_set:
        return replace(_report(name, document), note="it keeps everything: no retention is set")
    return None


def _report(
    name: str, document: PipelineDocument, *, files: int = 0, size_bytes: int = 0, held_by: tuple[str, ...] = ()
) -> PruneReport:
    return PruneReport(
        pipeline=name,
        reader_lo=document.marks.reader_lo,
        pruner_hi=document.marks.pruner_hi,
        deleted_files=files,
        deleted_bytes=size_bytes,
        held_by=held_by,
    )
