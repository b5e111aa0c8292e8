"""Finds what is written outside the points of `tidegate.effects`.

Two ways, because neither sees everything. Python's audit hook sees what Python itself opens for
writing, renames, makes or removes, and names the line that did it; it is deaf to SQLite, to Rust and
to the JVM. So the tree is compared too: what changed between the end of one effect and the start of
the next changed outside of any.

    with audit.Recorder(project).recording() as recorder:
        ...
    assert not recorder.findings
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from tidegate import effects
from tidegate.effects import EffectName, Moment

#: Written by anybody at any time, and no effect: nobody decides by them.
ALLOWED: Final = (
    "*.log",
    "*/.tidegate",
    "*/logs",
    "*/logs/*",
    "*.pyc",
    "*/__pycache__",
    "*/__pycache__/*",
    "*/.tidegate/cache",
    "*/.tidegate/cache/*",
    "*/.tidegate/warehouse",
    "*/.tidegate/warehouse/*",
    "*/spark-warehouse",
    "*/spark-warehouse/*",
    "*/metastore_db",
    "*/metastore_db/*",
    "*.db-shm",  # SQLite's index of its log, rebuilt by whoever opens it; readers write it too
)

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Events of Python's audit hook, with the places of the paths among their arguments.
_EVENTS: Final[Mapping[str, tuple[int, ...]]] = {
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that was written outside a point. `by` is the line of Python that did it, where that is known."""

    what: str
    path: str
    by: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.path}" + (f" ({self.by})" if self.by else "")


@dataclass(frozen=True, slots=True)
class _Mark:
    """What tells that a file changed, as cheaply as can be had."""

    size: int
    modified_ns: int
    inode: int
    is_folder: bool


class Recorder:
    """Records what is written below a folder outside of all points, while it is started.

    Effects of one process may overlap; what is written while any of them runs counts as inside.
    """

    def __init__(
        self,
        root: Path,
        *,
        allowed: tuple[str, ...] = ALLOWED,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> None:
        self.findings: list[Finding] = []
        self._root = os.path.realpath(root)
        self._allowed = allowed
        self._on_finding = on_finding
        self._lock = threading.RLock()
        self._running = 0
        self._seen: dict[str, _Mark] = {}
        self._forget: Callable[[], None] | None = None
        self._guard = threading.local()

    def start(self) -> None:
        """Record from now on."""
        with self._lock:
            self._seen = self._scan()
            self._forget = effects.observe(self._at_point)
            _listen(self)

    def stop(self) -> None:
        """Judge what happened since the last effect, and record no more."""
        with self._lock:
            if self._forget is not None:
                self._compare()
                self._forget()
                self._forget = None
            _recorders.discard(self)

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Record while the body runs."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def _at_point(self, name: EffectName, moment: Moment, facts: dict[str, object]) -> None:
        with self._lock:
            if moment is Moment.BEFORE:
                if self._running == 0:
                    self._compare()
                self._running += 1
            else:
                self._running -= 1
                if self._running == 0:
                    self._seen = self._scan()

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python's audit hook calls; must not raise and must not call itself."""
        if self._running or getattr(self._guard, "busy", False):
            return
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & _WRITES) if isinstance(flags, int) else any(letter in str(mode) for letter in "wax+")
            if writes:
                self._judge("opened for writing:", path)
        elif event in _EVENTS:
            for place in _EVENTS[event]:
                self._judge(f"{event}:", arguments[place])

    def _judge(self, what: str, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):  # a descriptor: it was judged when it was opened
            return
        self._guard.busy = True
        try:
            full = os.path.abspath(os.fsdecode(path))
            if self._is_watched(full):
                self._report(Finding(what=what, path=os.path.relpath(full, self._root), by=_caller()))
        finally:
            self._guard.busy = False

    def _is_watched(self, full: str) -> bool:
        inside = full == self._root or full.startswith(self._root + os.sep)
        return inside and not any(fnmatch(full, pattern) for pattern in self._allowed)

    def _report(self, finding: Finding) -> None:
        self.findings.append(finding)
        if self._on_finding is not None:
            self._on_finding(finding)

    def _scan(self) -> dict[str, _Mark]:
        found: dict[str, _Mark] = {}
        folders = [self._root]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        self._look(entry, found, folders)
            except FileNotFoundError:  # removed by somebody else meanwhile
                continue
        return found

    def _look(self, entry: os.DirEntry[str], found: dict[str, _Mark], folders: list[str]) -> None:
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder:  # also one that may be made at any time: what is in it may not
            folders.append(entry.path)
        if not self._is_watched(entry.path):
            return
        # A folder's own time changes with everything in it, which is reported by itself.
        size, modified_ns = (0, 0) if is_folder else (stat.st_size, stat.st_mtime_ns)
        found[entry.path] = _Mark(size, modified_ns, stat.st_ino, is_folder)

    def _compare(self) -> None:
        now, before = self._scan(), self._seen
        for path in sorted(now.keys() | before.keys()):
            change = _change(before.get(path), now.get(path))
            if change is not None and not _is_housekeeping(path, before, now):
                self._report(Finding(what=f"{change} between two effects:", path=os.path.relpath(path, self._root)))
        self._seen = now


def _change(before: _Mark | None, now: _Mark | None) -> str | None:
    if before == now:
        return None
    if before is None:
        return "made"
    return "removed" if now is None else "changed"


def _is_housekeeping(path: str, before: Mapping[str, _Mark], now: Mapping[str, _Mark]) -> bool:
    """Whether SQLite did this to itself: what is durable in its log moves into the database and the log goes.

    The log growing is not that: it is how a put becomes durable.
    """
    if path.endswith("-wal"):
        mark = now.get(path)
        return mark is None or mark.size == 0
    log = f"{path}-wal"
    return path in before and path in now and log in before and (log not in now or now[log].size == 0)


def _caller() -> str:
    """The innermost line of Tidegate on the stack; the innermost of all where there is none."""
    frames = [frame for frame in traceback.extract_stack() if frame.filename != __file__]
    ours = [frame for frame in frames if f"{os.sep}tidegate{os.sep}" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}"


_recorders: set[Recorder] = set()
_hook_lock = threading.Lock()
_is_hooked = False


def _listen(recorder: Recorder) -> None:
    """Add the recorder to the process's one hook: a hook can never be taken away again."""
    global _is_hooked  # noqa: PLW0603 - as global as the hook itself
    with _hook_lock:
        _recorders.add(recorder)
        if not _is_hooked:
            _is_hooked = True
            sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _recorders and (event == "open" or event in _EVENTS):
        for recorder in tuple(_recorders):
            recorder.hear(event, arguments)
