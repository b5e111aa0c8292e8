"""What a reader of a pipeline's output or a table gets: the files that are complete, chosen before any is opened.

Of a lake table its log decides, of a parquet sink its manifest, of an external table the log of its
writer. Choosing needs neither Spark nor Arrow; reading the choice does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidegate import effects, errors
from tidegate.lake.log import DataFile, Kind, entry_path
from tidegate.lake.storage import Storage
from tidegate.progress.watermarks import Vector, Watermark
from tidegate.project import places, wiring
from tidegate.project.model import ProjectSpec
from tidegate.sinks.specs import DeltaSinkSpec, ParquetSinkSpec
from tidegate.sources import loads
from tidegate.sources.advances import Advance
from tidegate.sources.specs import ExternalSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession


class Layout(Enum):
    """Who says which files count."""

    LAKE = "lake"
    PARQUET = "parquet"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The rows of something at one version, not read yet. `remarks` are what a reader should know of the choice."""

    name: str
    layout: Layout
    url: str
    version: int
    files: tuple[DataFile, ...] = ()
    schema: str | None = None
    vector: Vector = field(default_factory=Vector)
    reader_lo: int | None = None
    end: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """How many rows that are; None where that is not known before they are read."""
        return None if self.layout is Layout.EXTERNAL else sum(file.rows for file in self.files)

    def complete_to(self, wanted: Mapping[str, Watermark]) -> Output:
        """This output, when each of the sources is complete in it to what is wanted.

        :raises NotComplete: it is not; nothing is waited for.
        """
        for source, asked in wanted.items():
            current = self.vector.get(source)
            if current is None or current < asked:
                at = "nothing" if current is None else current.text
                raise errors.NotComplete(name=self.name, current=at, asked=asked.text)
        return self

    def as_of(self, checkpoint: int) -> Output:
        """The rows of the checkpoints up to that one; files hold whole batches, so it may be less, and says so.

        :raises BelowReaderLo: readers have given those up.
        :raises NotComplete: it is not published yet.
        """
        if self.reader_lo is not None and checkpoint < self.reader_lo:
            raise errors.BelowReaderLo(name=self.name, reader_lo=self.reader_lo, asked=checkpoint)
        if self.end is None or checkpoint >= self.end:
            at = "nothing" if self.end is None else f"checkpoint {self.end - 1}"
            raise errors.NotComplete(
                name=self.name, current=at, asked=f"checkpoint {checkpoint}", hint=f"see tidegate explain {self.name}"
            )
        edge, files = rounded(self.files, checkpoint + 1)
        if not files and edge <= checkpoint:
            first = min(one.range.hi for one in self.files if one.range is not None) - 1
            hint = f"files hold whole batches, and the first ends with {first}: read at {first} or later"
            raise errors.BelowReaderLo(name=self.name, reader_lo=first, asked=f"checkpoint {checkpoint}", hint=hint)
        remarks = self.remarks
        if edge <= checkpoint:
            told = f"as of checkpoint {edge - 1}: the files hold whole batches, and {checkpoint} lies inside one"
            remarks = (*remarks, told)
        return replace(self, files=files, end=edge, remarks=remarks)


def rounded(files: Sequence[DataFile], end: int) -> tuple[int, tuple[DataFile, ...]]:
    """The edge of a file at or below `end`, and the files below it."""
    while True:
        across = [one.range.lo for one in files if one.range is not None and one.range.lo < end < one.range.hi]
        if not across:
            return end, tuple(one for one in files if one.range is None or one.range.hi <= end)
        end = min(across)


def of_pipeline(spec: ProjectSpec, name: str) -> Output:
    """What readers of a pipeline see: the table of its main sink."""
    sink = spec.pipelines[name].main_sink
    match sink:
        case DeltaSinkSpec():
            return of_lake(spec, sink.table, name=name)
        case ParquetSinkSpec():
            return _of_parquet(str(places.absolute(spec.root, sink.path)), name)


def of_side(spec: ProjectSpec, table: str, *, version: int | None = None) -> Output:
    """A lake table that is written beside the main one, such as the dead letters of a pipeline."""
    try:
        return of_lake(spec, table, version=version)
    except errors.NotYetPublished:
        hint = f"{spec.lake_owners()[table]} writes it, and had no row for it so far"
        raise errors.NotYetPublished(name=table, hint=hint) from None


def of_lake(
    spec: ProjectSpec, table: str, *, name: str | None = None, version: int | None = None, readable_from: int = 0
) -> Output:
    """A lake table of ours, at its newest version or an older one.

    :raises NotYetPublished: nothing was ever published in it.
    :raises NotComplete: there is no such version yet.
    :raises BelowReaderLo: the files of that version may be gone; `readable_from` is the oldest that is whole.
    """
    name = name or table
    lake = wiring.lake_table(spec, table)
    head = lake.head()
    if head is None:
        raise errors.NotYetPublished(name=name)
    chosen = head if version is None else lake.version(checked(version, name, readable_from, head.version))
    said = chosen.metadata
    if said is None:
        raise errors.NotOurs(table=table, what=f"version {chosen.version} was not made by Tidegate")
    if said.end is None and not said.frontier and said.kind in (Kind.CREATE, Kind.CLAIM):
        raise errors.NotYetPublished(name=name)
    shape = lake.shape(chosen.version)
    return Output(
        name=name,
        layout=Layout.LAKE,
        url=lake.url,
        version=chosen.version,
        files=lake.files(chosen.version),
        schema=None if shape is None else shape.schema_json,
        vector=said.vector,
        reader_lo=said.reader_lo,
        end=said.end,
        remarks=(f"{name} is ungated: a source of its group had not reported yet",) if said.ungated else (),
    )


def checked(version: int, name: str, lowest: int, head: int) -> int:
    """The version, when it is there."""
    if version > head:
        hint = f"the newest version is {head}"
        raise errors.NotComplete(name=name, current=f"version {head}", asked=f"version {version}", hint=hint)
    if version < lowest:
        raise errors.BelowReaderLo(name=name, reader_lo=f"version {lowest}", asked=f"version {version}")
    return version


def _of_parquet(url: str, name: str) -> Output:
    from tidegate.sinks.parquet import read_manifest  # noqa: PLC0415  PyArrow

    manifest = read_manifest(url, name=name)
    if manifest is None or manifest.end is None:
        raise errors.NotYetPublished(name=name)
    return Output(
        name=name,
        layout=Layout.PARQUET,
        url=url,
        version=manifest.version,
        files=tuple(manifest.files),
        vector=manifest.vector,
        reader_lo=manifest.reader_lo,
        end=manifest.end,
    )


# external tables


def of_external(spec: ProjectSpec, source: str, watermark: Watermark | None, *, version: int | None = None) -> Output:
    """An external table at its newest version or an older one, as complete as its loader said."""
    head = _head_of(spec, source)
    return Output(
        name=source,
        layout=Layout.EXTERNAL,
        url=spec.table_url(source),
        version=head if version is None else checked(version, source, 0, head),
        vector=Vector() if watermark is None else Vector({source: watermark}),
    )


def external_version(spec: ProjectSpec, source: ExternalSpec, version: int | None) -> int:
    """The version of an external table that an advance speaks of: the one it names, or the newest."""
    head = _head_of(spec, source.name)
    if version is None:
        return head
    storage = wiring.lake_table(spec, source.name).storage
    if not 0 <= version <= head or not storage.has(entry_path(version)):
        what = f"{source.name} has no version {version}; its newest is {head}"
        raise errors.ConfigError(where="--version", what=what)
    return version


def append(spec: ProjectSpec, source: ExternalSpec, rows: Any, said: Advance) -> int:
    """Append rows to an external table in one commit that also carries what its loader said; the new version.

    Rows of Spark are written by Spark, anything else as Arrow from here.
    """
    from deltalake import CommitProperties, DeltaTable, write_deltalake  # noqa: PLC0415  heavy

    url, told = spec.table_url(source.name), loads.word(source.name, said)
    with effects.effect(effects.LAKE_COMMIT, table=source.name):
        if hasattr(rows, "sparkSession"):
            rows.write.format("delta").mode("append").option("userMetadata", told).save(_place_of(spec, source))
        else:
            carried = CommitProperties(custom_metadata={"userMetadata": told})
            write_deltalake(url, rows, mode="append", commit_properties=carried)
    return _commit_of(DeltaTable(url), told)


def _place_of(spec: ProjectSpec, source: ExternalSpec) -> str:
    return Storage(spec.table_url(source.name), table=source.name).at("")


def _commit_of(table: Any, told: str) -> int:
    """The version that the commit made: others may have committed since."""
    for commit in table.history():
        if commit.get("userMetadata") == told:
            return int(commit["version"])
    return int(table.version())


def _head_of(spec: ProjectSpec, source: str) -> int:
    head = wiring.lake_table(spec, source).head()
    if head is None:
        hint = "load it first, or correct the `table:` of the source"
        raise errors.NotYetPublished(name=f"{source} ({spec.table_url(source)})", hint=hint)
    return head.version


# reading what was chosen


def to_arrow(output: Output, *, limit: int | None = None) -> pa.Table:
    """The rows, read without Spark; at most `limit` of them."""
    match output.layout:
        case Layout.EXTERNAL:
            from deltalake import DeltaTable  # noqa: PLC0415  heavy

            files = _native(Storage(output.url, table=output.name))
            rows = DeltaTable(output.url, version=output.version).to_pyarrow_dataset(filesystem=files)
            return rows.to_table() if limit is None else rows.head(limit)
        case Layout.PARQUET:
            from tidegate.sinks import parquet  # noqa: PLC0415  PyArrow

            return parquet.to_arrow(output.url, output.files, limit=limit)
        case Layout.LAKE:
            from tidegate.lake import reading  # noqa: PLC0415  PyArrow

            storage = Storage(output.url, table=output.name)
            return reading.rows_of(storage, output.files, _schema(output), limit=limit)


def _native(storage: Storage) -> fs.FileSystem | None:
    """A local place as Arrow itself opens it: see `tidegate.lake.parquet_files`. None: as delta-rs does."""
    if storage.local_root is None:
        return None
    from pyarrow import fs  # noqa: PLC0415  heavy

    return fs.SubTreeFileSystem(storage.local_root, fs.LocalFileSystem())


def to_frame(output: Output, spark: SparkSession) -> DataFrame:
    """The rows as a DataFrame that always reads these files, whatever is published after."""
    from tidegate.lake import reading  # noqa: PLC0415  Spark

    storage = Storage(output.url, table=output.name)
    paths = [storage.at(file.path) for file in output.files]
    match output.layout:
        case Layout.EXTERNAL:
            return spark.read.format("delta").option("versionAsOf", output.version).load(storage.at(""))
        case Layout.PARQUET if paths:
            return spark.read.option("mergeSchema", "true").parquet(*paths)
        case Layout.PARQUET:
            return spark.range(0).select()
        case Layout.LAKE:
            return reading.read_files(spark, paths, _schema(output))


def _schema(output: Output) -> str:
    if output.schema is None:
        what = f"nothing says what columns version {output.version} has"
        raise errors.LakeCorrupt(table=output.name, what=what)
    return output.schema
