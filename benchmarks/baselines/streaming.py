"""The same work by Structured Streaming: one file a trigger, everything that is there, then stop."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession


def run(
    spark: SparkSession,
    folder: str,
    schema: str,
    transform: Callable[[DataFrame], DataFrame],
    target: str,
    state: str,
    *,
    sink: str,
) -> None:
    """A stream over a folder of JSON files into `sink` (delta or parquet), a file a micro-batch."""
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(folder)
    query = (
        transform(rows)
        .writeStream.format(sink)
        .outputMode("append")
        .option("checkpointLocation", state)
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()
