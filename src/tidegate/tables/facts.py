"""Gathers what the verdict on a table depends on, from the lake and the ledger. Light."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Final

from tidegate import errors
from tidegate.clock import to_micros
from tidegate.lake.log import Version
from tidegate.ledger.contract import Store
from tidegate.pipelines import documents as pipeline_documents
from tidegate.progress.cut import InputState, Problem
from tidegate.progress.groups import Group
from tidegate.quick import dataclass
from tidegate.sources import advances, loads
from tidegate.sources.specs import ExternalSpec
from tidegate.tables import documents, graph, inputs, scan
from tidegate.tables.declare import Over, TableSpec
from tidegate.tables.documents import TableDocument
from tidegate.tables.graph import Declared, Graph, Input, InputKind, Node, Reference
from tidegate.tables.inputs import Lake
from tidegate.tables.judge import Facts

if TYPE_CHECKING:
    from tidegate.lake.table import LakeTable


#: What the ledger holds and nobody can read: it closes the gate of who needs it, and of nobody else.
_UNREADABLE: Final = (errors.CorruptCheckpoint, errors.NewerFormat)


def known_graph(declared: Declared, known: Mapping[str, TableDocument]) -> Graph:
    """The graph as it was last parsed; of a table that is new or changed, at a glance. For `status`."""

    def references(spec: TableSpec) -> tuple[Reference, ...]:
        document = known.get(spec.name)
        if document is not None and document.definition == spec.definition and document.is_planned:
            return document.references
        return scan.references(spec)

    return graph.build(declared, references, strict=False)


@dataclass(slots=True, kw_only=True)
class Gatherer:
    """Facts about the tables of a project. What sources said is read once; the lake at every question."""

    declared: Declared
    graph: Graph
    store: Store
    lake: Lake
    _advances: dict[str, advances.SourceDocument | None] = field(default_factory=dict)
    _heard: dict[str, int] = field(default_factory=dict)  # source → the version up to which its commits were heard

    def facts(self, name: str, document: TableDocument | None) -> Facts:
        """All that is known of one table now."""
        spec, node = self.declared.tables[name], self.graph.nodes[name]
        own, problem = _own(self.lake(name))
        frontier = {} if own is None or own.metadata is None else own.metadata.frontier
        known = document or TableDocument(table=name)
        by_table = {one.table: one for one in node.inputs}
        groups = tuple(self.declared.groups[group] for group in node.groups)
        heard_us: dict[str, int | None] = {}
        try:
            heard_us = {source: self.heard_us(source) for group in groups for source in _watched(group, node)}
        except _UNREADABLE as failed:
            problem = problem or Problem(code=failed.code, text=failed.message)
        return Facts(
            spec=spec,
            node=node,
            inputs=tuple(self._state(one, spec, node, frontier.get(table), known) for table, one in by_table.items()),
            groups=groups,
            own=own,
            problem=problem,
            document=document,
            heard_us=heard_us,
            now_us=to_micros(self.store.now()),
        )

    def forget(self) -> None:
        """Look again at what sources said."""
        self._advances.clear()

    def hear(self) -> None:
        """Take what the commits of external tables say into the ledger; see `loads`."""
        read = {one.table for node in self.graph.nodes.values() for one in node.inputs}
        for name in sorted(read):
            spec = self.declared.sources.get(name)
            if isinstance(spec, ExternalSpec):
                with suppress(errors.LakeError, *_UNREADABLE):  # judging the table tells what is wrong with it
                    table = self.lake(name)
                    self._advances[name] = loads.hear(self.store, spec, table, after=self._heard.get(name, -1))
                    head = table.known_head()
                    self._heard[name] = -1 if head is None else head.version

    def heard_us(self, source: str) -> int | None:
        """When a source was last heard of: its loader, or the pipeline that reads it."""
        spec = self.declared.sources.get(source)
        if spec is not None and spec.watermark.is_advanced:
            document = self._advanced(source)
            return None if document is None else document.heard_at_us
        states = [
            pipeline_documents.read_state(self.store, pipeline.name)
            for pipeline in self.declared.pipelines.values()
            if pipeline.source == source
        ]
        return max((state.updated_us for state in states if state is not None), default=None)

    def _state(
        self, one: Input, spec: TableSpec, node: Node, frontier: int | None, document: TableDocument
    ) -> InputState:
        table = self.lake(one.table)
        source = self.declared.sources.get(one.table)
        try:
            if one.kind is InputKind.EXTERNAL and isinstance(source, ExternalSpec):
                return inputs.of_external(
                    one,
                    table,
                    self._advanced(one.table),
                    mode=node.mode,
                    parts=source.parts,
                    frontier=frontier,
                    gone=document.gone.get(one.table),
                )
            return inputs.of_lake(
                one,
                table,
                mode=node.mode,
                frontier=frontier,
                advanced=one.kind is InputKind.PIPELINE and self._is_advanced(one),
                retained=spec.over is Over.RETAINED,
                whole_from=self._whole_from(one, document),
            )
        except _UNREADABLE as failed:
            problem = Problem(code=failed.code, text=failed.message)
            return InputState(name=one.table, roots=one.roots, problem=problem)

    def _whole_from(self, one: Input, document: TableDocument) -> int | None:
        """The oldest version of the input whose files are there; None where only its log can tell."""
        if one.kind is InputKind.TABLE:
            above = documents.read(self.store, one.table)
            return 0 if above is None else above.readable_from
        return document.oldest.get(one.table)

    def _is_advanced(self, one: Input) -> bool:
        return any(
            source.watermark.is_advanced
            for root in one.roots
            if (source := self.declared.sources.get(root)) is not None
        )

    def _advanced(self, source: str) -> advances.SourceDocument | None:
        if source not in self._advances:
            self._advances[source] = advances.read(self.store, source)
        return self._advances[source]


def _watched(group: Group, node: Node) -> Iterator[str]:
    """The sources that a group is stuck without, as far as they are in the table."""
    if group.stuck_after_us is not None:
        yield from (source for source in group.sources if source in node.roots)


def _own(table: LakeTable) -> tuple[Version | None, Problem | None]:
    try:
        head = table.head()
    except errors.LakeError as failed:
        return None, Problem(code=failed.code, text=failed.message)
    if head is not None and head.metadata is None:
        what = f"version {head.version} of {table.name} was committed by somebody else, and only Tidegate writes it"
        return None, Problem(code=errors.NotOurs.code, text=what)
    return head, None


def gather(declared: Declared, store: Store, lake: Lake) -> dict[str, Facts]:
    """The facts about all tables, for `status` and `explain`: without a parser, and without Spark."""
    known = documents.read_all(store) if declared.tables else {}
    gatherer = Gatherer(declared=declared, graph=known_graph(declared, known), store=store, lake=lake)
    return {name: gatherer.facts(name, known.get(name)) for name in declared.tables}
