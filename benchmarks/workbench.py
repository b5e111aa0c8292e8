"""What the measures stand on: one warm Spark for all sides, files of orders, and projects that read them."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own idiom

from tidegate.service import OnEvent, Service
from tidegate.spark.session import Spark
from tidegate.spark.settings import SparkSettings

#: Below the repository and not in /tmp, which may be memory: a flush must cost here what it costs.
ROOM: Final = Path(__file__).parents[1] / "build" / "bench"
MASTER: Final = "local[2]"
CONF: Final = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
SCHEMA: Final = "id BIGINT, user STRING, amount DOUBLE, item STRING, at TIMESTAMP"

_START: Final = datetime(2026, 3, 1, tzinfo=UTC)
_ITEMS: Final = ("lamp", "chair", "table", "shelf", "carpet", "mirror", "clock", "vase")

#: The transform of every side: the project has this text, and a baseline the function below it.
TRANSFORM: Final = """\
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def clean(df: DataFrame) -> DataFrame:
    return df.where(F.col("amount") > 1).withColumn("cents", F.round(F.col("amount") * 100).cast("bigint"))
"""


def clean(df: DataFrame) -> DataFrame:
    """Orders above one, with the amount in cents."""
    return df.where(F.col("amount") > 1).withColumn("cents", F.round(F.col("amount") * 100).cast("bigint"))


@contextmanager
def room() -> Iterator[Path]:
    """A folder on the disk for one suite, gone afterwards."""
    ROOM.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=ROOM))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def warm_spark(folder: Path) -> Iterator[SparkSession]:
    """The session that a run has. Runs of projects in this process use it, and so do the baselines."""
    spark = Spark(SparkSettings(master=MASTER, conf=CONF), name="bench", root=folder)
    try:
        yield spark.session
    finally:
        spark.close()


def cpu_of_jvm(spark: SparkSession) -> Callable[[], float]:
    """Asks for the CPU seconds that the JVM has used, in all of its threads."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    process = psutil.Process(jvm.java.lang.ProcessHandle.current().pid())

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return used


def write_orders(path: Path, rows: int, first_id: int = 0) -> None:
    """A file of JSON lines, always the same for the same arguments."""
    rng = random.Random(first_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        for number in range(first_id, first_id + rows):
            at = (_START + timedelta(milliseconds=number)).isoformat(timespec="milliseconds")
            file.write(
                f'{{"id": {number}, "user": "user-{rng.randrange(50_000)}", "amount": {rng.random() * 200:.2f}, '
                f'"item": "{rng.choice(_ITEMS)}", "at": "{at}"}}\n'
            )


class Project:
    """A project over numbered files in `files/`, with event time, and dead rows looked for."""

    def __init__(
        self,
        root: Path,
        *,
        sink: str,
        batch: Mapping[str, object] | None = None,
        files: Path | None = None,
        publish_every: str = "250ms",
    ) -> None:
        """`files`: a folder whose files are those of the project, shared and not copied."""
        self.root = root
        root.mkdir(parents=True)
        (root / "pipelines").mkdir()
        (root / "pipelines" / "orders.py").write_text(TRANSFORM)
        limits = ", ".join(f"{key}: {value}" for key, value in (batch or {}).items())
        if files is not None:
            (root / "files").symlink_to(files)
        place = ", path: out" if sink == "parquet" else ""
        (root / "tidegate.yml").write_text(
            f"name: bench\n"
            f"sources:\n"
            f"  orders:\n"
            f"    type: numbered\n"
            f'    path: "files/{{number:08d}}.json"\n'
            f"    format: json\n"
            f"    schema: {SCHEMA}\n"
            f"    event_time: at\n"
            f"    first_checkpoint: 0\n"
            f"pipelines:\n"
            f"  orders:\n"
            f"    source: orders\n"
            f"    transform: pipelines/orders.py:clean\n"
            f"    batch: {{{limits}}}\n"
            f"    publish_every: {publish_every}\n"
            f"    sinks: [{{name: out, type: {sink}{place}}}]\n"
        )

    def file(self, number: int) -> Path:
        """Where the file of a checkpoint is looked for."""
        return self.root / "files" / f"{number:08d}.json"

    def service(self) -> Service:
        """The project, opened; to be closed."""
        return Service.open(self.root)

    def run(self, *, expect_end: int, on_event: OnEvent | None = None) -> None:
        """Run it until nothing is left to do, in this process, and see that all was published."""
        with self.service() as service:
            outcome = service.run(once=True, on_event=on_event)
            status = service.status().pipelines["orders"]
        published = status.checkpoint_hi_inclusive
        if outcome.exit_code != 0 or published != expect_end - 1:
            raise RuntimeError(f"the run ended with {outcome.exit_code}, complete up to {published}, {status.reason}")
