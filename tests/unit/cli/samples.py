"""A status and an explanation with something of everything, made by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.progress.ranges import Range, RangeSet
from tidegate.progress.watermarks import ValueKind, parse_watermark
from tidegate.views.values import (
    Explanation,
    FailedRange,
    GroupStatus,
    InputStatus,
    PartStatus,
    PipelineStatus,
    SinkStatus,
    SourceStatus,
    State,
    Status,
    TableStatus,
)

AT = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)
LATE, EARLY = parse_watermark("2026-03-01T12:05:00.123456Z"), parse_watermark("2026-03-01T11:55:00Z")
REASON = "order_lines is 10m behind orders in group order_pipeline (tolerance 0s)"

FAILED = PipelineStatus(
    name="orders",
    source="orders",
    mode="concurrent",
    state=State.FAILED,
    reason="checkpoint 1004 failed in sink lake: no space left on device",
    checkpoint_hi_inclusive=1003,
    published_hi_inclusive=1003,
    reader_lo=1000,
    pruner_hi=998,
    gaps=RangeSet.of(Range(1004, 1005), Range(1007, 1010), Range(1020, 1030)),
    ahead=RangeSet.of(1005),
    watermark=LATE,
    late_rows=3,
    dead_letters=1,
    failures=(FailedRange(numbers=RangeSet.of(1004), sink="lake", code="TG-D003", message="no space left", at=AT),),
    problems=("pipeline orders has failed: checkpoint 1004 failed in sink lake: no space left on device",),
    sinks=(
        SinkStatus(name="lake", type="delta", required=True, rows=81234, published_hi_inclusive=1003),
        SinkStatus(
            name="files",
            type="parquet",
            required=False,
            rows=80000,
            missing=RangeSet.of(Range(1000, 1004)),
            error="out/files is not a folder",
        ),
    ),
)
RUNNING = PipelineStatus(
    name="a_pipeline_whose_name_is_much_longer_than_anybody_would_like_it_to_be",
    source="clicks",
    mode="concurrent",
    state=State.RUNNING,
    checkpoint_hi_inclusive=123456789,
    published_hi_inclusive=123456789,
    reader_lo=100000000,
    watermark=LATE,
    in_flight=RangeSet.of(Range(5, 9)),
    partitions=(
        PartStatus(partition="0", watermark=None, idle=False, blocking=True),
        PartStatus(partition="1", watermark=LATE, idle=True, blocking=False),
    ),
)
NEW = PipelineStatus(name="new", source="clicks", mode="sequential", state=State.IDLE, reason="it has not run yet")

WAITING = TableStatus(
    name="order_report",
    gating="gate",
    verdict="closed",
    reason=REASON,
    blocked_by=("order_lines",),
    since=AT,
    effective_watermark=EARLY,
    effective_watermarks={"order_pipeline": EARLY},
    version=12,
    refreshed_at=AT,
    last_refresh="full",
)
OPEN = TableStatus(name="a_summary", gating="none", verdict="open", version=3, refreshed_at=AT, last_refresh="full")
FAILING = TableStatus(name="z_broken", gating="none", verdict="open", failure="column nme cannot be resolved")

GROUP = GroupStatus(
    name="order_pipeline",
    sources=("orders", "order_lines"),
    tolerance="0s",
    state="misaligned",
    min_watermark=EARLY,
    max_watermark=LATE,
    lag="10m",
    effective_watermark=EARLY,
    behind=("order_lines",),
)
SOURCE = SourceStatus(
    name="orders",
    watermark=EARLY,
    kind=ValueKind.TIMESTAMP,
    advanced_at=AT,
    advanced_by="a-loader-with-a-long-name@a-host-with-a-long-name.example.org",
    pending=LATE,
    type="landing",
)

STATUS = Status(
    project="shop",
    at=AT,
    healthy=False,
    problems=FAILED.problems,
    pipelines={one.name: one for one in (NEW, RUNNING, FAILED)},
    sources={SOURCE.name: SOURCE},
    groups={GROUP.name: GROUP},
    tables={one.name: one for one in (OPEN, WAITING, FAILING)},
)

EXPLANATION = Explanation(
    name="order_report",
    kind="table",
    standing="closed",
    reason=REASON,
    blocked_by=("order_lines",),
    since=AT,
    remedy="tidegate advance order_lines 2026-03-01T12:05:00Z",
    facts={
        "gating": "gate",
        "root_sources": ("order_lines", "orders"),
        "inputs": (
            InputStatus(name="orders", kind="pipeline", frontier=3, version=4),
            InputStatus(name="order_lines", kind="pipeline", frontier=3, version=3),
        ),
        "next_refresh": {"mode": "full", "why": "aggregates are computed again"},
    },
)
