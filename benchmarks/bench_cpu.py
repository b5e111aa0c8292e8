"""CPU of the JVM for one checkpoint of a million rows, against the same work written by hand.

Tidegate takes event time, counts late rows and looks for dead ones; the baseline does none of that.
Both read one file of JSON, apply one transform, and write Parquet with two tasks.
"""

from __future__ import annotations

from benchmarks import workbench
from benchmarks.baselines import plain
from benchmarks.measure import Measure, interleaved, median_ratio

ROWS = 1_000_000
PAIRS = 9
WARMUPS = 3


def measures() -> list[Measure]:
    """The median of the ratios of the pairs."""
    with workbench.room() as room, workbench.warm_spark(room) as spark:
        cpu = workbench.cpu_of_jvm(spark)
        project = workbench.Project(room / "project", sink="delta")
        orders = room / "orders.json"
        workbench.write_orders(orders, ROWS)
        project.file(0).parent.mkdir()
        taken = iter(range(WARMUPS + PAIRS))

        def ours() -> float:
            number = next(taken)
            project.file(number).hardlink_to(orders)
            before = cpu()
            project.run(expect_end=number + 1)
            return cpu() - before

        def theirs() -> float:
            before = cpu()
            plain.run(spark, [str(orders)], workbench.SCHEMA, workbench.clean, str(room / "plain"))
            return cpu() - before

        raw = interleaved(PAIRS, WARMUPS, tidegate=ours, pyspark=theirs)
    return [
        Measure(
            name="CPU of the JVM against hand-written PySpark",
            value=median_ratio(raw, "tidegate", "pyspark"),
            unit="times",
            target=1.15,
            raw=raw,
            note=f"{ROWS:,} rows of JSON a checkpoint; CPU seconds",
        )
    ]
