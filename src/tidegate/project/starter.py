"""What `tidegate init DIR` writes: a small project that runs as it is, and shows a gate that waits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigError
from tidegate.project import places

_SETTINGS: Final = """\
name: {name}

sources:                        # rows from outside; here they are made up by a rule
  orders:
    type: generator
    parts: 2
    rows_per_checkpoint: 600
    checkpoints: 10             # raise it to 20 and run again: orders run ahead of payments
    start: 2026-03-01T08:00:00Z
    step: 1s
    event_time: at
  payments:
    type: generator
    parts: 2
    rows_per_checkpoint: 600
    checkpoints: 10
    start: 2026-03-01T08:00:00Z
    step: 1s
    seed: 1
    event_time: at

pipelines:                      # source -> transform -> sinks
  orders:
    source: orders
    transform: pipelines/orders.py:clean
    sinks:
      - {{name: lake, type: delta}}
  payments:
    source: payments
    sinks:
      - {{name: lake, type: delta}}

groups:                         # sources that must agree before a gated table is refreshed
  shop: {{sources: [orders, payments], tolerance: 1m}}
"""

_TRANSFORM: Final = '''\
"""What happens to the rows of a checkpoint on their way into the lake: plain PySpark."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def clean(df: DataFrame) -> DataFrame:
    """Orders with the amount in whole cents."""
    return df.withColumn("amount", F.round("amount", 2))
'''

_TABLE: Final = """\
-- What each user ordered and paid; never from orders of one hour and payments of another.
-- gating: gate
SELECT o.user, count(*) AS orders, round(sum(o.amount), 2) AS ordered, round(sum(p.amount), 2) AS paid
FROM orders o JOIN payments p USING (id)
GROUP BY o.user
"""

_README: Final = """\
# {name}

    tidegate run --once         runs both pipelines and refreshes the report
    tidegate status             how complete everything is
    tidegate read user_report   the rows of the report
    tidegate explain user_report

See the gate at work: in `tidegate.yml`, raise `checkpoints` of source `orders` to 20, and run again. The orders
are there; the report keeps what it has and says that payments are behind. Raise those too: it opens.

| file | what it is |
|---|---|
| `tidegate.yml` | sources, pipelines, groups |
| `pipelines/*.py` | transforms, from DataFrame to DataFrame |
| `tables/*.sql` | maintained tables |
| `lake/` | the tables themselves, as Delta; any reader of Delta sees complete data only |
| `.tidegate/` | the ledger and the logs |
"""

_IGNORED: Final = f"/lake/\n/{places.STATE}/\n__pycache__/\n"


def write_starter(folder: Path) -> tuple[Path, ...]:
    """Write the project into a folder that is new or empty, and give the files that were written.

    :raises ConfigError: the folder holds something already, or cannot be written; then nothing was changed.
    """
    _check_is_free(folder)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.absolute().name).strip("-_.") or "shop"
    texts = {
        places.FILE: _SETTINGS.format(name=name),
        "README.md": _README.format(name=name),
        ".gitignore": _IGNORED,
        "pipelines/orders.py": _TRANSFORM,
        "tables/user_report.sql": _TABLE,
    }
    try:
        return tuple(_write(folder / path, text) for path, text in texts.items())
    except OSError as failed:
        raise ConfigError(where=folder, what=f"cannot be written: {failed.strerror}") from failed


def _check_is_free(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(where=folder, what="is a file, not a folder", hint="name a folder that is new or empty")
    there = sorted(path.name for path in folder.iterdir() if path.name != ".git") if folder.is_dir() else []
    if there:
        held = ", ".join(there[:3]) + (", …" if len(there) > 3 else "")
        raise ConfigError(where=folder, what=f"is not empty ({held})", hint="name a folder that is new or empty")


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
