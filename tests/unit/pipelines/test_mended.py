"""Files that could not be read and were replaced: which of them are planned anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.pipelines.builders import document_of
from tidegate.pipelines import commit, opening
from tidegate.pipelines.documents import Failure, PipelineDocument, PlanDocument
from tidegate.progress.ranges import Range, RangeSet
from tidegate.sources.numbered import NumberedSource
from tidegate.sources.specs import FileFormat, NumberedSpec, Reading, WatermarkKind
from tidegate.testing.clock import ManualClock

UNREAD, CHANGED, DOWN = "TG-S001", "TG-S003", "TG-D002"


class Folder:
    """Three numbered files and the plan that was made of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for number in range(3):
            self.write(number, "{}\n")
        reading = Reading(format=FileFormat.JSON, schema="id BIGINT")
        spec = NumberedSpec(name="orders", watermark=WatermarkKind.CHECKPOINT, path="in/{number}.json", reading=reading)
        self.source = NumberedSource(spec, root=root, clock=ManualClock())
        slices = tuple(self.source.slices(RangeSet.of(Range(0, 3))))
        self.plan = PlanDocument(
            range=Range(0, 3), epoch=1, token=1, slices=slices, source_identity="it", planned_us=0, late_before_us=7
        )

    def write(self, number: int, text: str) -> None:
        path = self.root / "in" / f"{number}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def mended(self, document: PipelineDocument, *, busy: RangeSet | None = None) -> list[PlanDocument]:
        return opening.mended(document, [self.plan], self.source, busy=busy or RangeSet(), token=2)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def failed(number: int, code: str) -> Failure:
    return Failure(range=Range.one(number), sink=None, code=code, message="no", at_us=1)


def begun(*failures: Failure, **fields: object) -> PipelineDocument:
    return document_of(first=0, failures=failures, **fields)


def test_a_file_that_could_not_be_read_and_was_replaced_is_planned_anew(folder: Folder) -> None:
    """Only it: the others of the batch, its numbers and its thresholds stay as they were planned."""
    folder.write(1, '{"id": 1}\n')
    folder.write(2, '{"id": 2}\n')
    (made,) = folder.mended(begun(failed(1, UNREAD)))
    assert [one.size_bytes for one in made.slices] == [3, 10, 3]
    assert (made.range, made.late_before_us, made.token) == (Range(0, 3), 7, 2)
    assert (made.slices[0], made.slices[2]) == (folder.plan.slices[0], folder.plan.slices[2])


@pytest.mark.parametrize("code", [CHANGED, DOWN])
def test_a_file_that_was_readable_stays_as_it_was_planned(folder: Folder, code: str) -> None:
    """A sink may have rows of it, and a rule that is lifted by starting again is no rule."""
    folder.write(1, '{"id": 1}\n')
    assert folder.mended(begun(failed(1, code))) == []


def test_what_a_sink_has_or_somebody_reads_is_not_planned_anew(folder: Folder) -> None:
    folder.write(1, '{"id": 1}\n')
    failure = failed(1, UNREAD)
    assert folder.mended(begun(failure, taken=RangeSet.of(1))) == []
    assert folder.mended(begun(failure), busy=RangeSet.of(1)) == []


def test_the_same_file_and_one_that_is_gone_change_no_plan(folder: Folder) -> None:
    assert folder.mended(begun(failed(1, UNREAD))) == []
    (folder.root / "in" / "1.json").unlink()
    assert folder.mended(begun(failed(1, UNREAD))) == []


def test_that_the_file_is_another_by_now_does_not_hide_that_it_was_unreadable() -> None:
    """A try that was under way while the file was replaced must not make it unmendable."""
    document = commit.failed(commit.failed(begun(), failed(1, UNREAD)), failed(1, CHANGED))
    assert [one.code for one in document.failures] == [UNREAD]
    document = commit.failed(document, failed(2, CHANGED))
    assert [one.code for one in document.failures] == [UNREAD, CHANGED]
