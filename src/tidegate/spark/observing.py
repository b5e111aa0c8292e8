"""What can be known of an observation before it is trusted: whether a query has it, reads all of it, or has used it up.

Spark gives the metrics of an observation once: those of the first action that meets it. Whoever asks for
an observation that no action met waits for ever.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession

#: What hands on every row that it is given, in the same task. Whatever is not here may stop early: a limit,
#: a join whose other side has run out, a Python function over batches.
_ROW_BY_ROW: Final = frozenset(
    {"Project", "Filter", "SubqueryAlias", "Generate", "CollectMetrics", "Union", "Repartition"}
)
_LEAVES: Final = frozenset({"Relation", "LocalRelation", "Range", "LogicalRDD"})
_WHOLE: Final = _ROW_BY_ROW | _LEAVES
_NODE: Final = re.compile(r"^[\s:+|-]*([A-Za-z]\w*)", re.MULTILINE)
_BUS_MS: Final = 10_000


class Reach(Enum):
    """How much of an observed frame another frame reads."""

    NONE = "none"
    WHOLE = "whole"
    UNKNOWN = "unknown"


def reach(frame: DataFrame, observed: DataFrame) -> Reach:
    """How much of the observed frame the other one, which may be built on it, reads in one action."""
    if frame is observed:
        return Reach.WHOLE
    plan = _plan(frame)
    if plan is None:
        return Reach.UNKNOWN
    nodes = frozenset(_NODE.findall(plan))
    if "CollectMetrics" not in nodes:
        return Reach.NONE
    return Reach.WHOLE if nodes <= _WHOLE else Reach.UNKNOWN


def is_over(observation: Observation, spark: SparkSession) -> bool:
    """Whether an action has met the observation already. Waits until Spark has told of all that ended."""
    inner: Any = getattr(observation, "_jo", None)
    if inner is None:
        return getattr(observation, "_result", None) is not None
    context: Any = spark.sparkContext
    try:
        context._jsc.sc().listenerBus().waitUntilEmpty(_BUS_MS)
    except Py4JJavaError:  # too busy to tell in time
        return True
    return bool(inner.future().isCompleted())


def _plan(frame: DataFrame) -> str | None:
    """The analysed plan, a node a line; None on Spark Connect."""
    inner: Any = getattr(frame, "_jdf", None)
    return None if inner is None else str(inner.queryExecution().analyzed().toString())
