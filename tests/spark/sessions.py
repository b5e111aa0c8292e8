"""A small Spark session for tests, the same as a run has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.spark.session import Spark
from tidegate.spark.settings import SparkSettings

CONF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@contextmanager
def small_session(root: Path, *, master: str = "local[2]") -> Iterator[SparkSession]:
    """A session that ends with the body; its logs are below `root`."""
    spark = Spark(SparkSettings(master=master, remote=None, conf=CONF), name="tests", root=root)
    try:
        yield spark.session
    finally:
        spark.close()
