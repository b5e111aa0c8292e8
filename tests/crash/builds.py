"""Builds of Tidegate that are broken on purpose: a copy of the source with one thing changed.

A suite that passes on one of them does not test what it says.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One place of a file that is replaced. The old text must be there exactly once."""

    file: str
    old: str
    new: str

    def apply(self, source: Path) -> None:
        path = source / "tidegate" / self.file
        text = path.read_text()
        assert text.count(self.old) == 1, (
            f"{self.file} has changed: this is there {text.count(self.old)} times\n{self.old}"
        )
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A build with a fault. `shows` is a word of the problem that the suite must find in it."""

    name: str
    shows: tuple[str, ...]
    edits: tuple[Edit, ...]

    def build(self, folder: Path) -> Path:
        """A copy of the source with the fault; what to put before the installed one."""
        target = folder / self.name
        shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
        for edit in self.edits:
            edit.apply(target)
        return target


PUBLISHES_BEFORE_THE_GAP_HEALS = Broken(
    name="publishes_before_the_gap_heals",
    shows=("gap",),
    edits=(
        Edit(
            file="pipelines/publish.py",
            old="    limit = min(document.marks.end, sink.prefix_end)\n",
            new="    limit = max(document.marks.end, sink.delivered.hi or 0)\n",
        ),
    ),
)

PUTS_BEFORE_THE_RECEIPT = Broken(
    name="puts_before_the_receipt",
    shows=("missing", "hi_inclusive"),
    edits=(
        Edit(
            file="pipelines/run.py",
            old="            self._running[piece.range] = order\n",
            new="            self._running[piece.range] = order\n"
            "            told = {\n"
            "                name: replace(sink, delivered=sink.delivered | piece.range)\n"
            "                for name, sink in self._doc.sinks.items()\n"
            "            }\n"
            "            self._doc = replace(self._doc, sinks=told, taken=self._doc.taken | piece.range)\n"
            "            self._save()\n",
        ),
    ),
)

WRITES_A_STAGED_FOLDER_TWICE = Broken(
    name="writes_a_staged_folder_twice",
    shows=("twice",),
    edits=(
        Edit(
            file="lake/attempts.py",
            old='{first}-{last}/{self.token}-{self.attempt}"',
            new='{first}-{last}/0-0"',
        ),
        Edit(file="lake/staging.py", old='.mode("errorifexists")', new='.mode("append")'),
    ),
)

WRITES_OUTSIDE_OF_A_POINT = Broken(
    name="writes_outside_of_a_point",
    shows=("changed between two effects: .tidegate/ledger.db",),
    edits=(
        Edit(
            file="ledger/contract.py",
            old="        with effects.effect(_effect_of(operations), keys=tuple(write.key for write in writes)):\n"
            "            return self._apply(writes)\n",
            new="        return self._apply(writes)\n",
        ),
    ),
)

BROKEN = (PUBLISHES_BEFORE_THE_GAP_HEALS, PUTS_BEFORE_THE_RECEIPT, WRITES_A_STAGED_FOLDER_TWICE)
