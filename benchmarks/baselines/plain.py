"""A checkpoint by hand: read JSON, transform, write Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession


def run(
    spark: SparkSession,
    paths: Sequence[str],
    schema: str,
    transform: Callable[[DataFrame], DataFrame],
    target: str,
) -> None:
    """One Spark job: the files of one checkpoint into one Parquet folder."""
    transform(spark.read.schema(schema).json(list(paths))).write.mode("overwrite").parquet(target)
