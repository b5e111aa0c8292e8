"""What `tidegate status` imports of this room is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tidegate.progress

HEAVY = {"numpy", "pyarrow", "pyspark", "deltalake", "obstore", "sqlglot"}
WITH_ARRAYS = {"partitions"}


def test_only_the_tracker_of_rows_needs_numpy() -> None:
    """All other modules together load nothing heavy; a fresh process tells."""
    [folder] = tidegate.progress.__path__
    light = sorted({module.stem for module in Path(folder).glob("[a-z]*.py")} - WITH_ARRAYS)
    assert "event_time" in light
    program = "; ".join(["import sys", *(f"import tidegate.progress.{name}" for name in light), "print(*sys.modules)"])
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not HEAVY & set(loaded)
