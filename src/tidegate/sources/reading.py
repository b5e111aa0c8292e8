"""How the planned files of a source become rows: shared by numbered files and landing folders."""

from __future__ import annotations

import bz2
import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom
from pyspark.sql.types import StringType, StructField, StructType

from tidegate import errors
from tidegate.lake.storage import literally
from tidegate.sources.contract import SourceRows
from tidegate.sources.planned import PlannedFile, changed, unreachable
from tidegate.sources.specs import EventTime, FileFormat, LandingSpec, NumberedSpec
from tidegate.spark import files as spark_files

#: Up to so many dead rows get the number of their line; beyond, finding them would cost too much.
MAX_LOCATED = 1000
#: Files above this size are not searched for the number of a line.
MAX_SEARCHED_BYTES = 64 * 1024 * 1024
FOOTER_THREADS = 8
#: Footers that were found right are not read again by the next sink or attempt.
MAX_CHECKED = 100_000

DEAD_SCHEMA = "raw STRING, reason STRING, path STRING, line BIGINT, checkpoint BIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The files of one checkpoint."""

    number: int
    files: tuple[PlannedFile, ...]


class FileReader:
    """Reads files of one source. `number` is how a checkpoint is told from `PATH`, where a name tells it."""

    def __init__(
        self, spec: NumberedSpec | LandingSpec, root: Path, number: Callable[[Column], Column] | None = None
    ) -> None:
        self.spec = spec
        self._root = root
        self._number = number
        self._format = spec.reading.format
        self._checked: set[PlannedFile] = set()
        self._columns: StructType | None = None

    def rows(self, spark: SparkSession, units: Sequence[Unit]) -> SourceRows:
        """The rows of the units, lazily. Empty files have none.

        :raises SourceError: a file lacks a declared column, or has no readable head.
        """
        df = self._read(spark, units)
        columns = self.columns(spark)
        return SourceRows(
            df=df,
            columns=tuple(columns.names),
            event_time=None if self.spec.event_time is None else event_micros(self.spec.event_time, columns),
            numbered=lambda: self._checkpoint(units),
            dead=spark_files.dead(columns) if self._format.has_lines else None,
        )

    def dead(self, spark: SparkSession, units: Sequence[Unit]) -> DataFrame | None:
        """The lines that did not decode, with the number of the line where finding it is cheap."""
        if not self._format.has_lines:
            return None
        columns = self.columns(spark)
        raw = F.col(spark_files.CORRUPT)
        found = (
            self._read(spark, units)
            .where(spark_files.dead(columns))
            .select(
                raw.alias("raw"),
                self._reason(columns).alias("reason"),
                F.col(spark_files.PATH).alias("path"),
                F.lit(None).cast("bigint").alias("line"),
                self._checkpoint(units).alias("checkpoint"),
            )
        )
        first = found.limit(MAX_LOCATED + 1).collect()
        if len(first) > MAX_LOCATED:
            return found
        located = self._located([(row.raw, row.reason, row.path, row.checkpoint) for row in first], units)
        return spark.createDataFrame(located, DEAD_SCHEMA)

    def columns(self, spark: SparkSession) -> StructType:
        """The declared columns with Spark's types."""
        if self._columns is None:
            try:
                parsed = spark.createDataFrame([], self.spec.reading.schema).schema
            except PySparkException as wrong:
                raise self.spec.refused(f"schema: {_first_line(wrong)}") from wrong
            self._columns = parsed
        return self._columns

    def _read(self, spark: SparkSession, units: Sequence[Unit]) -> DataFrame:
        columns = self.columns(spark)
        planned = [file for unit in units for file in unit.files if file.size_bytes > 0]
        for file in planned:
            self._check_name(file)
        sets = self._sets(planned, columns)
        try:
            df = spark_files.read(spark, sets, columns, format=self._format.value, options=self.spec.reading.options)
        except PySparkException as failed:
            raise as_source_error(self.spec.name, failed) or failed from failed
        worth = spark_files.tasks(sum(file.size_bytes for file in planned), len(planned))
        return df.coalesce(worth) if worth < spark_files.parallelism(spark) else df

    def _check_name(self, file: PlannedFile) -> None:
        """Refuse a name that Spark cannot open."""
        if not _is_text(file.path):
            raise self._failed(f"the name of {os.fsencode(file.path)!r} is not UTF-8")
        path = self._absolute(file)
        if ":" in path and literally(path) != path:
            raise self._failed(f"{path} cannot be opened by Spark: a colon, and one of [ ] {{ }} * ? \\ beside it")

    def _sets(self, planned: Sequence[PlannedFile], columns: StructType) -> list[spark_files.FileSet]:
        if self._format is FileFormat.CSV and _is_true(self.spec.reading.options, "header"):
            return self._sets_by_header(planned, columns)
        if self._format is FileFormat.PARQUET:
            self._check_footers(planned, columns)
        if self._format is FileFormat.TEXT:
            columns = StructType([StructField(columns.names[0], StringType())])
        return [spark_files.FileSet(paths=tuple(self._absolute(file) for file in planned), schema=columns)]

    def _sets_by_header(self, planned: Sequence[PlannedFile], columns: StructType) -> list[spark_files.FileSet]:
        by_header: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for file in planned:
            by_header[self._header(file)].append(file.path)
        for header, paths in by_header.items():
            self._check_columns(paths[0], columns, header)
        return [
            spark_files.FileSet(
                paths=tuple(os.path.join(self._root, path) for path in paths), schema=header_schema(header, columns)
            )
            for header, paths in by_header.items()
        ]

    def _header(self, file: PlannedFile) -> tuple[str, ...]:
        try:
            with _open_text(self._absolute(file), self.spec.reading.options) as text:
                return csv_header(text, self.spec.reading.options)
        except (FileNotFoundError, NotADirectoryError) as gone:
            raise changed(self.spec.name, f"{file.path} is gone; it was there when it was planned") from gone
        except (UnicodeError, csv.Error, EOFError, LookupError, gzip.BadGzipFile) as wrong:
            raise self._failed(f"{file.path} has no readable header: {wrong}") from wrong
        except OSError as unread:
            raise unreachable(self.spec.name, file.path, unread) from unread

    def _check_footers(self, planned: Sequence[PlannedFile], columns: StructType) -> None:
        unknown = [file for file in planned if file not in self._checked]
        if not unknown:
            return
        with ThreadPoolExecutor(max_workers=FOOTER_THREADS) as pool:
            for file, names in zip(unknown, pool.map(self._footer_names, unknown), strict=True):
                self._check_columns(file.path, columns, names, fold=True)
        if len(self._checked) > MAX_CHECKED:
            self._checked = set()
        self._checked.update(unknown)

    def _footer_names(self, file: PlannedFile) -> tuple[str, ...]:
        try:
            return tuple(pq.read_schema(self._absolute(file)).names)
        except (FileNotFoundError, NotADirectoryError) as gone:
            raise changed(self.spec.name, f"{file.path} is gone; it was there when it was planned") from gone
        except pa.ArrowException as wrong:
            raise self._failed(f"{file.path} is not readable as Parquet: {_first_line(wrong)}") from wrong
        except OSError as unread:
            raise unreachable(self.spec.name, file.path, unread) from unread

    def _check_columns(self, path: str, columns: StructType, present: Iterable[str], *, fold: bool = False) -> None:
        have = {name.casefold() if fold else name for name in present}
        missing = [name for name in columns.names if (name.casefold() if fold else name) not in have]
        if missing:
            word = "column" if len(missing) == 1 else "columns"
            raise self._failed(f"{path} has no {word} {', '.join(missing)}")

    def _failed(self, what: str) -> errors.SourceError:
        return errors.SourceError(
            source=self.spec.name, what=what, hint=f"mend the file, or the schema in {self.spec.where}"
        )

    def _checkpoint(self, units: Sequence[Unit]) -> Column:
        """The checkpoint of a row, looked up only by a query that asks for it."""
        path = F.col(spark_files.PATH)
        if len(units) == 1:
            return F.lit(units[0].number).cast("bigint")
        if self._number is not None:
            return self._number(path).cast("bigint")
        number = F.lit(None).cast("bigint")
        for unit in units:
            theirs = [spark_files.reported_path(self._absolute(file)) for file in unit.files if file.size_bytes > 0]
            if theirs:
                number = F.when(path.isin(theirs), F.lit(unit.number).cast("bigint")).otherwise(number)
        return number

    def _reason(self, columns: StructType) -> Column:
        raw = F.col(spark_files.CORRUPT)
        if self._format is FileFormat.CSV:
            return F.lit(f"not a line of {', '.join(f'{field.name} {_type(field)}' for field in columns)}")
        unfit = [
            F.when(
                F.col(spark_files.quoted(field.name)).isNull()
                & F.get_json_object(raw, f"$['{field.name}']").isNotNull(),
                F.lit(f"{field.name} is no {_type(field)}"),
            )
            for field in columns
            if "'" not in field.name
        ]
        named = F.concat_ws(", ", *unfit)
        return (
            F.when(F.try_parse_json(raw).isNull(), F.lit("not JSON"))
            .when(named == "", F.lit("does not fit the schema"))
            .otherwise(named)
        )

    def _located(
        self, rows: Sequence[tuple[str, str, str, int]], units: Sequence[Unit]
    ) -> list[tuple[str, str, str, int | None, int]]:
        planned = {spark_files.reported_path(self._absolute(file)): file for unit in units for file in unit.files}
        wanted: dict[str, set[str]] = defaultdict(set)
        for raw, _, path, _ in rows:
            wanted[path].add(raw)
        lines = {path: self._lines(planned.get(path), raws) for path, raws in wanted.items()}
        return [
            (raw, reason, planned[path].path if path in planned else path, _next(lines[path], raw), number)
            for raw, reason, path, number in rows
        ]

    def _lines(self, file: PlannedFile | None, raws: set[str]) -> dict[str, list[int]]:
        """The line numbers of each of the texts, last first; whatever goes wrong here is no reason to fail."""
        found: dict[str, list[int]] = defaultdict(list)
        if file is None or file.size_bytes > MAX_SEARCHED_BYTES:
            return found
        try:
            with _open_text(self._absolute(file), self.spec.reading.options) as text:
                for number, line in enumerate(text, start=1):
                    if (bare := line.rstrip("\r\n")) in raws:
                        found[bare].insert(0, number)
        except (OSError, UnicodeError, EOFError, LookupError):
            return {}
        return found

    def _absolute(self, file: PlannedFile) -> str:
        return os.path.join(self._root, file.path)


def _is_text(path: str) -> bool:
    """Whether the name of a file is text, as Java needs it, and not any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def event_micros(event_time: EventTime, columns: StructType) -> Column:
    """The event time in microseconds since 1970, null where there is none."""
    cast = "try_cast" if isinstance(columns[event_time.column].dataType, StringType) else "cast"
    return F.expr(f"unix_micros({cast}({spark_files.quoted(event_time.column)} AS TIMESTAMP))")


def csv_header(lines: Iterable[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """The names in the first record; none when there is no line."""
    dialect = type("Dialect", (csv.excel,), _dialect(options))
    return tuple(next(csv.reader(lines, dialect), []))


def header_schema(header: Sequence[str], columns: StructType) -> StructType:
    """The columns in the order of a header; what is not declared is read over as text."""
    declared = {field.name: field for field in columns}
    seen: set[str] = set()
    fields = []
    for place, name in enumerate(header):
        if name in declared and name not in seen:
            fields.append(declared[name])
            seen.add(name)
        else:
            fields.append(StructField(f"__tidegate_over_{place}", StringType()))
    return StructType(fields)


def as_source_error(source: str, failed: BaseException) -> errors.SourceError | None:
    """The error of the source behind a failure of Spark; None when it is not the source's.

    A file that went away is `SourceChanged`; one that cannot be read as what it should be is permanent too.
    """
    if not isinstance(failed, PySparkException):
        return None
    condition = failed.getCondition() or ""
    path = (failed.getMessageParameters() or {}).get("path", "a file")
    if condition in {"FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND"}:
        return changed(source, f"{path} is gone; it was there when it was planned")
    if condition.startswith("FAILED_READ_FILE") or "CSV" in condition or "PARQUET" in condition:
        return errors.SourceError(
            source=source, what=f"{path} cannot be read: {_first_line(failed)}", hint="mend the file, or the schema"
        )
    if condition == "DATA_SOURCE_NOT_FOUND":
        return errors.SourceError(
            source=source, what=_first_line(failed), hint="add the jar that reads this format to `spark.conf`"
        )
    return None


def _open_text(path: str, options: Mapping[str, str]) -> IO[str]:
    encoding = _option(options, "encoding") or _option(options, "charset") or "utf-8"
    encoding = "utf-8-sig" if encoding.lower().replace("-", "") == "utf8" else encoding
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, errors="replace", newline="\n")
    if path.endswith(".bz2"):
        return bz2.open(path, "rt", encoding=encoding, errors="replace", newline="\n")
    return open(path, encoding=encoding, errors="replace", newline="\n")


def _dialect(options: Mapping[str, str]) -> dict[str, str]:
    """What Python's csv module must know to read a header as Spark does."""
    quote = _option(options, "quote") or '"'
    escape = _option(options, "escape")
    found = {"quotechar": quote, "delimiter": _option(options, "sep") or _option(options, "delimiter") or ","}
    return found if escape in (None, "", quote) else {**found, "escapechar": str(escape)}


def _option(options: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name), None)


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return (_option(options, name) or "").strip().lower() == "true"


def _next(lines: dict[str, list[int]], raw: str) -> int | None:
    return lines[raw].pop() if lines.get(raw) else None


def _unfit(field: StructField) -> str:
    return f"{field.name} is no {_type(field)}"


def _type(field: StructField) -> str:
    return field.dataType.simpleString().upper()


def _first_line(failed: BaseException) -> str:
    text = str(failed).strip()
    return text.splitlines()[0] if text else type(failed).__name__
