"""Compute a table's query over a cut, and write the rows where they may be published later. Heavy: Spark, pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from tidegate import errors
from tidegate.lake import attempts, reading, staging
from tidegate.lake.staging import Staged
from tidegate.lake.table import LakeTable
from tidegate.progress.cut import Choice
from tidegate.tables.declare import SqlQuery, TableSpec
from tidegate.tables.graph import Input, InputKind, Node
from tidegate.tables.inputs import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_TEXT: Final = 400


def stage(
    spec: TableSpec, node: Node, cut: Mapping[str, Choice], lake: Lake, session: SparkSession, token: int
) -> Staged:
    """The rows of the query over the cut, durable in files that nobody sees yet.

    :raises RefreshFailed: the query does not work out; `InputGone` when an external version is not there any more.
    """
    table = lake(spec.name)
    try:
        with _frames(node, cut, lake, session) as frames:
            frame = _queried(spec, node, frames, session)
            folder = attempts.refresh_folder(token, 0)
            return staging.stage(frame, table.storage, folder, table=spec.name)
    except (errors.LakeUnavailable, errors.SparkUnavailable):
        raise
    except errors.TidegateError as failed:
        if isinstance(failed, errors.RefreshFailed):
            raise
        raise errors.RefreshFailed(table=spec.name, why=failed.message, hint=failed.hint) from failed
    except Exception as failed:
        gone = _gone(node, cut, lake)
        if gone is not None:
            raise errors.InputGone(table=spec.name, input=gone, version=cut[gone].version) from failed
        raise errors.RefreshFailed(table=spec.name, why=told(failed)) from failed


@contextmanager
def _frames(
    node: Node, cut: Mapping[str, Choice], lake: Lake, session: SparkSession
) -> Iterator[Mapping[str, DataFrame]]:
    """The inputs at their versions, as views of the session too while the body runs."""
    frames = {one.name: _frame(one, cut[one.table].version, lake(one.table), session) for one in node.inputs}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(f"`{name}`" if not name.isidentifier() else name)
    try:
        yield frames
    finally:
        with suppress(PySparkException, ConnectionError):
            for name in frames:
                session.catalog.dropTempView(name)


def _frame(one: Input, version: int, table: LakeTable, session: SparkSession) -> DataFrame:
    if one.kind is InputKind.EXTERNAL:
        return session.read.format("delta").option("versionAsOf", version).load(table.storage.at(""))
    return reading.frame(session, table, version)


def _queried(spec: TableSpec, node: Node, frames: Mapping[str, DataFrame], session: SparkSession) -> DataFrame:
    if isinstance(spec.query, SqlQuery):
        return session.sql(spec.query.text.strip().removesuffix(";"))
    arguments = zip(spec.query.inputs, node.references, strict=True)
    made = spec.query.function(**{parameter: frames[reference.name] for parameter, reference in arguments})
    if not hasattr(made, "sparkSession"):
        what = f"its function gave {type(made).__name__}, not a DataFrame"
        raise errors.RefreshFailed(table=spec.name, why=what, hint=f"return a DataFrame from {spec.file}")
    frame: DataFrame = made
    return frame


def _gone(node: Node, cut: Mapping[str, Choice], lake: Lake) -> str | None:
    """The external input whose owner has vacuumed the version away."""
    externals = [one.table for one in node.inputs if one.kind is InputKind.EXTERNAL]
    return next((name for name in externals if not _is_whole(lake(name), cut[name].version)), None)


def _is_whole(table: LakeTable, version: int) -> bool:
    try:
        return all(table.storage.has(file.path) for file in table.files(version))
    except errors.LakeError:
        return False


def told(failed: BaseException) -> str:
    """The line of a foreign error that says what is wrong, without the plan below it."""
    text = failed.getMessage() if isinstance(failed, PySparkException) else str(failed)
    line = next((line.strip() for line in (text or "").splitlines() if line.strip()), type(failed).__name__)
    named = line if isinstance(failed, PySparkException) else f"{type(failed).__name__}: {line}"
    return named if len(named) <= _MAX_TEXT else f"{named[: _MAX_TEXT - 1]}…"
