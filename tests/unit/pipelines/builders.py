"""Pipelines, documents and receipts as tests need them: small, and with nothing behind them."""

from __future__ import annotations

from typing import Any

from tidegate.pipelines.commit import Rules
from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import PipelineDocument, SinkProgress
from tidegate.pipelines.intent import started
from tidegate.progress.ranges import Range
from tidegate.progress.watermarks import Watermark
from tidegate.sinks.contract import Delivery, Ownership, Receipt, SinkState
from tidegate.sinks.specs import DeltaSinkSpec, SinkSpec
from tidegate.sources.specs import WatermarkKind

LAKE = DeltaSinkSpec(name="lake", table="orders")
OWNER = Ownership(pipeline="orders", epoch=1, token=1)
CHECKPOINTS = WatermarkKind.CHECKPOINT


def spec_of(*sinks: SinkSpec, **options: Any) -> PipelineSpec:
    return PipelineSpec(name="orders", source="orders", sinks=sinks or (LAKE,), **options)


def document_of(*, first: int | None = None, sinks: tuple[SinkSpec, ...] = (LAKE,), **fields: Any) -> PipelineDocument:
    """A document as it is before the first plan, or begun at `first`."""
    progress = {sink.name: SinkProgress(type=sink.type, required=sink.required, start=0) for sink in sinks}
    fresh = PipelineDocument(pipeline="orders", source="orders", source_identity="it", sinks=progress, **fields)
    return fresh if first is None else started(fresh, first)


def rules_of(kind: WatermarkKind = CHECKPOINTS, **options: Any) -> Rules:
    return Rules(policy=options.pop("policy", spec_of().policy), kind=kind, **options)


def receipt_of(lo: int, hi: int, *, sink: str = "lake", rows: int = 1) -> Receipt:
    """What a sink answers for the checkpoints [lo, hi)."""
    return Receipt(sink=sink, delivery=Delivery(owner=OWNER, range=Range(lo, hi), attempt=1), rows=rows)


def shown(end: int | None, version: int = 1) -> SinkState:
    """A sink that shows everything below the end."""
    return SinkState(epoch=1, token=1, end=end, version=version)


def minute(number: int) -> Watermark:
    """12:00 on some day, so many minutes later."""
    return Watermark.of_micros(1_772_366_400_000_000 + number * 60_000_000)
