"""What is left to deliver, where, and when it may be tried again. Pure values over plans and receipts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.progress.ranges import Range, RangeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of checkpoints that the same sinks still lack; tried as a whole."""

    range: Range
    sinks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """What became of a piece in one sink: how often it was tried, and when it may be again.

    `retry_at_us` None: its budget is used up.
    """

    sink: str
    range: Range
    attempts: int
    retry_at_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """The tries that failed, and the places where a batch was cut because of them."""

    failed: tuple[Try, ...] = ()
    cuts: frozenset[int] = frozenset()

    def of(self, sink: str, piece: Range) -> Try | None:
        """The newest failed try that touches the piece in that sink."""
        return next((one for one in reversed(self.failed) if one.sink == sink and one.range.intersect(piece)), None)

    def attempts(self, sink: str, piece: Range) -> int:
        """How often exactly this piece was tried in that sink."""
        known = self.of(sink, piece)
        return known.attempts if known is not None and known.range == piece else 0

    def noted(self, sink: str, piece: Range, retry_at_us: int | None) -> Tries:
        """One more try has failed."""
        one = Try(sink=sink, range=piece, attempts=self.attempts(sink, piece) + 1, retry_at_us=retry_at_us)
        return replace(self, failed=(*self._without(sink, piece), one))

    def split(self, sink: str, piece: Range) -> Tries:
        """The piece is tried again in halves, at once."""
        middle = piece.lo + len(piece) // 2
        return Tries(failed=self._without(sink, piece), cuts=self.cuts | {middle})

    def succeeded(self, sink: str, piece: Range) -> Tries:
        """The sink takes deliveries: what it refused before may be tried at once, budgets anew."""
        left = tuple(
            replace(one, attempts=0, retry_at_us=0) if one.sink == sink and one.retry_at_us is None else one
            for one in self._without(sink, piece)
        )
        return replace(self, failed=left)

    def renewed(self, sinks: Iterable[str], at_us: int) -> Tries:
        """What these sinks have given up on may be tried once more from `at_us` on."""
        names = frozenset(sinks)
        left = tuple(
            replace(one, retry_at_us=at_us) if one.sink in names and one.retry_at_us is None else one
            for one in self.failed
        )
        return replace(self, failed=left)

    @property
    def exhausted(self) -> tuple[Try, ...]:
        """Those whose budget is used up."""
        return tuple(one for one in self.failed if one.retry_at_us is None)

    @property
    def next_at_us(self) -> int | None:
        """When the earliest of the others may be tried again."""
        return min((one.retry_at_us for one in self.failed if one.retry_at_us is not None), default=None)

    def _without(self, sink: str, piece: Range) -> tuple[Try, ...]:
        return tuple(one for one in self.failed if one.sink != sink or not one.range.intersect(piece))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All that decides what is due: the open batches, what each sink has, what runs, what failed.

    `delivered` has the sinks that still want rows, each with what it has; `starts` the first number
    each of them takes; `taken` the numbers whose rows were counted: a piece is counted whole or not.
    """

    batches: Sequence[Range]
    delivered: Mapping[str, RangeSet]
    starts: Mapping[str, int] = field(default_factory=dict)
    running: RangeSet = field(default_factory=RangeSet)
    taken: RangeSet = field(default_factory=RangeSet)
    tries: Tries = field(default_factory=Tries)


def due(load: Workload, now_us: int) -> list[Piece]:
    """The pieces that may be tried now: those never tried first, then by number."""
    fresh: list[Piece] = []
    again: list[Piece] = []
    for batch in load.batches:
        for piece in pieces(load, batch):
            if load.running & piece.range:
                continue
            ready = tuple(sink for sink in piece.sinks if _may_try(load.tries, sink, piece.range, now_us))
            if not ready:
                continue
            tried = any(load.tries.of(sink, piece.range) for sink in ready)
            (again if tried else fresh).append(replace(piece, sinks=ready))
    return fresh + again


def pieces(load: Workload, batch: Range) -> list[Piece]:
    """The batch, cut where its sinks differ in what they lack and where it was split."""
    missing = {sink: _missing(load, sink, batch) for sink in load.delivered}
    if not any(missing.values()):
        return []
    edges = {batch.lo, batch.hi, *(cut for cut in load.tries.cuts if batch.lo < cut < batch.hi)}
    edges |= {edge for span in load.taken & batch for edge in (span.lo, span.hi)}
    for gaps in missing.values():
        edges |= {edge for gap in gaps for edge in (gap.lo, gap.hi)}
    ordered = sorted(edges)
    made = []
    for lo, hi in itertools.pairwise(ordered):
        sinks = tuple(sink for sink, gaps in missing.items() if lo in gaps)
        if sinks:
            made.append(Piece(range=Range(lo, hi), sinks=sinks))
    return made


def _missing(load: Workload, sink: str, batch: Range) -> RangeSet:
    start = load.starts.get(sink, batch.lo)
    return load.delivered[sink].gaps(Range(min(max(start, batch.lo), batch.hi), batch.hi))


def _may_try(tries: Tries, sink: str, piece: Range, now_us: int) -> bool:
    known = tries.of(sink, piece)
    return known is None or (known.retry_at_us is not None and known.retry_at_us <= now_us)
