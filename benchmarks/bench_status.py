"""How long a person waits for `tidegate status`, against importing what any such command is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import workbench
from benchmarks.measure import Measure, interleaved, median_ratio

ROUNDS = 21
WARMUPS = 3
CHECKPOINTS = 8


def measures() -> list[Measure]:
    """The median of the ratios of the pairs."""
    with workbench.room() as room:
        project = workbench.Project(room / "project", sink="delta")
        for number in range(CHECKPOINTS):
            workbench.write_orders(project.file(number), 10, first_id=number * 10)
        with workbench.warm_spark(room):
            project.run(expect_end=CHECKPOINTS)
        command = str(Path(sys.executable).with_name("tidegate"))
        bytecode = room / "bytecode"
        raw = interleaved(
            ROUNDS,
            WARMUPS,
            status=_command([command, "--project", str(project.root), "status"], bytecode),
            imports=_command([sys.executable, "-c", "import typer, rich.table"], bytecode),
        )
    return [
        Measure(
            name="tidegate status against its imports",
            value=median_ratio(raw, "status", "imports"),
            unit="times",
            target=1.8,
            raw=raw,
            note="`python -c 'import typer, rich.table'` is 1; seconds",
        )
    ]


def _command(command: Sequence[str], bytecode: Path) -> Callable[[], None]:
    # The warm-up compiles, as the first start after an installation does, wherever the packages come from.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def once() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)

    return once
