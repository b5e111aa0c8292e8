"""What the ledger costs beside a bare transaction of the same bytes, and what gaps and many pipelines cost it."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import zstandard
from tests.servers.postgres import Postgres

from benchmarks import workbench
from benchmarks.baselines.bare_postgres import BareRows
from benchmarks.baselines.bare_sqlite import BareTable
from benchmarks.measure import Measure, interleaved, median_ratio
from tidegate.ledger import sealing
from tidegate.ledger.contract import Store
from tidegate.ledger.postgres import PostgresStore
from tidegate.ledger.sqlite import SqliteStore
from tidegate.pipelines.documents import PipelineDocument, SinkProgress, state_key
from tidegate.progress.marks import Marks
from tidegate.progress.ranges import Range, RangeSet
from tidegate.service import Service

ROUNDS = 15
WARMUPS = 3
PUTS = 200
PIPELINES = 1000

Put = Callable[[int, int], None]  #: the number of a pipeline, and how many times it has put before


def measures() -> list[Measure]:
    """Ratios are medians of pairs."""
    with workbench.room() as room:
        return [*_commits(room), *_gaps(room), _packed(room), _status(room)]


def document(gaps: int = 3, parts: int = 16) -> PipelineDocument:
    """A pipeline in the middle of its work: three sinks, each with so many gaps, and a source of so many parts."""
    ahead = RangeSet(Range(1_000_000 + 3 * gap, 1_000_002 + 3 * gap) for gap in range(1, gaps + 1))
    delivered = RangeSet.of(Range(0, 1_000_001)) | ahead
    sinks = {
        name: SinkProgress(type=name, required=True, start=0, delivered=delivered, rows=10**9)
        for name in ("delta", "parquet", "kafka")
    }
    return PipelineDocument(
        pipeline="orders",
        source="orders",
        source_identity="landing:incoming/orders",
        marks=Marks(first=0, end=1_000_001, reader_lo=900_000),
        committed=ahead,
        taken=ahead,
        sinks=sinks,
        planned_end=1_000_002 + 3 * gaps,
        positions={str(part): 10**9 + part for part in range(parts)},
        committed_positions={str(part): 10**9 for part in range(parts)},
    )


def _commits(room: Path) -> Iterator[Measure]:
    body = document().to_body()
    for pipelines in (1, 8):
        for backend, opened in (("SQLite", _on_sqlite), ("Postgres", _on_postgres)):
            with opened(room / f"{backend}-{pipelines}", body, pipelines) as (ledger, bare):
                raw = interleaved(ROUNDS, WARMUPS, ledger=_rate(ledger, pipelines), bare=_rate(bare, pipelines))
            yield Measure(
                name=f"commits of {_plural(pipelines)} on {backend}",
                value=median_ratio(raw, "ledger", "bare"),
                unit="times",
                target=1.5,
                raw=raw,
                note=f"a bare transaction of the same {len(body):,} bytes is 1; seconds a commit",
            )


@contextmanager
def _on_sqlite(place: Path, body: bytes, pipelines: int) -> Iterator[tuple[Put, Put]]:
    place.mkdir()
    bare, turn = BareTable(place / "bare.db"), threading.Lock()

    def put(pipeline: int, times: int) -> None:
        with turn:
            bare.put([(str(pipeline), body)])

    with SqliteStore(place / "ledger.db") as store:
        yield _putting(store, body), put
    bare.close()


@contextmanager
def _on_postgres(place: Path, body: bytes, pipelines: int) -> Iterator[tuple[Put, Put]]:
    with ExitStack() as stack:
        url = stack.enter_context(Postgres(flushes=True)).new_database()
        bare = [BareRows(url) for _ in range(pipelines)]
        for one in bare:
            stack.callback(one.close)
        store = stack.enter_context(PostgresStore(url))
        yield _putting(store, body), lambda pipeline, times: bare[pipeline].put(str(pipeline), body)


def _putting(store: Store, body: bytes) -> Put:
    def put(pipeline: int, times: int) -> None:
        store.put(state_key(str(pipeline)), body, expect=times or None)

    return put


def _rate(put: Put, pipelines: int) -> Callable[[], float]:
    """Seconds a commit while so many pipelines commit at the same time."""
    done = [0] * pipelines

    def once() -> float:
        def work(pipeline: int) -> None:
            for _ in range(PUTS // pipelines):
                put(pipeline, done[pipeline])
                done[pipeline] += 1

        threads = [threading.Thread(target=work, args=(pipeline,)) for pipeline in range(pipelines)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - began) / (PUTS // pipelines * pipelines)

    return once


def _gaps(room: Path) -> Iterator[Measure]:
    bodies = {gaps: document(gaps).to_body() for gaps in (0, 10, 1000)}
    with SqliteStore(room / "gaps.db") as store:
        sides = {f"gaps_{gaps}": _rate(_making(store, gaps), 1) for gaps in bodies}
        raw = interleaved(5, 1, **sides)
    for gaps, target in ((10, 1.5), (1000, 20)):
        yield Measure(
            name=f"a put with {gaps:,} gaps in each of three sinks",
            value=median_ratio(raw, f"gaps_{gaps}", "gaps_0"),
            unit="times",
            target=target,
            raw=raw,
            note=f"without a gap is 1; {len(bodies[gaps]):,} bytes against {len(bodies[0]):,}; seconds",
        )
    sealed = {gaps: len(sealing.prepare("a", body).seal(1)) for gaps, body in bodies.items()}
    yield Measure(
        name="a document with 1,000 gaps in each of three sinks",
        value=sealed[1000] / 1024,
        unit="KiB",
        target=64,
        raw={f"bytes_{gaps}": [float(size)] for gaps, size in sealed.items()},
        note="as it is stored",
    )


def _making(store: Store, gaps: int) -> Put:
    known = document(gaps)

    def put(pipeline: int, times: int) -> None:
        body = replace(known, updated_us=times).to_body()
        store.put(f"gaps/{gaps}", body, expect=times or None)

    return put


def _packed(room: Path) -> Measure:
    """Whether packing pays at the size from which on it is done."""
    body = document(2000).to_body()[: sealing.COMPRESS_FROM_BYTES]
    plain, packed = BareTable(room / "plain.db"), BareTable(room / "packed.db")

    def pack() -> None:
        for _ in range(50):
            packed.put([("a", zstandard.ZstdCompressor(level=1).compress(body))])

    def leave() -> None:
        for _ in range(50):
            plain.put([("a", body)])

    raw = interleaved(ROUNDS, WARMUPS, packed=pack, plain=leave)
    for table in (plain, packed):
        table.close()
    return Measure(
        name=f"putting {sealing.COMPRESS_FROM_BYTES // 1024} KiB packed",
        value=median_ratio(raw, "packed", "plain"),
        unit="times",
        target=1.1,
        raw=raw,
        note="the same bytes as they are is 1; seconds for 50",
    )


def _status(room: Path) -> Measure:
    """`Service.status` of a project with many pipelines that have all run."""
    project = room / "many"
    project.mkdir()
    lines = ["name: many", "sources:", "  s: {type: generator, checkpoints: 3}", "pipelines:"]
    lines += [f"  p{n:04d}: {{source: s, sinks: [{{name: lake, type: delta}}]}}" for n in range(PIPELINES)]
    (project / "tidegate.yml").write_text("\n".join(lines) + "\n")
    body = document().to_body()
    with Service.open(project) as service:
        for name in service.spec.pipelines:
            service.store.put(state_key(name), body)
        service.status()
        raw = {"status": [_seconds(service.status) for _ in range(5)]}
    return Measure(
        name=f"the status of {PIPELINES:,} pipelines",
        value=statistics.median(raw["status"]) * 1000,
        unit="ms",
        target=1000,
        raw=raw,
        note="one call; seconds",
    )


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _plural(pipelines: int) -> str:
    return "one pipeline" if pipelines == 1 else f"{pipelines} pipelines"
