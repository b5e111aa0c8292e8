"""A pipeline over real files, into sinks that remember: run after run, in this process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tests.spark.sessions import CONF
from tidegate.clock import SystemClock
from tidegate.ledger.contract import Store
from tidegate.ledger.memory import MemoryStore
from tidegate.pipelines.declare import PipelineSpec, TransformRef
from tidegate.pipelines.documents import PipelineDocument, read_state
from tidegate.pipelines.run import Equipment, Finished, PipelineRun
from tidegate.progress.retries import RetryBudget
from tidegate.sinks.contract import Delivery
from tidegate.sinks.specs import DeltaSinkSpec, SinkSpec
from tidegate.sources.opening import open_source
from tidegate.sources.specs import (
    EventTime,
    FileFormat,
    LandingSpec,
    NumberedSpec,
    Reading,
    SourceSpec,
    WatermarkKind,
)
from tidegate.spark.session import Spark
from tidegate.spark.settings import SparkSettings
from tidegate.testing.sinks import Place, RecordingSink

LAKE = DeltaSinkSpec(name="lake", table="orders")
READING = Reading(format=FileFormat.JSON, schema="id BIGINT, at TIMESTAMP")
#: As many tries as a test has patience for.
RETRY = RetryBudget(attempts=2, base_us=1000, max_us=2000)

Fail = Callable[[str, Delivery | None], Exception | None]


def never(call: str, delivery: Delivery | None) -> Exception | None:
    return None


def landing(**event_time: Any) -> LandingSpec:
    """Files that land, with event times."""
    timed = EventTime(column="at", **event_time)
    return LandingSpec(name="orders", watermark=WatermarkKind.EVENT_TIME, path="in", reading=READING, event_time=timed)


def numbered() -> NumberedSpec:
    return NumberedSpec(name="orders", watermark=WatermarkKind.CHECKPOINT, path="in/{number}.json", reading=READING)


class Shop:
    """What outlives the runs: the folder, the ledger, and what the sinks hold."""

    def __init__(self, root: Path, source: SourceSpec) -> None:
        self.root = root
        self.source = source
        self.store: Store = MemoryStore()
        self.places: dict[str, Place] = {}
        self.stop = threading.Event()
        self.events: list[tuple[str, Mapping[str, object]]] = []
        self._landed = 0

    def land(self, name: object, *rows: Mapping[str, object]) -> None:
        """A file, younger than those before it."""
        path = self.root / "in" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._landed += 1
        os.utime(path, (self._landed, self._landed))

    def run(
        self,
        *sinks: SinkSpec,
        transform: Callable[[DataFrame], Any] | None = None,
        fail: Mapping[str, Fail] | None = None,
        once: bool = True,
        **options: Any,
    ) -> Finished:
        """One run of the pipeline to its end."""
        ref = None if transform is None else TransformRef(text="here", load=lambda: transform)
        spec = PipelineSpec(
            name="orders", source="orders", sinks=sinks or (LAKE,), transform=ref, retry=RETRY, **options
        )
        side = [DeltaSinkSpec(name=name, table=f"orders{name}") for name in ("__dead", "__late")]
        equipment = Equipment(
            spec=spec,
            store=self.store,
            spark=Spark(SparkSettings(master="local[2]", remote=None, conf=CONF), name="tests", root=self.root),
            source=open_source(self.source, self.store, self.root, SystemClock()),
            sinks=[self._sink(sink, fail or {}) for sink in spec.sinks],
            side={sink.name: self._sink(sink, fail or {}) for sink in side},
            clock=SystemClock(),
            tell=lambda event, facts: self.events.append((event, facts)),
        )
        return PipelineRun(equipment, once=once, stop=self.stop).run()

    def _sink(self, spec: SinkSpec, fail: Mapping[str, Fail]) -> RecordingSink:
        place = self.places.setdefault(spec.name, Place())
        return RecordingSink(place, spec=spec, fail=fail.get(spec.name, never))

    @property
    def document(self) -> PipelineDocument:
        document = read_state(self.store, "orders")
        assert document is not None
        return document

    def ids(self, sink: str = "lake") -> list[int]:
        """What a reader of the sink sees."""
        return sorted(row["id"] for row in self.places[sink].visible())

    @property
    def watermark(self) -> str | None:
        """What readers are told that the source is complete through."""
        state = self.places["lake"].state
        found = None if state is None else state.vector.get("orders")
        return None if found is None else found.text

    def told(self, event: str) -> list[Mapping[str, object]]:
        return [facts for name, facts in self.events if name == event]
