"""Every operation that a person can ask of a project, once. Command line, Python and servers only call and render.

Opening a service reads the project's files and nothing else; the ledger is opened when it is first
needed, Spark only by `run`, `refresh` and `frame`.
"""

from __future__ import annotations

import getpass
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self, TypeAlias

from tidegate import errors
from tidegate.clock import Clock, SystemClock, from_micros, to_micros
from tidegate.ledger import leases
from tidegate.pipelines.documents import (
    ControlDocument,
    PipelineDocument,
    Wanted,
    control_key,
    lease_key,
    plans_prefix,
    range_of_plan_key,
    read_state,
    state_key,
)
from tidegate.progress.durations import parse_duration
from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import ValueKind, Watermark, parse_watermark
from tidegate.project import loading
from tidegate.project.model import ProjectSpec
from tidegate.project.problems import did_you_mean
from tidegate.quick import dataclass
from tidegate.sources import advances
from tidegate.sources.specs import ExternalSpec, SourceSpec, WatermarkKind
from tidegate.tables import documents as table_documents
from tidegate.views import groups as group_views
from tidegate.views import pipelines as pipeline_views
from tidegate.views import sources as source_views
from tidegate.views import tables as table_views
from tidegate.views.pipelines import PipelineFacts
from tidegate.views.sources import SourceFacts
from tidegate.views.values import (
    Explanation,
    GroupStatus,
    PipelineStatus,
    SourceStatus,
    State,
    Status,
    TableStatus,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.ledger.contract import Store, Versioned, VersionInfo
    from tidegate.ledger.differences import Difference
    from tidegate.ledger.maintenance import Checked, Copied
    from tidegate.pipelines.rollback import RollbackPlan
    from tidegate.project.outputs import Output
    from tidegate.project.running import PruneReport, RunOutcome
    from tidegate.spark.session import Spark

Moment: TypeAlias = str | int | datetime | Watermark
OnEvent: TypeAlias = Callable[[str, Mapping[str, object]], None]

_TRIES: Final = 20
_POLL_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a name stands for."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rows that were read. `total` counts those that are there; `rows` may be fewer where a limit was asked for."""

    name: str
    rows: pa.Table
    total: int | None
    version: int
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRange:
    """Neighbouring checkpoints that stand alike. Both ends are inclusive."""

    first: int  #: the first number
    last: int  #: the last number, inclusive
    state: str  #: `published`, `committed`, `ahead`, `in flight`, `missing`, `failed`, `orphaned` or `given up`
    note: str | None = None  #: what there is to say of it

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Service:
    """A project, opened. Use it in a `with`, or `close` it."""

    def __init__(self, spec: ProjectSpec, *, clock: Clock | None = None) -> None:
        self.spec = spec
        self.clock = clock or SystemClock()

    @classmethod
    def open(cls, folder: Path | str | None = None, *, clock: Clock | None = None) -> Self:
        """The project in that folder, or without one the nearest upward from here.

        :raises ConfigError: there is none, or its files say something that cannot be.
        """
        root = loading.find(Path.cwd()) if folder is None else Path(folder)
        return cls(loading.load(root), clock=clock)

    @cached_property
    def store(self) -> Store:
        """The ledger, opened when it is first asked for."""
        from tidegate.project import wiring

        return wiring.open_ledger(self.spec, self.clock)

    @cached_property
    def spark(self) -> Spark:
        """Spark as the project wants it; nothing is started before its session is asked for."""
        from tidegate.project import wiring

        return wiring.open_spark(self.spec)

    def close(self) -> None:
        """Let go of the ledger, and of Spark where it was started here."""
        for held in ("spark", "store"):
            opened = self.__dict__.pop(held, None)
            if opened is not None:
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # looking

    def status(self) -> Status:
        """Where everything stands at this moment."""
        at = self.store.now()
        now_us = to_micros(at)
        found = self._found("pipelines/")
        facts = {name: self._facts_of(name, found.get(name, {})) for name in self.spec.pipelines}
        pipelines = {name: pipeline_views.pipeline_status(one, now_us) for name, one in facts.items()}
        sources = self._sources(pipelines, facts, now_us)
        tables = self._tables()
        groups = {
            name: group_views.group_status(group, sources, tables.values(), now_us)
            for name, group in self.spec.groups.items()
        }
        problems = [problem for pipeline in pipelines.values() for problem in pipeline.problems]
        problems += [problem for table in tables.values() for problem in table.problems]
        problems += [problem for source in sources.values() for problem in source.problems]
        return Status(
            project=self.spec.name,
            at=at,
            healthy=not problems,
            pipelines=pipelines,
            sources=sources,
            groups=groups,
            tables=tables,
            problems=tuple(problems),
        )

    def tables(self) -> Mapping[str, TableStatus]:
        """The maintained tables, by name."""
        return self.status().tables

    def groups(self) -> Mapping[str, GroupStatus]:
        """The groups of sources, by name."""
        return self.status().groups

    def explain(self, name: str) -> Explanation:
        """Why something stands where it stands, and what would move it."""
        from tidegate.views import explanations

        named = self.named(name)
        scene = explanations.Scene(
            status=self.status(), groups=self.spec.groups, documents=table_documents.read_all(self.store)
        )
        match named.kind:
            case "table":
                return explanations.explain_table(scene, scene.status.tables[named.name])
            case "pipeline":
                return explanations.explain_pipeline(scene, scene.status.pipelines[named.name])
            case "source":
                return explanations.explain_source(scene, scene.status.sources[named.name])
            case _:
                return explanations.explain_group(scene, scene.status.groups[named.name])

    def checkpoints(self, pipeline: str) -> list[CheckpointRange]:
        """The checkpoints of a pipeline as ranges that stand alike, ascending."""
        return list(_checkpoint_ranges(self.status().pipelines[self._pipeline(pipeline)]))

    def named(self, name: str) -> Named:
        """What the name stands for: a table, pipeline, source or group, in this order; `source:orders` is exact."""
        kinds: dict[str, Mapping[str, object]] = {
            "table": self.spec.tables,
            "pipeline": self.spec.pipelines,
            "source": self.spec.sources,
            "group": self.spec.groups,
        }
        exact, colon, rest = name.partition(":")
        if colon and exact in kinds:
            kinds, name = {exact: kinds[exact]}, rest
        for kind, known in kinds.items():
            if name in known:
                return Named(kind=kind, name=name)
        every = [one for known in kinds.values() for one in known]
        raise errors.ConfigError(where=self.spec.name, what=f"there is no {name}{did_you_mean(name, every)}")

    def wait(self, name: str, until: Moment, *, timeout: str = "10m") -> Watermark:
        """Return once it is complete to `until`, with the value it then has.

        :raises NotComplete: the time was up.
        """
        limit_s = _duration_us(timeout) / 1e6
        never = threading.Event()
        deadline = self.clock.monotonic() + limit_s
        while True:
            reached = self.reached(name)
            wanted = _watermark(until, None if reached is None else reached.kind, "--until")
            if reached is not None and reached >= wanted:
                return reached
            if self.clock.monotonic() >= deadline:
                current = "nothing" if reached is None else reached.text
                raise errors.NotComplete(
                    name=name, current=current, asked=wanted.text, hint=f"see tidegate explain {name}"
                )
            self.clock.wait(never, _POLL_S)

    def reached(self, name: str) -> Watermark | None:
        """How far something is complete, as readers see it."""
        named = self.named(name)
        status = self.status()
        match named.kind:
            case "table":
                return status.tables[named.name].complete_to
            case "pipeline":
                return status.pipelines[named.name].watermark
            case "source":
                return status.sources[named.name].watermark
            case _:
                return status.groups[named.name].min_watermark

    # reading

    def output(self, name: str, *, as_of: int | None = None, complete_to: Moment | None = None) -> Output:
        """The complete rows of a pipeline's output, a table or an external source, chosen and not read yet.

        :raises NotComplete: they are not complete to `complete_to`, or were never published.
        :raises BelowReaderLo: `as_of` is no longer guaranteed to be there.
        """
        from tidegate.project import outputs

        if name in self.spec.lake_owners() and name not in self.spec.pipelines and name not in self.spec.tables:
            return outputs.of_side(self.spec, name, version=as_of)
        named = self.named(name)
        match named.kind:
            case "table":
                known = table_documents.read(self.store, named.name)
                lowest = 0 if known is None else known.readable_from
                found = outputs.of_lake(self.spec, named.name, version=as_of, readable_from=lowest)
                roots: Sequence[str] = sorted({*self._roots(named.name), *found.vector})
            case "pipeline":
                found = outputs.of_pipeline(self.spec, named.name)
                found = found if as_of is None else found.as_of(as_of)
                roots = (self.spec.pipelines[named.name].source,)
            case "source" if named.name in self.spec.externals:
                found = outputs.of_external(self.spec, named.name, self._said_watermark(named.name), version=as_of)
                roots = (named.name,)
            case kind:
                readers = ", ".join(one.name for one in self.spec.readers_of(named.name))
                hint = f"read a pipeline that reads it: {readers}" if readers else "read a pipeline or a table"
                raise errors.ConfigError(where=self.spec.name, what=f"{name} is a {kind}, which has no rows", hint=hint)
        if complete_to is not None:
            found.complete_to({root: _watermark(complete_to, self._kind_of(root), "--complete-to") for root in roots})
        return found

    def read(
        self, name: str, *, as_of: int | None = None, complete_to: Moment | None = None, limit: int | None = None
    ) -> Reading:
        """The complete rows as Arrow, read without Spark; see `output`."""
        from tidegate.project import outputs

        found = self.output(name, as_of=as_of, complete_to=complete_to)
        rows = outputs.to_arrow(found, limit=limit)
        return Reading(name=name, rows=rows, total=found.rows, version=found.version, remarks=found.remarks)

    def frame(
        self,
        name: str,
        *,
        as_of: int | None = None,
        complete_to: Moment | None = None,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """The complete rows as a DataFrame of that Spark session, or of the project's own."""
        from tidegate.project import outputs

        found = self.output(name, as_of=as_of, complete_to=complete_to)
        return outputs.to_frame(found, spark or self.spark.session)

    # moving

    def advance(
        self, source: str, value: Moment, *, part: str | None = None, version: int | None = None, by: str | None = None
    ) -> SourceStatus:
        """Say that the source is complete through `value`; only upward.

        A source that a pipeline reads is listed first: the value takes effect once all that is there
        now is published. Of an external table it speaks of `version`, or of the newest one.
        """
        spec = self._source(source)
        kind = _advanced_kind(spec)
        watermark = _watermark(value, kind, source)
        parts = spec.parts if isinstance(spec, ExternalSpec) else ()
        if isinstance(spec, ExternalSpec):
            self.hear(source)
            ends, version = None, self._external_version(spec, version)
        elif version is not None:
            raise errors.ConfigError(where=spec.where, what=f"{source} is not external; its values have no version")
        else:
            ends = self._ends(spec)
        advances.advance(
            self.store, source, kind, watermark, by=by or whoami(), parts=parts, part=part, version=version, ends=ends
        )
        return self.status().sources[source]

    def control(self, pipeline: str, wanted: Wanted, *, by: str | None = None) -> State:
        """Ask a pipeline to run, pause or stop; its runner reads that within half a second."""
        key = control_key(self._pipeline(pipeline))
        for _ in range(_TRIES):
            found = self.store.get(key)
            document = ControlDocument(wanted=wanted, at_us=to_micros(self.store.now()), by=by or whoami())
            try:
                self.store.put(key, document.to_body(), expect=None if found is None else found.version)
            except errors.VersionConflict:
                continue
            return self._pipeline_status(pipeline).state
        raise errors.LedgerError(what=f"{key} is being written all the time by somebody else")

    def external(self, source: str) -> ExternalSpec:
        """The declaration of a source that somebody else loads."""
        spec = self._source(source)
        if not isinstance(spec, ExternalSpec):
            raise errors.ConfigError(where=spec.where, what=f"{source} is not external; a pipeline loads it")
        return spec

    def hear(self, source: str) -> advances.SourceDocument | None:
        """What is said of an external source, by its commits too: of a load whose process died they alone speak."""
        from tidegate.project import wiring
        from tidegate.sources import loads

        return loads.hear(self.store, self.external(source), wiring.lake_table(self.spec, source, self.clock))

    def load(self, source: str, rows: Any, watermark: Moment, *, part: str | None = None) -> SourceStatus:
        """Append rows to an external table, and say in the same commit that it is complete through `watermark`.

        The value is judged before anything is written; after the commit the ledger is told the version.
        """
        from tidegate.project import outputs

        spec = self.external(source)
        value = _watermark(watermark, _advanced_kind(spec), source)
        by = whoami()
        said = advances.Advance(seq=0, value=value, at_us=to_micros(self.store.now()), by=by, part=part)
        advances.check_part(source, spec.parts, part)
        known = self.hear(source)
        advances.advanced(known or advances.SourceDocument(source=source, kind=value.kind), said)
        version = outputs.append(self.spec, spec, rows, said)
        return self.advance(source, value, part=part, version=version, by=by)

    def refresh(self, name: str, *, force: bool = False, full: bool = False) -> TableStatus:
        """Refresh one table now, if its verdict allows it or `force` says so.

        :raises GateClosed: it waits for a source.
        """
        from tidegate.project import wiring

        if name not in self.spec.tables:
            what = f"there is no table {name}{did_you_mean(name, self.spec.tables)}"
            raise errors.ConfigError(where=self.spec.name, what=what)
        before = self.status().tables[name]
        if before.verdict == "closed" and not force:
            raise errors.GateClosed(table=name, reason=before.reason or "its gate is closed")
        maintainer = wiring.open_maintainer(
            self.spec, self.store, self.spark, only=[name], tell=_nobody_listens, clock=self.clock
        )
        if maintainer is not None:
            maintainer.refresh(name, force=force, full=full)
        return self.status().tables[name]

    def run(
        self,
        names: Sequence[str] = (),
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> RunOutcome:
        """Run pipelines and refresh tables: all, or those named; `once` ends when nothing is left to do."""
        from tidegate.project.running import run_project

        for name in names:
            if name not in self.spec.pipelines and name not in self.spec.tables:
                known = [*self.spec.pipelines, *self.spec.tables]
                raise errors.ConfigError(
                    where=self.spec.name, what=f"there is no pipeline or table {name}{did_you_mean(name, known)}"
                )
        return run_project(
            self.spec,
            self.store,
            names=names,
            once=once,
            stop=stop or threading.Event(),
            on_event=on_event or _nobody_listens,
            clock=self.clock,
        )

    def prune(self, name: str | None = None, *, dry_run: bool = False) -> Sequence[PruneReport]:
        """Take the retention's reader step now, and delete what is due; of one pipeline or all."""
        from tidegate.project.running import prune_project

        names = tuple(self.spec.pipelines) if name is None else (self._pipeline(name),)
        return prune_project(self.spec, self.store, names=names, dry_run=dry_run, clock=self.clock)

    # the ledger, and the versions of a pipeline's document

    def versions(self, pipeline: str) -> Sequence[VersionInfo]:
        """The versions that are kept of a pipeline's document, oldest first."""
        return self.store.versions(state_key(self._pipeline(pipeline)))

    def document(
        self, pipeline: str, *, version: int | None = None, at: datetime | str | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        """A pipeline's document as JSON, with its version: the newest, that one, or the one of that moment.

        :raises LedgerError: there is none, or it is not kept.
        """
        key = state_key(self._pipeline(pipeline))
        if version is not None:
            found = self.store.get_version(key, version)
        elif at is not None:
            from tidegate.ledger.maintenance import AsOf

            found = AsOf(self.store, from_micros(_watermark(at, ValueKind.TIMESTAMP, "--at").value)).get(key)
        else:
            found = self.store.get(key)
        if found is None:
            wanted = "no document yet" if version is None and at is None else "no such version any more"
            raise errors.LedgerError(what=f"{pipeline} has {wanted}", hint=f"see tidegate checkpoints list {pipeline}")
        return found.version, json.loads(found.body)

    def differences(self, pipeline: str, before: int, after: int | None = None) -> Sequence[Difference]:
        """What changed in a pipeline's document between two versions; without the second, up to the newest."""
        from tidegate.ledger.differences import differences

        old, new = self.document(pipeline, version=before)[1], self.document(pipeline, version=after)[1]
        return tuple(differences(old, new))

    def pin(self, pipeline: str, version: int, *, release: bool = False) -> None:
        """Keep that version of a pipeline's document until it is released."""
        key = state_key(self._pipeline(pipeline))
        self.store.unpin(key, version) if release else self.store.pin(key, version)
        self._remember("released" if release else "pinned", key, version=version)

    def rollback_plan(self, pipeline: str, to: int) -> RollbackPlan:
        """What going back to where checkpoint `to` was the last one would do."""
        from tidegate.pipelines.rollback import plan_rollback

        document = read_state(self.store, self._pipeline(pipeline))
        if document is None:
            raise errors.LedgerError(what=f"{pipeline} has not run yet; there is nothing to go back from")
        return plan_rollback(document, to)

    def check_ledger(self, *, recover: bool = False) -> tuple[Checked, Sequence[tuple[str, int, int]]]:
        """Read every version of every document; with `recover` the newest good one is put above a damaged head.

        What was recovered is (key, the version it was taken from, its new version).
        """
        from tidegate.ledger import maintenance

        found = maintenance.check(self.store)
        damaged = [one for one in found.findings if one.is_head and one.newest_good is not None] if recover else []
        recovered = [(one.key, *maintenance.recover(self.store, one.key)) for one in damaged]
        for key, taken, made in recovered:
            self._remember("recovered", key, taken_from=taken, version=made)
        return found, recovered

    def export_ledger(self, file: IO[str]) -> Copied:
        """Write every document with its versions to the file."""
        from tidegate.ledger import maintenance

        return maintenance.export(self.store, file)

    def import_ledger(self, file: Iterable[str]) -> Copied:
        """Take an export into the project's ledger, which must be empty."""
        from tidegate.ledger import maintenance

        copied = maintenance.import_(file, self.store)
        self._remember("imported", self.store.url, documents=copied.documents)
        return copied

    def copy_ledger(self, to: str) -> Copied:
        """Take every document with its versions over to the empty ledger at that URL, while nothing runs."""
        from tidegate.ledger import audit, maintenance
        from tidegate.ledger.stores import open_store

        with open_store(to, root=self.spec.root, clock=self.clock) as target:
            copied = maintenance.copy(self.store, target)
            audit.write(target, by=whoami(), action="copied", subject=self.store.url, documents=copied.documents)
        return copied

    def _remember(self, action: str, subject: str, **detail: Any) -> None:
        from tidegate.ledger import audit

        audit.write(self.store, by=whoami(), action=action, subject=subject, **detail)

    # pieces

    def _pipeline(self, name: str) -> str:
        if name not in self.spec.pipelines:
            what = f"there is no pipeline {name}{did_you_mean(name, self.spec.pipelines)}"
            raise errors.ConfigError(where=self.spec.name, what=what)
        return name

    def _source(self, name: str) -> SourceSpec:
        if name not in self.spec.sources:
            what = f"there is no source {name}{did_you_mean(name, self.spec.sources)}"
            raise errors.ConfigError(where=self.spec.name, what=what)
        return self.spec.sources[name]

    def _kind_of(self, source: str) -> ValueKind:
        return self.spec.sources[source].watermark.value_kind

    def _said_watermark(self, source: str) -> Watermark | None:
        return advances.watermark(advances.read(self.store, source), self.external(source).parts)

    def _ends(self, spec: SourceSpec) -> Mapping[str, int] | None:
        """How far a source that pipelines read reaches now."""
        from tidegate.project import wiring
        from tidegate.sources.contract import ONLY_PART, CutSource, NumberingSource

        if not self.spec.readers_of(spec.name):
            return None
        source = wiring.open_source(self.spec, spec, self.store, self.clock)
        try:
            match source:
                case CutSource():
                    return source.ends().ends
                case NumberingSource():
                    seen = source.discover(Range(0, 0)).highest
                    return {ONLY_PART: 0 if seen is None else seen + 1}
                case _:
                    return None
        finally:
            source.close()

    def _external_version(self, spec: ExternalSpec, version: int | None) -> int:
        from tidegate.project import outputs

        return outputs.external_version(self.spec, spec, version)

    def _sources(
        self, pipelines: Mapping[str, PipelineStatus], facts: Mapping[str, PipelineFacts], now_us: int
    ) -> dict[str, SourceStatus]:
        groups = tuple(self.spec.groups.values())
        return {
            name: source_views.source_status(self._source_facts(spec, pipelines, facts), groups, now_us)
            for name, spec in self.spec.sources.items()
        }

    def _source_facts(
        self, spec: SourceSpec, pipelines: Mapping[str, PipelineStatus], facts: Mapping[str, PipelineFacts]
    ) -> SourceFacts:
        document = advances.read(self.store, spec.name) if spec.watermark.is_advanced else None
        readers = tuple(one.name for one in self.spec.readers_of(spec.name))
        updated = [state.updated_us for name in readers if (state := facts[name].document) is not None]
        heard = None if document is None else document.heard_at_us
        return SourceFacts(
            spec=spec,
            document=document,
            pipelines=tuple(pipelines[name] for name in readers),
            heard_us=heard if spec.watermark.is_advanced else max(updated, default=None),
        )

    def _tables(self) -> dict[str, TableStatus]:
        from tidegate.project import wiring

        if not self.spec.tables:
            return {}
        from tidegate.tables.facts import gather

        found = gather(self.spec, self.store, wiring.lake(self.spec, self.clock))
        return {name: table_views.table_status(facts) for name, facts in found.items()}

    def _roots(self, table: str) -> frozenset[str]:
        """The sources that everything in a table stems from."""
        from tidegate.tables.facts import known_graph

        known = table_documents.read_all(self.store)
        return known_graph(self.spec, known).nodes[table].roots

    def _found(self, prefix: str) -> Mapping[str, Mapping[str, Versioned]]:
        """The documents of each pipeline, in one call: a thousand pipelines are one question, not four thousand."""
        found: dict[str, dict[str, Versioned]] = {}
        for one in self.store.scan(prefix):
            found.setdefault(one.key.split("/")[1], {})[one.key] = one
        return found

    def _facts_of(self, name: str, found: Mapping[str, Versioned]) -> PipelineFacts:
        # A store that cannot show all of it at one moment lists before it reads: a plan that is published in
        # between is then below the mark, whereas the other order would show its numbers as a gap.
        control, state = found.get(control_key(name)), found.get(state_key(name))
        plans = plans_prefix(name)
        return PipelineFacts(
            spec=self.spec.pipelines[name],
            document=None if state is None else PipelineDocument.from_body(state.body),
            control=None if control is None else ControlDocument.from_body(control.body),
            planned=RangeSet(range_of_plan_key(key) for key in found if key.startswith(plans)),
            lease=leases.seen(self.store, found.get(lease_key(name))),
        )

    def _pipeline_status(self, name: str) -> PipelineStatus:
        facts = self._facts_of(name, self._found(f"pipelines/{name}/").get(name, {}))
        return pipeline_views.pipeline_status(facts, to_micros(self.store.now()))


def whoami() -> str:
    """Who is asking, for the record: `loader@etl-1`."""
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user often has no name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def _nobody_listens(event: str, facts: Mapping[str, object]) -> None:
    """What a run does when nobody wants to know."""


def _duration_us(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise errors.ConfigError(where="--timeout", what=str(exc)) from None


def _watermark(value: Moment, kind: ValueKind | None, where: str) -> Watermark:
    """The value as a watermark; naive times and other kinds are refused with what works."""
    try:
        match value:
            case Watermark():
                given = value
            case datetime():
                given = Watermark.of_micros(to_micros(value))
            case int():
                given = Watermark.of_integer(value)
            case _:
                return parse_watermark(value, kind)
    except ValueError as exc:
        raise errors.ConfigError(where=where, what=str(exc)) from None
    if kind is not None and given.kind is not kind:
        raise errors.MixedKinds(where=where, what=f"{given.text} is not {_article(kind)}")
    return given


def _article(kind: ValueKind) -> str:
    return "a time" if kind is ValueKind.TIMESTAMP else "a whole number"


def _advanced_kind(spec: SourceSpec) -> ValueKind:
    match spec.watermark:
        case WatermarkKind.TIMESTAMP:
            return ValueKind.TIMESTAMP
        case WatermarkKind.INTEGER:
            return ValueKind.INTEGER
        case WatermarkKind.EVENT_TIME:
            why = (
                f"its watermark comes from the event times of its rows ({spec.event_time.column})"
                if spec.event_time
                else ""
            )
        case WatermarkKind.CHECKPOINT:
            why = "its watermark is the number of the checkpoint that was published last"
    raise errors.ConfigError(
        where=spec.where,
        what=f"{spec.name} cannot be advanced: {why}",
        hint=f"say `watermark: timestamp` for source {spec.name} if a loader is to advance it",
    )


def _checkpoint_ranges(status: PipelineStatus) -> Iterator[CheckpointRange]:
    found: list[CheckpointRange] = []

    def add(numbers: RangeSet | Range, state: str, note: str | None = None) -> None:
        for span in RangeSet.of(numbers) if isinstance(numbers, Range) else numbers:
            if span:
                first, last = span.inclusive
                found.append(CheckpointRange(first=first, last=last, state=state, note=note))

    hi, published, lo = status.checkpoint_hi_inclusive, status.published_hi_inclusive, status.reader_lo
    if hi is not None and lo is not None:
        if status.pruner_hi is not None and status.pruner_hi + 1 < lo:
            add(Range(status.pruner_hi + 1, lo), "given up", "deleted once readers had time to finish")
        seen = lo if published is None else max(lo, published + 1)
        add(Range(lo, min(seen, hi + 1)), "published")
        add(Range(min(seen, hi + 1), hi + 1), "committed", "not visible yet")
    failed = RangeSet(span for one in status.failures for span in one.numbers)
    for one in status.failures:
        add(one.numbers & status.gaps, "failed", one.message)
    add(status.orphaned - failed, "orphaned", "planned by a runner that is gone")
    add(status.gaps - failed - status.orphaned, "missing")
    add(status.in_flight, "in flight")
    add(status.ahead, "ahead", "committed, waits for a gap below")
    return iter(sorted(found, key=lambda one: one.first))
