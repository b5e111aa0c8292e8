"""Crash points: what they are called, when they strike, and that they do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import effects
from tidegate.effects import Moment
from tidegate.testing import crash
from tidegate.testing.crash import Hit, Point

PASSES = """\
import sys
from tidegate import effects
from tidegate.testing import crash

crash.install()
for _ in range(3):
    with effects.effect(effects.LEDGER_PUT):
        print("put", flush=True)
print("done", flush=True)
"""

STRIKES = """\
import os, subprocess, sys
from tidegate.testing import crash

# It speaks only once it is `java`: between fork and exec it has its parent's name.
grandchild = "$0 -c 'echo $$; read _'; exit 0"
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
child = subprocess.Popen(["/bin/sh", "-c", grandchild, sys.argv[1]], **pipes)
other = subprocess.Popen(["/bin/sleep", "60"])
try:
    java = int(child.stdout.readline())
    print(crash.jvms_of(os.getpid()) == [java])
    crash.strike(crash.Hit.JVM)
    print(child.wait(timeout=60), other.poll())
finally:
    child.kill()
    other.kill()
"""


def run(point: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script above with a point to strike at."""
    return subprocess.run(
        [sys.executable, "-c", PASSES],
        env={**os.environ, crash.CRASH: point, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("point", list(crash.points(hit=Hit.BOTH, nth=7)), ids=str)
def test_every_point_reads_as_it_is_written(point: Point) -> None:
    assert Point.parse(str(point)) == point


def test_there_is_a_point_on_both_sides_of_every_effect() -> None:
    assert {(p.effect, p.moment) for p in crash.points()} == {
        (name, moment) for name in effects.names() for moment in (Moment.BEFORE, Moment.AFTER)
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ledger.putt:before:1", "there is no effect 'ledger.putt'"),
        ("ledger.put:during:1", "before or after"),
        ("ledger.put:raised:1", "before or after"),
        ("ledger.put:before:0", "number from 1"),
        ("ledger.put:before", "number from 1"),
        ("ledger.put:before:1:all", "not a valid Hit"),
        ("ledger.put:before:1:jvm:x", "too many values"),
    ],
)
def test_a_point_that_cannot_be_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        Point.parse(text)


def test_points_are_separated_by_commas_and_hit_python_by_default() -> None:
    first, second = crash.parse("ledger.put:before:1, lake.commit:after:2:both,")
    assert (first.hit, second.hit, second.nth) == (Hit.PYTHON, Hit.BOTH, 2)
    assert crash.parse("") == ()


def test_a_trap_strikes_once_at_the_nth_time_and_notes_all() -> None:
    struck: list[Hit] = []
    noted: list[str] = []
    points = crash.parse("ledger.put:after:2:stop,ledger.delete:before:1")
    with crash.trap(points, strike=struck.append, note=noted.append):
        for _ in range(3):
            with effects.effect(effects.LEDGER_PUT):
                assert len(struck) == (1 if len(noted) > 4 else 0)
    assert struck == [Hit.STOP]
    passed = [f"ledger.put:{side}:{nth}\n" for nth in (1, 2, 3) for side in ("before", "after")]
    assert noted == [*passed[:4], "struck ledger.put:after:2:stop\n", *passed[4:]]


@pytest.mark.parametrize("hit", [Hit.JVM, Hit.BOTH])
def test_what_hits_a_jvm_waits_for_one(hit: Hit) -> None:
    waits = run(f"ledger.put:before:1:{hit.value}")
    assert (waits.returncode, waits.stdout) == (0, "put\nput\nput\ndone\n")


def test_an_effect_that_raises_has_no_point_after_it() -> None:
    struck: list[Hit] = []
    with (
        crash.trap(crash.parse("ledger.put:after:1"), strike=struck.append),
        pytest.raises(OSError, match="full"),
        effects.effect(effects.LEDGER_PUT),
    ):
        raise OSError("full")
    assert not struck


def test_the_process_dies_before_the_effect() -> None:
    died = run("ledger.put:before:2")
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "put\n")


def test_the_process_dies_after_the_effect() -> None:
    died = run("ledger.put:after:2")
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "put\nput\n")


def test_a_process_that_never_comes_to_its_point_lives_and_leaves_its_log(tmp_path: Path) -> None:
    log = tmp_path / "points.log"
    lived = run("ledger.put:after:4", **{crash.CRASH_LOG: str(log)})
    assert (lived.returncode, lived.stdout) == (0, "put\nput\nput\ndone\n")
    assert log.read_text().splitlines()[-1] == "ledger.put:after:3"


def test_a_stopped_process_goes_on_when_it_is_woken() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PASSES],
        env={**os.environ, crash.CRASH: "ledger.put:before:1:stop"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=60)
    assert out.endswith("done\n")


def test_only_java_among_the_descendants_is_a_jvm(tmp_path: Path) -> None:
    # A program is named for its file, so any that is called `java` will do.
    java = tmp_path / "java"
    java.symlink_to("/bin/sh")
    # In a process of its own: this one may have a real one, left by other tests.
    script = [sys.executable, "-c", STRIKES, str(java)]
    told = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert told == ["True", "0", "None"]
