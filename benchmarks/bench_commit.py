"""What it costs to commit and to publish one checkpoint, against a bare transaction of the same bytes.

Taken in the control loop of a real run, one checkpoint after the other: from the receipt that a
worker hands over to the put that says the checkpoint is published. In between lie the put of the
receipt and the mark, the entry of the table's log, flushed with its folder, and the put of the
published mark. The bytes of all three go into one transaction of a bare SQLite table, right after.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import workbench
from benchmarks.baselines.bare_sqlite import BareTable
from benchmarks.measure import Measure, median_ratio
from tidegate.lake import log
from tidegate.ledger.contract import Operation, Put
from tidegate.ledger.sqlite import SqliteStore
from tidegate.project.running import run_project

CHECKPOINTS = 150
WARMUPS = 30


def measures() -> list[Measure]:
    """The median of the ratios of the pairs."""
    with workbench.room() as room:
        project = workbench.Project(
            room / "project", sink="delta", batch={"max_bytes": 1, "max_inflight": 1}, publish_every="1us"
        )
        for number in range(CHECKPOINTS):
            workbench.write_orders(project.file(number), 10, first_id=number * 10)
        bare = BareTable(room / "bare.db")
        with project.service() as service, workbench.warm_spark(room):
            store = _Watched(project.root / ".tidegate" / "ledger.db", bare, project.root / "lake" / "orders")
            run_project(
                service.spec, store, names=(), once=True, stop=threading.Event(), on_event=store.heard, clock=None
            )
            store.close()
        bare.close()
    raw = {name: figures[WARMUPS:] for name, figures in store.raw.items()}
    if len(raw["tidegate"]) < CHECKPOINTS - WARMUPS:
        raise RuntimeError(f"of {CHECKPOINTS} checkpoints only {len(store.raw['tidegate'])} were published apart")
    return [
        Measure(
            name="committing and publishing a checkpoint",
            value=median_ratio(raw, "tidegate", "sqlite"),
            unit="times",
            target=5,
            raw=raw,
            note="a transaction, flushed once, is 1; ours flush four times: two, the log's entry, its folder; seconds",
        )
    ]


class _Watched(SqliteStore):
    """The ledger of the run, which takes the time of each checkpoint and then the time of the bare transaction."""

    def __init__(self, path: Path, bare: BareTable, table: Path) -> None:
        super().__init__(path)
        self.raw: dict[str, list[float]] = {"tidegate": [], "sqlite": []}
        self._bare = bare
        self._table = table
        self._began: float | None = None
        self._version: int | None = None
        self._bodies: list[tuple[str, bytes]] = []

    def heard(self, event: str, facts: Mapping[str, object]) -> None:
        """An event of the run, told in the thread of its loop."""
        if event == "batch_delivered":
            self._began, self._version, self._bodies = time.perf_counter(), None, []
        if event == "published":
            version = facts["version"]
            assert isinstance(version, int)
            self._version = version

    def transaction(self, operations: Sequence[Operation]) -> list[int]:
        made = super().transaction(operations)
        ended = time.perf_counter()
        if self._began is not None and any(one.key.endswith("/state") for one in operations):
            self._bodies += [(one.key, one.body) for one in operations if isinstance(one, Put)]
            if self._version is not None:
                self.raw["tidegate"].append(ended - self._began)
                self._began = None
                self._bodies.append(("log", (self._table / log.entry_path(self._version)).read_bytes()))
                self._put_bare()
        return made

    def _put_bare(self) -> None:
        documents = [(f"{place}/{key}", body) for place, (key, body) in enumerate(self._bodies)]
        began = time.perf_counter()
        self._bare.put(documents)
        self.raw["sqlite"].append(time.perf_counter() - began)
