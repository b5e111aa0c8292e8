"""Tidegate in Python: `tg.open`, `tg.load`, `tg.attach`. Thin: each call is one of `Service`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidegate import errors
from tidegate.pipelines.documents import Wanted
from tidegate.service import Moment, Service
from tidegate.views.values import Explanation, SourceStatus, State, Status, TableStatus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.progress.watermarks import Watermark
    from tidegate.project.running import PruneReport, RunOutcome


class Project:
    """A project folder, opened. Use it in a `with`, or `close` it."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def name(self) -> str:
        return self.service.spec.name

    @property
    def root(self) -> Path:
        return self.service.spec.root

    def run(self, *names: str, once: bool = False) -> RunOutcome:
        """Run pipelines and refresh tables: all, or those named; `once` ends when nothing is left to do."""
        return self.service.run(names, once=once)

    def status(self) -> Status:
        """Where everything stands: `status().pipelines["orders"].checkpoint_hi_inclusive`."""
        return self.service.status()

    def explain(self, name: str) -> Explanation:
        """Why something stands where it stands, and what would move it."""
        return self.service.explain(name)

    def read(
        self,
        name: str,
        *,
        complete_to: Moment | None = None,
        as_of: int | None = None,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """The complete rows as a Spark DataFrame.

        :raises NotComplete: at once, when they are not complete to `complete_to`.
        """
        return self.service.frame(name, complete_to=complete_to, as_of=as_of, spark=spark)

    def advance(
        self, source: str, value: Moment, *, part: str | None = None, version: int | None = None
    ) -> SourceStatus:
        """Say that a source is complete through `value`; a time needs its zone."""
        return self.service.advance(source, value, part=part, version=version)

    def refresh(self, table: str, *, force: bool = False, full: bool = False) -> TableStatus:
        """Refresh one table now, if its verdict allows it."""
        return self.service.refresh(table, force=force, full=full)

    def wait(self, name: str, until: Moment, *, timeout: str = "10m") -> Watermark:
        """Return once it is complete to `until`; NotComplete when the time is up."""
        return self.service.wait(name, until, timeout=timeout)

    def pause(self, pipeline: str) -> State:
        """Let a pipeline finish what is in flight, and plan nothing new."""
        return self.service.control(pipeline, Wanted.PAUSE)

    def resume(self, pipeline: str) -> State:
        """Let a paused or stopped pipeline go on."""
        return self.service.control(pipeline, Wanted.RUN)

    def stop(self, pipeline: str) -> State:
        """Let a pipeline finish what is in flight and end, until it is resumed."""
        return self.service.control(pipeline, Wanted.STOP)

    def prune(self, pipeline: str | None = None, *, dry_run: bool = False) -> list[PruneReport]:
        """Take the retention's reader step now, and delete what is due."""
        return list(self.service.prune(pipeline, dry_run=dry_run))

    def close(self) -> None:
        """Let go of the ledger, and of Spark where it was started here."""
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tidegate project {self.name} in {self.root}>"


def open(folder: Path | str | None = None) -> Project:  # noqa: A001  read as tg.open
    """The project in that folder, or without one the nearest upward from here."""
    return Project(Service.open(folder))


class Loader:
    """Loads an external table: rows, and how far they are complete, in one commit."""

    def __init__(self, project: Project, source: str) -> None:
        self._service = project.service
        self._source = source

    def append(self, rows: Any, *, watermark: Moment, part: str | None = None) -> SourceStatus:
        """Append the rows and say that the table is complete through `watermark` with them.

        `rows` are a Spark DataFrame, or anything of Arrow. A watermark that the source cannot take is
        refused before anything is written.
        """
        return self._service.load(self._source, rows, watermark, part=part)


def load(project: Project, source: str) -> Loader:
    """A loader of an `external` source: `tg.load(project, "fx_rates").append(df, watermark=...)`.

    A load that died between its commit and the ledger is heard here, so that
    `project.status().sources["fx_rates"].watermark` is what to go on from.
    """
    project.service.hear(source)
    return Loader(project, source)


def attach(spark: SparkSession, project: Project) -> list[str]:
    """Views of every pipeline and table as they are complete now, and functions about them in SQL.

    `watermarks()`, `watermark_groups()` and `watermark_status()` are table functions that always tell
    the newest; a view is replaced when `attach` is called again. Gives the names of the views; what
    has nothing published yet has none.
    """
    names = [*project.service.spec.pipelines, *project.service.spec.tables]
    attached = []
    for name in names:
        try:
            project.read(name, spark=spark).createOrReplaceTempView(name)
        except (errors.NotComplete, errors.ConfigError):
            continue
        attached.append(name)
    for function, (columns, section, fields) in _FUNCTIONS.items():
        spark.udtf.register(function, _told(str(project.root), columns, section, fields))
    return attached


# What the SQL functions tell: columns, the section of `status --json`, and its fields.
_FUNCTIONS = {
    "watermarks": (
        "name STRING, watermark STRING, kind STRING, advanced_at TIMESTAMP, advanced_by STRING, pending STRING",
        "sources",
        ("name", "watermark", "kind", "advanced_at", "advanced_by", "pending"),
    ),
    "watermark_groups": (
        "name STRING, sources ARRAY<STRING>, tolerance STRING, state STRING",
        "groups",
        ("name", "sources", "tolerance", "state"),
    ),
    "watermark_status": (
        "name STRING, min_watermark STRING, max_watermark STRING, lag STRING, aligned BOOLEAN, "
        "effective_watermark STRING",
        "groups",
        ("name", "min_watermark", "max_watermark", "lag", "aligned", "effective_watermark"),
    ),
}


def _told(root: str, columns: str, section: str, fields: tuple[str, ...]) -> Any:
    """A table function that tells a section of the status; it runs in a worker, which opens the project itself."""
    from pyspark.sql.functions import udtf  # noqa: PLC0415  only for who has Spark already

    class Told:
        def eval(self) -> Iterator[tuple[Any, ...]]:
            try:
                from tidegate.service import Service as Opened  # noqa: PLC0415  in the worker
                from tidegate.views.values import as_json  # noqa: PLC0415  in the worker
            except ModuleNotFoundError as missing:
                what = f"the Python of Spark's workers has no module {missing.name}: set PYSPARK_PYTHON to one that has"
                raise RuntimeError(what) from None

            with Opened.open(root) as service:
                found = as_json(service.status())[section]
            for one in found:
                yield tuple(_sql_value(name, one[name]) for name in fields)

    def _sql_value(name: str, value: Any) -> Any:
        if name.endswith("_at"):
            return None if value is None else datetime.fromisoformat(value)
        return value if isinstance(value, (bool, str, list, type(None))) else json.dumps(value)

    return udtf(Told, returnType=columns, useArrow=False)
