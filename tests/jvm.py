"""What lets the many short JVMs of the tests start quickly.

A run of a test is over before the JVM's second compiler or a concurrent collector pays, and half of
its time goes into loading the same 15,000 classes: they come from an archive that one run leaves
behind. A JVM that finds none, or one of other jars, starts without.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import psutil

ARCHIVE = Path(__file__).parents[1] / "build" / f"spark-{metadata.version('pyspark')}.jsa"

_PLAIN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
OPTIONS = f"{_PLAIN} -XX:SharedArchiveFile={ARCHIVE}"

_YAML = """\
name: archive
spark:
  master: local[2]
  conf: {{spark.driver.extraJavaOptions: "{plain} -XX:ArchiveClassesAtExit={draft}"}}
sources:
  entries: {{type: numbered, path: "{{number}}.json", format: json, schema: "id BIGINT"}}
pipelines:
  entries:
    source: entries
    sinks: [{{name: lake, type: delta}}, {{name: files, type: parquet, path: out}}]
"""


def make_archive(folder: Path) -> None:
    """Make the archive with one run of a small project, unless it is there or somebody else is making it."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if ARCHIVE.exists():
            return
        draft = ARCHIVE.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        (folder / "tidegate.yml").write_text(_YAML.format(plain=_PLAIN, draft=draft))
        for number in range(3):
            (folder / f"{number}.json").write_text('{"id": 1}\n')
        run = [sys.executable, "-m", "tidegate", "--project", str(folder), "run", "--once"]
        subprocess.run(run, check=True, capture_output=True, timeout=300)
        # The JVM outlives its Python, and writes the archive as the last thing that it does.
        psutil.wait_procs([one for one in psutil.process_iter() if _writes(one, draft)], timeout=120)
        draft.rename(ARCHIVE)


def _writes(process: psutil.Process, draft: Path) -> bool:
    try:
        return any(str(draft) in argument for argument in process.cmdline())
    except psutil.Error:
        return False
