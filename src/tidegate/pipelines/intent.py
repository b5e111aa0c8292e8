"""What a pipeline means to do next: new plans, and what was learned of its source on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.ledger.contract import Store
from tidegate.pipelines import plan
from tidegate.pipelines.commit import Rules, stepped, with_tracker
from tidegate.pipelines.declare import PipelineSpec
from tidegate.pipelines.documents import PipelineDocument, PlanDocument, Step
from tidegate.pipelines.plan import BatchLimits
from tidegate.progress import event_time
from tidegate.progress.marks import Marks
from tidegate.progress.partition_state import TrackerState
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sinks.specs import From
from tidegate.sources import advances
from tidegate.sources.contract import ONLY_PART, Available, CutSource, Ends, Limits, NumberingSource, Slice, Source
from tidegate.sources.specs import DEFAULT_MAX_AHEAD

#: The highest number of a source in which nothing was found yet: for `from: now`, all of it comes later.
NOTHING_SEEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the planner looks at."""

    document: PipelineDocument
    plans: Sequence[PlanDocument]
    busy: int
    now_us: int
    token: int
    is_throttled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """New plans, and the document that goes with them."""

    document: PipelineDocument
    plans: tuple[PlanDocument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look at the source told. `ends` are positions; `numbers` only of a source with numbers of its own."""

    ends: Mapping[str, int]
    numbers: RangeSet | None = None


class Planner:
    """Looks at the source and plans. In a run of `--once` the ends are those of the first look."""

    def __init__(self, *, spec: PipelineSpec, source: Source, store: Store, rules: Rules, once: bool) -> None:
        self._spec = spec
        self._source = source
        self._store = store
        self._rules = rules
        self._once = once
        self._bound: Mapping[str, int] | None = None
        self._collecting_since_us: int | None = None

    def plan(self, view: View) -> Intent:
        """What to do now. A look at the source first, then at the advances: one that was recorded before
        a file landed is known before that file is planned."""
        if isinstance(self._source, NumberingSource):
            return self._plan_own(self._source, view)
        if isinstance(self._source, CutSource):
            return self._plan_cut(self._source, view)
        raise TypeError(f"{type(self._source).__name__} neither numbers its checkpoints nor lets them be cut")

    # sources with numbers of their own

    def _plan_own(self, source: NumberingSource, view: View) -> Intent:
        document = self._begun(source, view.document)
        end = document.marks.end
        if document.marks.first is None or end is None:
            return Intent(document=document)
        source.starts_at(document.marks.first)
        window = Range(end, end + self._max_ahead)
        available = source.discover(window)
        numbers, highest = available.numbers, available.highest
        if self._once:
            highest = self._frozen_highest(highest)
            numbers = numbers & Range(0, (highest if highest is not None else -1) + 1)
        seen = max((one for one in (highest, document.highest_seen) if one is not None), default=None)
        document = replace(document, below_first=available.below_first, highest_seen=seen)
        ends = {ONLY_PART: end if highest is None else max(end, highest + 1)}
        document, stops = self._with_advances(document, ends)
        planned = RangeSet(one.range for one in view.plans)
        done = document.committed | document.skipped
        wanted = plan.candidates(numbers, window=window, planned=planned, done=done)
        free = 0 if view.is_throttled else self._spec.max_inflight - view.busy
        if free <= 0 or not wanted or len(view.plans) >= plan.MAX_OPEN_PLANS:
            intent = Intent(document=document)
        else:
            limits = self._batch_limits(document)
            most = plan.fair_share(wanted.size, self._spec.max_inflight, limits.max_checkpoints)
            few = RangeSet(_first_numbers(wanted, most * free))
            made = plan.batches(source.slices(few), limits, stops=stops, most=most)[:free]
            intent = self._with_plans(document, view, made)
        known = planned | done | RangeSet(one.range for one in intent.plans)
        return self._with_idle(intent, view, known=known.covers(Range(end, max(end, (seen or 0) + 1))))

    def _begun(self, source: NumberingSource, document: PipelineDocument) -> PipelineDocument:
        """The document with its first number, once there is one; from then on that is frozen."""
        if document.marks.first is not None:
            return document
        seen = source.discover(Range(0, 0))
        first = self._first_of(source.first(), seen, was_empty=document.highest_seen == NOTHING_SEEN)
        return replace(document, highest_seen=NOTHING_SEEN) if first is None else started(document, first)

    def _first_of(self, declared: int | None, seen: Available, *, was_empty: bool) -> int | None:
        lowest = seen.lowest if declared is None else declared
        if isinstance(self._spec.from_, int):
            return max(self._spec.from_, declared or 0)
        if self._spec.from_ is From.NOW and not was_empty:
            return None if seen.highest is None else seen.highest + 1
        return None if seen.highest is None and declared is None else lowest

    def _frozen_highest(self, highest: int | None) -> int | None:
        if self._bound is None:
            self._bound = {} if highest is None else {ONLY_PART: highest}
        return self._bound.get(ONLY_PART)

    @property
    def _max_ahead(self) -> int:
        return int(getattr(self._source.spec, "max_ahead", DEFAULT_MAX_AHEAD))

    # sources that are cut

    def _plan_cut(self, source: CutSource, view: View) -> Intent:
        document = view.document
        seen: Ends = source.ends()
        if self._once and self._bound is None:
            self._bound = dict(seen.ends)
        ends = dict(seen.ends) if self._bound is None else dict(self._bound)
        document = replace(document, changed_files=seen.changed.size)
        if document.marks.first is None:
            document = started(document, self._spec.from_ if isinstance(self._spec.from_, int) else 0)
            if self._spec.from_ is From.NOW:
                document = replace(document, positions=ends, committed_positions=ends)
        document, _ = self._with_advances(document, ends)
        stops = [step.ends for step in self._open_advances(document) if step.ends is not None]
        free = 0 if view.is_throttled else self._spec.max_inflight - view.busy
        behind = not _reaches(document.positions, ends)
        if not behind or free <= 0 or len(view.plans) >= plan.MAX_OPEN_PLANS or self._is_collecting(view.now_us):
            return self._with_idle(Intent(document=document), view, known=not behind)
        batch = self._spec.batch
        limits = Limits(
            max_events=batch.max_events,
            max_bytes=plan.DEFAULT_MAX_BYTES if batch.max_bytes is None else batch.max_bytes,
            row_bytes=document.row_bytes,
            max_slices=free,
        )
        first = document.planned_end if document.planned_end is not None else document.marks.end or 0
        slices = source.cut(document.positions, ends, limits, first, stops)
        self._collecting_since_us = None
        intent = self._with_plans(document, view, [(one,) for one in slices])
        moved, _ = self._with_advances(intent.document, ends, list(slices), before=document.positions)
        known = _reaches(moved.positions, ends)
        return self._with_idle(replace(intent, document=moved), view, known=known)

    def _is_collecting(self, now_us: int) -> bool:
        """Whether a batch waits for more rows, as `max_ms` allows."""
        max_us = self._spec.batch.max_us
        if max_us is None or self._once:
            return False
        if self._collecting_since_us is None:
            self._collecting_since_us = now_us
        return now_us - self._collecting_since_us < max_us

    # advances

    def _open_advances(self, document: PipelineDocument) -> list[advances.Advance]:
        if not self._rules.kind.is_advanced:
            return []
        known = advances.read(self._store, document.source)
        return [] if known is None else [one for one in known.log if one.seq > document.resolved_seq]

    def _with_advances(
        self,
        document: PipelineDocument,
        ends: Mapping[str, int],
        new: Sequence[Slice] = (),
        *,
        before: Mapping[str, int] | None = None,
    ) -> tuple[PipelineDocument, list[int]]:
        """The document with every advance whose rows are planned, and the numbers where batches must end."""
        stops: list[int] = []
        for one in self._open_advances(document):
            number = self._number_of(document, one, new, before)
            if number is None:
                break
            document = replace(
                stepped(document, Step(end=number, watermark=one.value, seq=one.seq)), resolved_seq=one.seq
            )
        stops += [step.end for step in document.steps if step.seq is not None]
        return document, stops

    def _number_of(
        self,
        document: PipelineDocument,
        one: advances.Advance,
        new: Sequence[Slice],
        before: Mapping[str, int] | None,
    ) -> int | None:
        """The mark from which on all that was there at the advance is complete; None while some is not planned."""
        wanted = one.ends or {}
        if isinstance(self._source, NumberingSource):
            return max(wanted.get(ONLY_PART, 0), document.marks.first or 0)
        if before is not None:
            positions = dict(before)
            for piece in new:
                positions.update({part: span.hi for part, span in piece.parts.items()})
                if _reaches(positions, wanted):
                    return piece.number + 1
        if _reaches(document.positions, wanted):
            return document.planned_end if document.planned_end is not None else document.marks.end
        return None

    # what both kinds share

    def _with_plans(self, document: PipelineDocument, view: View, made: Sequence[tuple[Slice, ...]]) -> Intent:
        plans = tuple(self._document_of(document, view, slices) for slices in made)
        positions = dict(document.positions)
        for slices in made:
            for one in slices:
                for part, span in one.parts.items():
                    positions[part] = max(positions.get(part, span.hi), span.hi)
        planned_end = max((one.range.hi for one in plans), default=0)
        return Intent(
            document=replace(
                document,
                positions=positions,
                planned_end=max(planned_end, document.planned_end or 0) or document.planned_end,
            ),
            plans=plans,
        )

    def _document_of(self, document: PipelineDocument, view: View, slices: Sequence[Slice]) -> PlanDocument:
        timed = self._rules.event_time
        late_us = None if document.tracker is None or timed is None else document.tracker.combined_us
        return PlanDocument(
            range=plan.range_of(slices),
            epoch=document.epoch,
            token=view.token,
            slices=tuple(slices),
            source_identity=document.source_identity,
            planned_us=view.now_us,
            late_before_us=late_us,
            future_after_us=None if timed is None else view.now_us + timed.max_skew_us,
            definition=self._spec.definition,
            schema_fp=document.schema_fp,
        )

    def _batch_limits(self, document: PipelineDocument) -> BatchLimits:
        # All that are in flight may end at once: then the mark steps over all of them.
        most = max(1, plan.MAX_BATCH_CHECKPOINTS // self._spec.max_inflight)
        bound = self._spec.max_batch_checkpoints
        return BatchLimits(
            max_checkpoints=most if bound is None else min(bound, most),
            max_events=self._spec.batch.max_events,
            max_bytes=self._spec.batch.max_bytes,
            row_bytes=document.row_bytes,
        )

    def _with_idle(self, intent: Intent, view: View, *, known: bool) -> Intent:
        """The intent in which parts that are known to have nothing more to say for the timeout are idle.

        `known`: the source was reached and everything it has is planned. A part is quiet while besides
        nothing of it is in an open plan: those are kept until all sinks have published them. A source that
        waits for others has not fallen silent.
        """
        document, timed = intent.document, self._rules.event_time
        if timed is None or timed.idle_timeout_us is None or document.tracker is None:
            return intent
        waiting = {part for one in (*view.plans, *intent.plans) for part in _parts_in(one)}
        quiet = {part: at_us for part, at_us in document.quiet_since_us.items() if part not in waiting}
        if known and not view.is_throttled:
            quiet = {part: view.now_us for part in self._source.parts() if part not in waiting} | quiet
            tracker = event_time.judge_idle(
                document.tracker,
                quiet,
                timeout_us=timed.idle_timeout_us,
                now_us=view.now_us,
                all_idle=timed.all_idle,
            )
            if tracker != document.tracker:
                document = with_tracker(document, tracker, self._rules)
        return replace(intent, document=replace(document, quiet_since_us=quiet))


def started(document: PipelineDocument, first: int) -> PipelineDocument:
    """The document of a pipeline that begins at `first`."""
    sinks = {name: replace(sink, start=max(first, sink.start)) for name, sink in document.sinks.items()}
    return replace(document, marks=Marks.starting(first), sinks=sinks, planned_end=first)


def tracker_of(source: Source, known: TrackerState | None) -> TrackerState:
    """The tracker with every part of the source in it: known before its first row."""
    empty = TrackerState(parts={}, combined_us=None)
    return event_time.with_parts(known or empty, source.parts())


def _parts_in(one: PlanDocument) -> set[str]:
    """The parts that the plan reads something of."""
    return {part for piece in one.slices for part, span in piece.parts.items() if span}


def _reaches(positions: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(positions.get(part, 0) >= end for part, end in wanted.items())


def _first_numbers(numbers: RangeSet, count: int) -> list[Range]:
    """The lowest `count` numbers, as ranges."""
    taken: list[Range] = []
    for span in numbers:
        if count <= 0:
            break
        taken.append(Range(span.lo, min(span.hi, span.lo + count)))
        count -= len(taken[-1])
    return taken
