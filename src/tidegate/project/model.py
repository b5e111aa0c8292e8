"""A project as values: everything that its files declare, checked, and nothing opened yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from tidegate.pipelines.declare import DEAD_SUFFIX, LATE_SUFFIX, Late, PipelineSpec
from tidegate.progress.groups import Group
from tidegate.project import places
from tidegate.project.secrets import Url
from tidegate.quick import dataclass
from tidegate.sinks.specs import DeltaSinkSpec
from tidegate.sources.specs import ExternalSpec, SourceSpec
from tidegate.spark.settings import SparkSettings
from tidegate.tables.declare import TableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpec:
    """A project. `root` is absolute; `lake` is the absolute folder of the lake tables.

    Everything is by name, in the order of the files.
    """

    name: str
    root: Path
    ledger: Url
    lake: str
    spark: SparkSettings
    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineSpec] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    tables: Mapping[str, TableSpec] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        """The folder of what Tidegate keeps for itself on this machine: logs, caches, the default ledger."""
        return self.root / places.STATE

    @property
    def externals(self) -> Mapping[str, ExternalSpec]:
        """The sources that somebody else loads."""
        return {name: source for name, source in self.sources.items() if isinstance(source, ExternalSpec)}

    def lake_owners(self) -> Mapping[str, str]:
        """Every lake table of this project and the pipeline or table that writes it."""
        owners = {name: name for name in self.tables}
        for pipeline in self.pipelines.values():
            owners |= {sink.table: pipeline.name for sink in pipeline.sinks if isinstance(sink, DeltaSinkSpec)}
            owners |= {side.table: pipeline.name for side in side_sinks(pipeline)}
        return owners

    def readers_of(self, source: str) -> tuple[PipelineSpec, ...]:
        """The pipelines that read the source."""
        return tuple(pipeline for pipeline in self.pipelines.values() if pipeline.source == source)

    def table_url(self, table: str) -> str:
        """Where a lake table is, or the table of an external source."""
        external = self.externals.get(table)
        if external is not None:
            return str(places.absolute(self.root, external.table))
        return f"{self.lake}/{table}"


def side_sinks(pipeline: PipelineSpec) -> tuple[DeltaSinkSpec, ...]:
    """The side tables that a pipeline keeps: its dead letters, and its late rows where it keeps them aside."""
    suffixes = (DEAD_SUFFIX, LATE_SUFFIX) if pipeline.late is Late.SIDE else (DEAD_SUFFIX,)
    return tuple(
        DeltaSinkSpec(name=suffix, table=f"{pipeline.name}{suffix}", where=pipeline.where) for suffix in suffixes
    )
