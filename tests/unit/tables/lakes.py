"""Lake tables and external ones on the disk, with a few commits, and a keeper of tables that has no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import errors
from tidegate.lake import schemas
from tidegate.lake.log import DataFile, Kind, Metadata
from tidegate.lake.table import LakeTable
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore, Shelf
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.sources import advances, loads
from tidegate.sources.advances import Advance, SourceDocument
from tidegate.tables import documents
from tidegate.tables.contents import How, Made, metadata_of
from tidegate.tables.documents import TableDocument
from tidegate.tables.facts import gather
from tidegate.tables.graph import Declared
from tidegate.tables.judge import Facts, judge
from tidegate.tables.maintainer import Maintainer, Workshop
from tidegate.testing.clock import ManualClock

SHAPE = schemas.new_shape(schemas.of_columns({"id": "long"}), (), created_us=0)


def n(value: int) -> Watermark:
    return Watermark.of_integer(value)


def vector(**values: int) -> Vector:
    return Vector({source: n(value) for source, value in values.items()})


class NoSpark:
    """A Spark that is never there: who needs one is told so."""

    def job(self, pipeline: str, tag: str) -> Any:
        raise errors.SparkUnavailable(why="this test has none")


@dataclass(slots=True)
class World:
    """What a project has on the disk and in its ledger, and the clock of both."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)
    tables: dict[str, LakeTable] = field(default_factory=dict)
    said: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, shelf=self.shelf)

    def lake(self, name: str) -> LakeTable:
        if name not in self.tables:
            self.tables[name] = LakeTable(str(self.root / name), name, clock=self.clock)
        return self.tables[name]

    # what pipelines and tables do to their own

    def publish(self, name: str, watermark: int | None, **more: Any) -> int:
        """A publish of the pipeline `name`, whose source has the same name, with a file of its own."""
        known = vector() if watermark is None else vector(**{name: watermark})
        return self.commit(name, Kind.PUBLISH, vector=known, **more)

    def commit(self, name: str, kind: Kind, *, removed: tuple[str, ...] = (), **more: Any) -> int:
        table = self.lake(name)
        before = table.metadata()
        number = 0 if before is None else table.head().version + 1  # type: ignore[union-attr]
        added = (file(f"data/{number}.parquet"),) if kind in (Kind.PUBLISH, Kind.REFRESH) else ()
        if before is not None and kind is not Kind.PUBLISH and kind is not Kind.REFRESH:
            more = {"vector": before.vector, "reader_lo": before.reader_lo, **more}
        said = Metadata(kind=kind, table=name, owner=name, epoch=1, token=1, end=number + 1, **more)
        gone = [one for one in table.files() if one.path in removed]
        return table.commit(said, added=added, removed=gone, shape=SHAPE if before is None else None).version

    def prune(self, name: str, *paths: str, reader_lo: int) -> int:
        return self.commit(name, Kind.PRUNE, removed=paths, reader_lo=reader_lo)

    # what loaders do

    def append(self, name: str, word: str | None = None) -> int:
        """A commit of somebody else to an external table."""
        log = self.root / name / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        version = len(list(log.glob("*.json")))
        info: dict[str, object] = {"timestamp": 0, "operation": "WRITE"}
        if word is not None:
            info["userMetadata"] = word
        add = {"path": f"{version}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0}
        lines = [{"commitInfo": info}, {"add": {**add, "dataChange": True}}]
        (log / f"{version:020d}.json").write_text(
            "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        )
        return version

    def load(self, name: str, watermark: int, part: str | None = None) -> int:
        """A commit that carries its word, by a loader that died before it told the ledger."""
        said = Advance(seq=0, value=n(watermark), at_us=1, by="loader", part=part)
        return self.append(name, loads.word(name, said))

    def advance(self, name: str, value: int, version: int | None = None, **more: Any) -> SourceDocument:
        return advances.advance(self.store, name, n(value).kind, n(value), by="loader", version=version, **more)

    def show(self, declared: Declared, name: str) -> int:
        """What a run with Spark would commit now, over a file that nobody reads here."""
        facts = self.facts(declared, name)
        said = metadata_of(facts, judge(facts), token=1, how=How.FULL, made=Made(rows=1, schema_fp="x"))
        return self.commit(name, Kind.REFRESH, **{one: getattr(said, one) for one in _SAID})

    # looking

    def facts(self, declared: Declared, name: str) -> Facts:
        return gather(declared, self.store, self.lake)[name]

    def maintainer(self, declared: Declared, *only: str) -> Maintainer:
        """Who keeps the tables, or only those named, without a Spark."""
        workshop = Workshop(
            declared=declared,
            store=self.store,
            lake=self.lake,
            spark=NoSpark(),  # type: ignore[arg-type]
            clock=self.clock,
            tell=lambda event, facts: self.said.append((event, facts)),
        )
        return Maintainer(workshop, only or tuple(declared.tables))

    def document(self, name: str) -> TableDocument:
        found = documents.read(self.store, name)
        assert found is not None
        return found


#: What a refresh says of its contents.
_SAID = ("vector", "frontier", "effective", "ungated", "definition", "extra", "rows")


def file(path: str) -> DataFile:
    return DataFile(path=path, size_bytes=1, rows=1, modified_ms=0)
