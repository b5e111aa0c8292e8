"""Kill the real process at a named point, and only there.

    TIDEGATE_CRASH=ledger.put:after:3 python -m tidegate.testing.crash -- run --once

runs `tidegate run --once` and kills it with SIGKILL after its third put in the ledger. A point is
`<effect>:<before|after>:<nth>`, of the effects in `tidegate.effects`; `:python` (the default),
`:jvm`, `:both` or `:stop` behind it says what is hit: this process, the JVM it started, both, or
this process with SIGSTOP, which makes a zombie that SIGCONT wakes. A point that hits the JVM counts
only what is passed while there is one. Several points go with commas.

`TIDEGATE_CRASH_LOG` names a file that gets a line for every point that was passed, and one for each
that struck, so that a suite can tell which effects a run has and how often. `TIDEGATE_AUDIT` names
a file that gets a line for everything that was written outside a point (`tidegate.testing.audit`).
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tidegate import effects
from tidegate.effects import EffectName, Moment

CRASH = "TIDEGATE_CRASH"
CRASH_LOG = "TIDEGATE_CRASH_LOG"
AUDIT = "TIDEGATE_AUDIT"
AUDIT_ROOT = "TIDEGATE_AUDIT_ROOT"
#: What the line of a point that struck begins with; the point follows.
STRUCK = "struck"


class Hit(Enum):
    """What a point does to whom."""

    PYTHON = "python"
    JVM = "jvm"
    BOTH = "both"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The nth time that a process passes one side of an effect, counted from 1."""

    effect: EffectName
    moment: Moment
    nth: int = 1
    hit: Hit = Hit.PYTHON

    def __str__(self) -> str:
        return f"{self.effect}:{self.moment.value}:{self.nth}:{self.hit.value}"

    @classmethod
    def parse(cls, text: str) -> Point:
        """The point that `str` wrote. ValueError names what is wrong with any other text."""
        effect, moment, nth, hit = (*text.split(":"), *("", "", "", "")[text.count(":") + 1 :])
        if effect not in effects.names():
            raise ValueError(f"{text!r}: there is no effect {effect!r}, only {', '.join(effects.names())}")
        if moment not in ("before", "after"):
            raise ValueError(f"{text!r}: a point is before or after its effect")
        if not nth.isascii() or not nth.isdigit() or int(nth) < 1:
            raise ValueError(f"{text!r}: the count of a point is a number from 1")
        return cls(effect=EffectName(effect), moment=Moment(moment), nth=int(nth), hit=Hit(hit) if hit else Hit.PYTHON)


def parse(text: str) -> tuple[Point, ...]:
    """The points of `TIDEGATE_CRASH`."""
    return tuple(Point.parse(one.strip()) for one in text.split(",") if one.strip())


def points(*, hit: Hit = Hit.PYTHON, nth: int = 1) -> Iterator[Point]:
    """Both sides of every effect that Tidegate has."""
    for effect in effects.names():
        for moment in (Moment.BEFORE, Moment.AFTER):
            yield Point(effect=effect, moment=moment, nth=nth, hit=hit)


class Trap:
    """Counts the points that are passed, notes them, and strikes at those it was told of."""

    def __init__(
        self, points: Sequence[Point], *, strike: Callable[[Hit], None], note: Callable[[str], None] | None = None
    ) -> None:
        self._points = tuple(points)
        self._strike = strike
        self._note = note
        self._passed: Counter[tuple[EffectName, Moment]] = Counter()
        self._counted: Counter[Point] = Counter()
        self._lock = threading.Lock()

    def __call__(self, effect: EffectName, moment: Moment, facts: dict[str, object]) -> None:
        # Held while striking: no other thread gets past a point in the last moment of its process.
        with self._lock:
            self._passed[effect, moment] += 1
            self._say(f"{effect}:{moment.value}:{self._passed[effect, moment]}")
            for point in self._points:
                if (point.effect, point.moment) == (effect, moment) and _can_hit(point.hit):
                    self._counted[point] += 1
                    if self._counted[point] == point.nth:
                        self._say(f"{STRUCK} {point}")
                        self._strike(point.hit)

    def _say(self, line: str) -> None:
        if self._note is not None:
            self._note(f"{line}\n")


def _can_hit(hit: Hit) -> bool:
    return hit not in (Hit.JVM, Hit.BOTH) or bool(jvms_of(os.getpid()))


def strike(hit: Hit) -> None:
    """Do it. Only a hit at the JVM alone returns at once; a stopped process returns when it is woken."""
    if hit in (Hit.JVM, Hit.BOTH):
        for pid in jvms_of(os.getpid()):
            _kill(pid)
    if hit in (Hit.PYTHON, Hit.BOTH):
        os.kill(os.getpid(), signal.SIGKILL)
    if hit is Hit.STOP:
        # To this thread: one for the process may be taken by another thread, and this one would go on a while.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def jvms_of(pid: int) -> list[int]:
    """The Java processes among the descendants of a process, by /proc."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            found = _stat(entry)
            if found is not None:
                names[int(entry.name)], parents[int(entry.name)] = found
    return sorted(child for child in parents if names[child] == "java" and _descends(child, pid, parents))


def _stat(entry: Path) -> tuple[str, int] | None:
    try:
        text = (entry / "stat").read_text()
    except OSError:  # it ended in between
        return None
    # The name stands in parentheses and may itself hold some.
    name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    return name, int(rest[1])


def _descends(child: int, ancestor: int, parents: dict[int, int]) -> bool:
    while child in parents:
        child = parents[child]
        if child == ancestor:
            return True
    return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def trap(
    points: Sequence[Point], *, strike: Callable[[Hit], None] = strike, note: Callable[[str], None] | None = None
) -> Iterator[Trap]:
    """Strike at the points while the body runs."""
    trap = Trap(points, strike=strike, note=note)
    stop = effects.observe(trap)
    try:
        yield trap
    finally:
        stop()


def install() -> None:
    """Do what the environment says, for the rest of this process."""
    log = os.environ.get(CRASH_LOG)
    effects.observe(Trap(parse(os.environ.get(CRASH, "")), strike=strike, note=None if log is None else _noting(log)))
    if os.environ.get(AUDIT):
        from tidegate.testing import audit  # noqa: PLC0415 - its hook stays for ever, so only who asked gets it

        note = _noting(os.environ[AUDIT])
        root = Path(os.environ.get(AUDIT_ROOT) or os.getcwd())
        recorder = audit.Recorder(root, on_finding=lambda finding: note(f"{finding}\n"))
        recorder.start()
        atexit.register(recorder.stop)  # judges what came after the last effect


def _noting(path: str) -> Callable[[str], None]:
    # Each line is one write to a file opened for appending: it is whole, whatever is killed when.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    return lambda line: (os.write(handle, line.encode()), None)[1]


def main(arguments: Sequence[str]) -> int:
    """Run `tidegate` with these arguments in this process, the points of the environment installed."""
    install()
    from tidegate import cli  # noqa: PLC0415 - the points must be in place before anything runs

    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:]))
