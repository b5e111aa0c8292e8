"""A reader beside the run: somebody with deltalake, who knows nothing of Tidegate and looks all the time.

Every version that it sees must show whole checkpoints from the first readable one up to the mark of
that version, without a gap, each row once.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tests.crash.scenario import ROWS

_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One version: the checkpoints that its rows are of, first and last inclusive, None when it has none."""

    version: int
    first: int | None
    last: int | None


class RawReader:
    """Reads every version of a table as it appears, in a thread of its own."""

    def __init__(self, table: Path, *, first: int) -> None:
        self.seen: list[Seen] = []
        self.problems: list[str] = []
        self._table = table
        self._first = first
        self._version = -1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="raw reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()  # at what came last

    @property
    def marks(self) -> list[int]:
        """The different marks, in the order in which they were seen."""
        return list(dict.fromkeys(one.last for one in self.seen if one.last is not None))

    @property
    def prunes(self) -> int:
        """How often the first readable checkpoint rose."""
        firsts = list(dict.fromkeys(one.first for one in self.seen if one.first is not None))
        return max(0, len(firsts) - 1)

    def _watch(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._look()

    def _look(self) -> None:
        head = self._head()
        while self._version < head:
            self._version += 1
            self._read(self._version)

    def _head(self) -> int:
        try:
            return int(DeltaTable(str(self._table)).version())
        except (TableNotFoundError, FileNotFoundError):
            return -1
        except DeltaError as exc:
            self.problems.append(f"the table cannot be opened: {exc}")
            return -1

    def _read(self, version: int) -> None:
        try:
            rows = DeltaTable(str(self._table), version=version).to_pyarrow_table(columns=["id", "checkpoint"])
        except Exception as exc:  # noqa: BLE001 -- whatever a stranger's reader raises is what a user would see
            # An old version may have lost its files to the pruner; the newest never.
            if version == self._head():
                self.problems.append(f"version {version} cannot be read: {exc}")
            return
        self._judge(version, rows.column("id").to_pylist(), rows.column("checkpoint").to_pylist())

    def _judge(self, version: int, ids: list[int], checkpoints: list[int]) -> None:
        numbers = sorted(set(checkpoints))
        now = Seen(version=version, first=numbers[0] if numbers else None, last=numbers[-1] if numbers else None)
        self.problems += [f"version {version} {what}" for what in self._wrong(now, ids, checkpoints)]
        self.seen.append(now)

    def _wrong(self, now: Seen, ids: list[int], checkpoints: list[int]) -> list[str]:
        found = []
        if len(ids) != len(set(ids)):
            found.append(f"shows ids twice: {[one for one, count in Counter(ids).items() if count > 1][:10]}")
        partial = [number for number, count in Counter(checkpoints).items() if count != ROWS]
        if partial:
            found.append(f"shows checkpoints in part: {partial[:10]}")
        if now.first is None or now.last is None:
            return found
        if set(checkpoints) != set(range(now.first, now.last + 1)):
            found.append(f"shows a gap between {now.first} and {now.last}")
        end = self._said(now.version).get("end")
        if end is not None and now.last >= end:
            found.append(f"shows {now.last}, beyond its mark {end - 1}")
        before = next((one for one in reversed(self.seen) if one.last is not None), None)
        if before is None:
            return found if now.first == self._first else [*found, f"begins at {now.first}, not {self._first}"]
        if before.first is not None and now.first < before.first:
            found.append(f"begins at {now.first}, after {before.first} had been given up")
        if before.last is not None and now.last < before.last:
            found.append(f"ends at {now.last}, after {before.last} had been shown")
        return found

    def _said(self, version: int) -> dict[str, Any]:
        """What the commit says of itself, as DESCRIBE HISTORY would show it."""
        entry = self._table / "_delta_log" / f"{version:020d}.json"
        try:
            lines = entry.read_text().splitlines()
        except FileNotFoundError:
            return {}
        infos = [json.loads(line).get("commitInfo") for line in lines]
        text = next((info.get("userMetadata") for info in infos if info), None)
        said: dict[str, Any] = json.loads(text) if text else {}
        return said
