"""Files read by a list of paths, with a declared schema, and corrupt lines kept apart in the same pass.

Spark looks at three things that would make reading a list slow or wrong, and they are off here: paths
are no globs (a file may be called `a[1].json`), nothing is inferred, and a filter or a pruned
column of the query above never decides whether a line counts as corrupt (see `dead`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.lake.storage import literally

CORRUPT = "__tidegate_corrupt"
PATH = "__tidegate_path"

#: Options that would change what a corrupt line, a missing file or a path means.
OWN_OPTIONS = frozenset(
    name.lower()
    for name in (
        "mode", "columnNameOfCorruptRecord", "inferSchema", "enforceSchema", "mergeSchema", "primitivesAsString",
        "pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter", "ignoreMissingFiles",
        "ignoreCorruptFiles", "basePath", "path", "__globPaths__", "singleVariantColumn", "samplingRatio", "wholetext",
    )
)  # fmt: skip

#: A task that reads less than this costs more than it saves, and leaves a small file behind.
TASK_BYTES = 2_500_000
#: Opening a file costs as much as reading so many bytes of JSON (0.5 ms).
OPEN_BYTES = 25_000

_HAS_LINES = frozenset({"json", "csv"})
#: What `java.net.URI` leaves as it is in a path, besides letters, digits and everything outside ASCII.
_URI_SAFE = "/_-!.~'()*,;:$&+=@"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """Files that are read together: they have one format and one order of columns."""

    paths: tuple[str, ...]
    schema: StructType


def read(
    spark: SparkSession, sets: Sequence[FileSet], columns: StructType, *, format: str, options: Mapping[str, str]
) -> DataFrame:
    """The rows of the files: the columns, `PATH`, and `CORRUPT` where the format has lines.

    Columns of a set that are not among `columns` are read over. Lazy; the driver lists the paths.
    """
    frames = [_read_set(spark, files, columns, format, options) for files in sets if files.paths]
    if not frames:
        return spark.createDataFrame([], _read_schema(columns, format).add(PATH, StringType()))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _read_set(
    spark: SparkSession, files: FileSet, columns: StructType, format: str, options: Mapping[str, str]
) -> DataFrame:
    reader = spark.read.format(format).options(**options)
    if format in _HAS_LINES:
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    frame = reader.schema(_read_schema(files.schema, format)).load([literally(path) for path in files.paths])
    kept = [quoted(field.name) for field in _read_schema(columns, format)]
    # `_metadata.file_path` would be made for every row, with five more, even where nobody asks for it
    return frame.selectExpr(*kept, f"regexp_replace(input_file_name(), '^file:/+', '/') AS {PATH}")


def _read_schema(columns: StructType, format: str) -> StructType:
    extra = [StructField(CORRUPT, StringType())] if format in _HAS_LINES else []
    return StructType([*columns.fields, *extra])


def dead(columns: StructType) -> Column:
    """Whether a row of `read` did not decode; for the formats with lines.

    Spark decodes only the columns that a query needs, so a bad value in another column would go
    unseen, or not, as the transform happens to be written. The second half of the condition is always
    true, is looked at for corrupt lines only, and names every column: all are always decoded.
    """
    every = [f"length({CORRUPT}) >= 0", *(f"{quoted(field.name)} IS NULL" for field in columns)]
    return F.expr(f"{CORRUPT} IS NOT NULL AND ({' OR '.join(every)})")


def tasks(size_bytes: int, files: int) -> int:
    """How many tasks the reading is worth."""
    return max(1, -(-(size_bytes + files * OPEN_BYTES) // TASK_BYTES))


def parallelism(spark: SparkSession) -> int:
    """Into how many tasks Spark cuts a reading by itself, at least."""
    try:
        return spark.sparkContext.defaultParallelism
    except PySparkException:  # Spark Connect has no context
        return 2


def reported_path(path: str | Path) -> str:
    """The text that `PATH` has for the path of a local file, or for a piece of it."""
    return "".join(letter if ord(letter) > 127 else quote(letter, safe=_URI_SAFE) for letter in str(path))


def quoted(name: str) -> str:
    """The name of a column, to the letter, in an expression."""
    return "`" + name.replace("`", "``") + "`"
