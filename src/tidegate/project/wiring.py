"""The composition root: declarations become the objects of the rooms, each loaded when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate import errors
from tidegate.clock import Clock
from tidegate.pipelines.declare import PipelineSpec
from tidegate.project import places
from tidegate.project.model import ProjectSpec, side_sinks
from tidegate.project.problems import did_you_mean
from tidegate.sinks.specs import DeltaSinkSpec, ParquetSinkSpec, SinkSpec
from tidegate.sources.specs import SourceSpec

if TYPE_CHECKING:
    from tidegate.lake.table import LakeTable
    from tidegate.ledger.contract import Store
    from tidegate.progress.drift import Drift
    from tidegate.sinks.contract import Sink
    from tidegate.sources.contract import Source
    from tidegate.spark.session import Spark
    from tidegate.tables.maintainer import Maintainer


def open_ledger(spec: ProjectSpec, clock: Clock | None = None) -> Store:
    """The project's ledger; nothing is made before the first write."""
    from tidegate.ledger.stores import open_store

    return open_store(spec.ledger, root=spec.root, clock=clock)


def open_spark(spec: ProjectSpec) -> Spark:
    """Spark as the project wants it; nothing is started before its session is asked for."""
    from tidegate.spark.session import Spark

    return Spark(spec.spark, name=spec.name, root=spec.root)


def lake_table(spec: ProjectSpec, name: str, clock: Clock | None = None) -> LakeTable:
    """The Delta table of that name: a pipeline's (by the pipeline's name or the sink's), a table's, or an external one.

    :raises ConfigError: the project has no such table.
    """
    return _table(spec, lake_name(spec, name), clock)


def _table(spec: ProjectSpec, table: str, clock: Clock | None) -> LakeTable:
    from tidegate.lake.table import LakeTable

    return LakeTable(spec.table_url(table), table, clock=clock)


def lake_name(spec: ProjectSpec, name: str) -> str:
    """The Delta table that a name in a query means; of a pipeline it is that of its main sink."""
    pipeline = spec.pipelines.get(name)
    if pipeline is not None and isinstance(pipeline.main_sink, DeltaSinkSpec):
        return pipeline.main_sink.table
    if name in spec.lake_owners() or name in spec.externals:
        return name
    if pipeline is not None:
        what = f"pipelines.{name} has no sink of type delta, so there is no lake table of it"
        raise errors.ConfigError(where=pipeline.where, what=what)
    known = {*spec.lake_owners(), *spec.externals, *spec.pipelines}
    raise errors.ConfigError(where=places.FILE, what=f"there is no lake table {name}{did_you_mean(name, known)}")


def lake(spec: ProjectSpec, clock: Clock | None = None) -> Callable[[str], LakeTable]:
    """The lake tables and external ones by name, each opened once."""
    return functools.cache(lambda name: _table(spec, name, clock))


def open_maintainer(
    spec: ProjectSpec,
    store: Store,
    spark: Spark,
    *,
    only: Sequence[str],
    tell: Callable[[str, Mapping[str, object]], None],
    clock: Clock,
) -> Maintainer | None:
    """Who keeps the named tables fresh; None when there is nothing to keep.

    :raises ConfigError: a query names nothing that is there, or tables read each other in a circle.
    """
    if not spec.tables:
        return None
    from tidegate.tables.maintainer import Maintainer, Workshop

    workshop = Workshop(declared=spec, store=store, lake=lake(spec, clock), spark=spark, clock=clock, tell=tell)
    return Maintainer(workshop, only)


def pins(spec: ProjectSpec, store: Store) -> dict[str, int]:
    """For each lake table, the oldest version that a maintained table still needs the files of."""
    from tidegate.tables import documents

    return documents.pins(store, frozenset(spec.tables))


def drift_now(spec: ProjectSpec, store: Store, source: str) -> Drift:
    """Whether the source has run too far ahead of those that its groups bind it to."""
    from tidegate.pipelines import peers
    from tidegate.progress.drift import bounds_of

    readers: dict[str, list[str]] = {}
    for name, pipeline in spec.pipelines.items():
        readers.setdefault(pipeline.source, []).append(name)
    return peers.drift_now(store, source, bounds_of(spec.groups.values()), spec.sources, readers)


def open_source(spec: ProjectSpec, source: SourceSpec, store: Store, clock: Clock | None = None) -> Source:
    """The source, ready to be asked what it has."""
    from tidegate.clock import SystemClock
    from tidegate.sources import opening

    return opening.open_source(source, store, spec.root, clock or SystemClock())


def open_sinks(spec: ProjectSpec, pipeline: PipelineSpec, clock: Clock | None = None) -> dict[str, Sink]:
    """The pipeline's sinks by name, in their order. None is taken over yet: that is `Sink.open`."""
    statistics = _statistics(spec, pipeline)
    return {sink.name: open_sink(spec, sink, clock, statistics=statistics) for sink in pipeline.sinks}


def open_side_sinks(spec: ProjectSpec, pipeline: PipelineSpec, clock: Clock | None = None) -> dict[str, Sink]:
    """The pipeline's own tables, by suffix: `__dead` always, `__late` where late rows are set aside."""
    return {sink.name: open_sink(spec, sink, clock) for sink in side_sinks(pipeline)}


def open_sink(
    spec: ProjectSpec, sink: SinkSpec, clock: Clock | None = None, *, statistics: tuple[str, ...] = ()
) -> Sink:
    """One sink. `statistics` are the columns by which readers of a lake table may pass over files."""
    match sink:
        case DeltaSinkSpec():
            from tidegate.sinks.delta import DeltaSink

            return DeltaSink(sink, _table(spec, sink.table, clock), stats_columns=statistics, clock=clock)
        case ParquetSinkSpec():
            from tidegate.sinks.parquet import ParquetSink

            return ParquetSink(sink, str(places.absolute(spec.root, sink.path)), clock=clock)


def _statistics(spec: ProjectSpec, pipeline: PipelineSpec) -> tuple[str, ...]:
    """The column of the event time: what lies in a stretch of time is what readers look for."""
    event_time = spec.sources[pipeline.source].event_time
    return () if event_time is None else (event_time.column,)
