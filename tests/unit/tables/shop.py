"""A small project, declared in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.pipelines.declare import PipelineSpec
from tidegate.progress.groups import Group
from tidegate.sinks.specs import DeltaSinkSpec, ParquetSinkSpec
from tidegate.sources.specs import ExternalSpec, FileFormat, LandingSpec, Reading, SourceSpec, WatermarkKind
from tidegate.tables.declare import TableSpec, parse_sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """What `ProjectSpec` says that tables care about."""

    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineSpec] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    tables: Mapping[str, TableSpec] = field(default_factory=dict)


def landing(name: str, watermark: WatermarkKind = WatermarkKind.TIMESTAMP) -> LandingSpec:
    reading = Reading(format=FileFormat.JSON, schema="id BIGINT, at TIMESTAMP")
    return LandingSpec(name=name, path=f"incoming/{name}", reading=reading, watermark=watermark)


def shop(*groups: Group, **queries: str) -> Shop:
    """Orders and order lines with a pipeline each, rates loaded by somebody else, and some tables."""
    pipelines = {
        name: PipelineSpec(name=name, source=name, sinks=(DeltaSinkSpec(name="lake", table=name),))
        for name in ("orders", "order_lines")
    }
    pipelines["exports"] = PipelineSpec(
        name="exports", source="orders", sinks=(ParquetSinkSpec(name="files", path="out/exports"),)
    )
    pipelines["clicks"] = PipelineSpec(
        name="clicks", source="page_views", sinks=(DeltaSinkSpec(name="lake", table="raw_clicks"),)
    )
    return Shop(
        sources={
            "orders": landing("orders"),
            "order_lines": landing("order_lines"),
            "page_views": landing("page_views"),
            "fx_rates": ExternalSpec(name="fx_rates", table="external/fx_rates", watermark=WatermarkKind.INTEGER),
        },
        pipelines=pipelines,
        groups={group.name: group for group in groups},
        tables={name: parse_sql(name, text, f"tables/{name}.sql") for name, text in queries.items()},
    )


PAIR = Group(name="order_pipeline", sources=("orders", "order_lines"))
