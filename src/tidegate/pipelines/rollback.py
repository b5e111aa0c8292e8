"""What rolling a pipeline back would do, as a value: shown before it is done, and the same that is then carried out."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from tidegate import errors
from tidegate.pipelines.documents import PipelineDocument, SinkProgress, Standing
from tidegate.progress.ranges import Range
from tidegate.quick import dataclass


class SinkFate(Enum):
    """What becomes of the rows that a sink has of the checkpoints which are delivered again."""

    RETRACTED = "retracted"  #: readers see them no more, until they come again
    REPLACED = "replaced"  #: the same keys get the same rows again
    DUPLICATES = "duplicates possible"  #: they are out; consumers know them by their ids
    NOTHING = "nothing to do"  #: it has none of them
    BROKEN = "broken, stays as it is"


_FATES: Final = {
    "delta": SinkFate.RETRACTED,
    "parquet": SinkFate.RETRACTED,
    "jdbc": SinkFate.REPLACED,
    "redis": SinkFate.REPLACED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRollback:
    """One sink of the plan. `again` is what it has of the checkpoints beyond the one that is rolled back to."""

    name: str
    type: str
    fate: SinkFate
    again: Range

    @property
    def text(self) -> str:
        return f"sink {self.name} ({self.type}): {self.fate.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """Checkpoints `again` (half-open) will be delivered again, under the epoch."""

    pipeline: str
    to: int
    again: Range
    epoch: int
    sinks: tuple[SinkRollback, ...]
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "to": self.to,
            "again": list(self.again.inclusive),
            "epoch": self.epoch,
            "sinks": [{"name": one.name, "type": one.type, "fate": one.fate.value} for one in self.sinks],
            "remarks": list(self.remarks),
        }

    @property
    def lines(self) -> tuple[str, ...]:
        """The plan in sentences."""
        first, last = self.again.inclusive
        numbers = f"checkpoint {first}" if first == last else f"checkpoints {first} to {last}"
        head = f"{numbers} of {self.pipeline} will be delivered again, as epoch {self.epoch}"
        return (head, *(sink.text for sink in self.sinks), *self.remarks)


def plan_rollback(document: PipelineDocument, to: int) -> RollbackPlan:
    """The plan of going back to where checkpoint `to` was the last one.

    :raises BelowReaderLo: checkpoints below it have been given up for pruning.
    :raises LedgerError: nothing beyond it was planned.
    """
    marks = document.marks
    again = Range(to + 1, max(to + 1, _planned_end(document)))
    if marks.first is None or not again:
        raise errors.LedgerError(what=f"{document.pipeline} has planned nothing beyond checkpoint {to}")
    if marks.reader_lo is not None and again.lo < marks.reader_lo:
        raise errors.BelowReaderLo(name=document.pipeline, reader_lo=marks.reader_lo - 1, asked=to)
    sinks = tuple(_sink(name, sink, again) for name, sink in document.sinks.items() if sink.standing is not _RETIRED)
    return RollbackPlan(
        pipeline=document.pipeline,
        to=to,
        again=again,
        epoch=document.epoch + 1,
        sinks=sinks,
        remarks=tuple(_remarks(document, again)),
    )


_RETIRED: Final = Standing.RETIRED


def _planned_end(document: PipelineDocument) -> int:
    """The first number that no plan and no delivery has reached."""
    ends = [document.planned_end or 0, document.marks.end or 0]
    ends += [span.hi for sink in document.sinks.values() for span in sink.delivered]
    return max(ends)


def _sink(name: str, sink: SinkProgress, again: Range) -> SinkRollback:
    has = [span for span in sink.delivered if span.hi > again.lo]
    held = Range(max(again.lo, has[0].lo), has[-1].hi) if has else Range(again.lo, again.lo)
    fate = _FATES.get(sink.type, SinkFate.DUPLICATES) if held else SinkFate.NOTHING
    if sink.standing is Standing.BROKEN:
        fate = SinkFate.BROKEN
    return SinkRollback(name=name, type=sink.type, fate=fate, again=held)


def _remarks(document: PipelineDocument, again: Range) -> list[str]:
    skipped = [span for span in document.skipped if span.hi > again.lo]
    told = [f"checkpoint {span.lo} was skipped, and will not be" for span in skipped]
    if document.watermark is not None:
        told.append(f"its watermark, {document.watermark.text} now, goes back with it; tables that read it wait")
    return told
