"""Runners that sleep past their lease and wake in the middle of a write, against a plain model of who may write."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.clock import SystemClock
from tidegate.ledger import leases
from tidegate.ledger.contract import Store
from tidegate.ledger.stores import open_store

pytestmark = pytest.mark.server

KEY, DOCUMENT = "pipelines/orders/lease", "pipelines/orders/state"
TTL_US = 300_000
RUNNERS = 3
STEPS = 24

# `sleepy` stops itself between the last look at its lease and the write.
RUNNER = """
import signal, sys, threading
from pathlib import Path
from tidegate import effects, errors
from tidegate.ledger import leases
from tidegate.ledger.contract import Put
from tidegate.ledger.stores import open_store

url, key, document, ttl_us = sys.argv[1:]
store, lease, is_sleepy = open_store(url, root=Path()), None, False

def fall_asleep(name, moment, facts):
    global is_sleepy
    if is_sleepy and moment is effects.Moment.BEFORE:
        is_sleepy = False
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread, and not a helper first

effects.observe(fall_asleep)
for line in sys.stdin:
    what = line.strip()
    try:
        if what == "acquire":
            lease = leases.acquire(store, key, name="orders", ttl_us=int(ttl_us))
        elif what == "renew":
            lease.renew()
        else:
            found = store.get(document)
            is_sleepy = what == "sleepy"
            expect = None if found is None else found.version
            lease.transaction([Put(key=document, body=b"", expect=expect, token=lease.token)])
        print(lease.token, flush=True)
    except (errors.LeaseHeld, errors.StaleWriter, errors.VersionConflict) as error:
        print(type(error).__name__, flush=True)
"""


class Runner:
    """Another process. `token` is what it believes it holds."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-c", RUNNER, url, KEY, DOCUMENT, str(TTL_US)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.token: int | None = None
        self.is_asleep = False

    def say(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, what: str) -> str:
        self.say(what)
        return self.answer()

    def fall_asleep(self) -> None:
        """Send it into a write that it sleeps in, and return once it does."""
        self.say("sleepy")
        stat = Path(f"/proc/{self.process.pid}/stat")
        _until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        self.is_asleep = True

    def wake(self) -> str:
        self.process.send_signal(signal.SIGCONT)
        self.is_asleep = False
        return self.answer()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    return str(request.getfixturevalue("database"))


@pytest.fixture
def runners(url: str) -> Iterator[list[Runner]]:
    started = [Runner(url) for _ in range(RUNNERS)]
    yield started
    for runner in started:
        runner.process.kill()
        runner.process.communicate()


@pytest.mark.parametrize("seed", [1, 2])
def test_only_the_newest_owner_writes(seed: int, url: str, runners: list[Runner], tmp_path: Path) -> None:
    """Whoever slept past its lease and was replaced is refused, also when it wakes between its look and its write."""
    rng = random.Random(seed)
    newest, written, refused = 0, [], 0
    with open_store(url, root=tmp_path) as store:
        for _ in range(STEPS):
            runner = rng.choice(runners)
            if runner.is_asleep:
                said = runner.wake()
            elif runner.token is None or rng.random() < 0.25:
                _let_expire(store)
                runner.token = int(runner.do("acquire"))
                newest += 1
                assert runner.token == newest
                continue
            elif rng.random() < 0.5:
                runner.fall_asleep()
                continue
            else:
                what = rng.choice(["put", "renew"])
                said = runner.do(what)
                if what == "renew" and runner.token == newest:
                    assert said == str(newest)
                    continue
            if runner.token == newest and said == str(newest):
                written.append(newest)
            else:
                # A put of the owner can only meet a put of its own predecessor, which came first.
                assert said in ("StaleWriter", "VersionConflict"), (said, runner.token, newest)
                assert runner.token != newest or said == "VersionConflict"
                refused += 1
        found = [
            document for info in store.versions(DOCUMENT) if (document := store.get_version(DOCUMENT, info.version))
        ]
    assert [document.token for document in found] == written == sorted(written)
    assert refused >= 2
    assert len(set(written)) >= 2


def _let_expire(store: Store) -> None:
    def is_over() -> bool:
        seen = leases.view(store, KEY)
        return seen is None or not seen.alive

    _until(is_over)


def _until(condition: object, limit_s: float = 30.0) -> None:
    assert callable(condition)
    clock = SystemClock()
    deadline = clock.monotonic() + limit_s
    while not condition():
        assert clock.monotonic() < deadline
        clock.wait(threading.Event(), 0.01)
