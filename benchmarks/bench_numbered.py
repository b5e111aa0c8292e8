"""Ten thousand numbered checkpoints of ten rows, from the listing of their folder to the last published mark."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from benchmarks import workbench
from benchmarks.measure import Measure, interleaved
from tidegate.pipelines.documents import state_key

ROWS = 10
CHECKPOINTS = 10_000
MARK_EVERY = 1_000
MAX_DOCUMENT_BYTES = 100_000
ROUNDS = 5
WARMUPS = 1


def measures() -> list[Measure]:
    """Checkpoints a second, how far apart the marks were, and the largest document of the pipeline."""
    with workbench.room() as room, workbench.warm_spark(room):
        files = room / "files"
        for number in range(CHECKPOINTS):
            workbench.write_orders(files / f"{number:08d}.json", ROWS, first_id=number * ROWS)
        seen = _Seen()
        projects = (
            workbench.Project(room / f"project-{turn}", sink="delta", files=files) for turn in range(ROUNDS + WARMUPS)
        )
        raw = interleaved(ROUNDS, WARMUPS, seconds=lambda: seen.run(next(projects)))
    return [
        Measure(
            name="numbered checkpoints, end to end",
            value=CHECKPOINTS / statistics.median(raw["seconds"]),
            unit="checkpoints/s",
            target=300,
            at_most=False,
            raw=raw,
            note=f"{CHECKPOINTS:,} checkpoints of {ROWS} rows; seconds",
        ),
        Measure(
            name="checkpoints between two marks",
            value=max(seen.steps),
            unit="checkpoints",
            target=MARK_EVERY,
            raw={"steps": seen.steps},
            note="the most, of all rounds",
        ),
        Measure(
            name="the pipeline's document",
            value=max(seen.sizes),
            unit="bytes",
            target=MAX_DOCUMENT_BYTES,
            raw={"largest_of_a_run": seen.sizes},
            note="the largest that was ever written, as it is stored",
        ),
    ]


class _Seen:
    """What the runs showed beside their time."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.sizes: list[float] = []
        self._end = 0

    def run(self, project: workbench.Project) -> None:
        self._end = 0
        project.run(expect_end=CHECKPOINTS, on_event=self._event)
        with project.service() as service:
            self.sizes.append(max(one.size_bytes for one in service.store.versions(state_key("orders"))))

    def _event(self, event: str, facts: Mapping[str, object]) -> None:
        if event == "checkpoint_committed":
            end = facts["end"]
            assert isinstance(end, int)
            self.steps.append(end - self._end)
            self._end = end
