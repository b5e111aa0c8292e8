"""Leases: one owner at a time, a token that only grows, and nobody who slept writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore as Bucket

from tidegate import errors
from tidegate.ledger import leases, owners
from tidegate.ledger.contract import Put, Store
from tidegate.ledger.leases import Keeper, Lease, LeaseView
from tidegate.ledger.memory import MemoryStore
from tidegate.ledger.objects import ObjectStoreLedger
from tidegate.ledger.sqlite import SqliteStore
from tidegate.testing.clock import ManualClock

KEY = "pipelines/orders/lease"
TTL_S = leases.TTL_US / 1_000_000

CHILD = """
import sys
from pathlib import Path
from tidegate import errors
from tidegate.ledger import leases
from tidegate.ledger.sqlite import SqliteStore

store = SqliteStore(Path(sys.argv[1]))
lease = leases.acquire(store, sys.argv[2], name="orders", ttl_us=int(sys.argv[3]))
print(lease.token, flush=True)
for line in sys.stdin:
    try:
        {"check": lease.check, "renew": lease.renew, "release": lease.release,
         "put": lambda: lease.transaction([leases.Put(key="late", body=b"", expect=None)])}[line.strip()]()
        print("done", flush=True)
    except errors.TidegateError as error:
        print(type(error).__name__, error, flush=True)
"""


class Holder:
    """Another process that holds the lease and does what it is told."""

    def __init__(self, path: Path, ttl_us: int) -> None:
        command = [sys.executable, "-c", CHILD, str(path), KEY, str(ttl_us)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.token = int(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, what: str) -> str:
        self.say(what)
        return self.answer()

    def say(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def hold(path: Path) -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(ttl_us: int = leases.TTL_US) -> Holder:
        holders.append(Holder(path, ttl_us))
        return holders[-1]

    yield start
    for holder in holders:
        holder.process.kill()
        holder.process.communicate()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(passes_by_waiting=True)


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(clock)


def elsewhere(store: Store, **changes: object) -> None:
    """Make the lease that of a process which cannot be seen from here."""
    found = store.get(KEY)
    assert found is not None
    document = json.loads(found.body)
    document["owner"] = {"host": "far", "boot": "another", "pid": 7, "started": "1"}
    body = json.dumps({**document, **changes}).encode()
    store.put(KEY, body, expect=found.version, history=False)


# one process


def test_a_lease_that_nobody_has_is_got_at_once(store: Store, clock: ManualClock) -> None:
    """The first token is 1, and no time passes."""
    lease = leases.acquire(store, KEY, name="orders")
    assert lease.token == 1
    assert lease.owner == f"pid {os.getpid()} on {os.uname().nodename}"
    assert clock.monotonic() == 0
    assert leases.view(store, KEY) == LeaseView(
        owner=lease.owner, token=1, alive=True, expires_us=leases._now_us(store) + leases.TTL_US
    )


def test_nobody_ever_held_it(store: Store) -> None:
    """There is no view then."""
    assert leases.view(store, KEY) is None


def test_a_living_holder_is_told_at_once(store: Store, clock: ManualClock) -> None:
    """No waiting: its process lives on this host."""
    lease = leases.acquire(store, KEY, name="orders")
    with pytest.raises(errors.LeaseHeld) as held:
        leases.acquire(store, KEY, name="orders")
    assert held.value.message == f"orders is run by {lease.owner}"
    assert held.value.exit_code == 4
    assert clock.monotonic() == 0


def test_the_token_grows_over_releases(store: Store) -> None:
    """Whatever the holders did, each one's token is higher."""
    tokens = []
    for _ in range(3):
        with leases.acquire(store, KEY, name="orders") as lease:
            lease.renew()
            tokens.append(lease.token)
    assert tokens == [1, 2, 3]
    view = leases.view(store, KEY)
    assert view is not None
    assert (view.alive, view.released, view.token) == (False, True, 3)


def test_a_released_lease_is_used_no_more(store: Store) -> None:
    """Not by renewing, checking or writing; to release it again does nothing."""
    lease = leases.acquire(store, KEY, name="orders")
    lease.release()
    lease.release()
    for use in (lease.renew, lease.check, lambda: lease.transaction([])):
        with pytest.raises(errors.StaleWriter):
            use()


def test_an_expired_lease_is_taken_and_its_holder_learns_it(store: Store, clock: ManualClock) -> None:
    """The holder slept: at its next renewal, check or write it is refused, and writes nothing."""
    slept = leases.acquire(store, KEY, name="orders")
    clock.advance(leases.TTL_US)
    view = leases.view(store, KEY)
    assert view is not None
    assert not view.alive
    taken = leases.acquire(store, KEY, name="orders")
    assert taken.token == 2
    for use in (slept.renew, slept.check, lambda: slept.transaction([Put(key="a", body=b"", expect=None)])):
        with pytest.raises(errors.StaleWriter) as stale:
            use()
        assert stale.value.fields == {"name": "orders", "current": 2, "held": 1}
    slept.release()
    taken.check()
    assert store.list() == [KEY]


def test_an_expired_lease_that_nobody_took_goes_on(store: Store, clock: ManualClock) -> None:
    """A laptop that slept alone has lost nothing."""
    lease = leases.acquire(store, KEY, name="orders")
    clock.advance(10 * leases.TTL_US)
    lease.check()
    lease.renew()
    with pytest.raises(errors.LeaseHeld):
        leases.acquire(store, KEY, name="orders")


def test_a_lease_writes_with_its_guard(store: Store) -> None:
    """The versions are those of the operations; a conflict of theirs is theirs; renewals do not disturb."""
    lease = leases.acquire(store, KEY, name="orders")
    assert lease.transaction([Put(key="a", body=b"1", expect=None), Put(key="b", body=b"1", expect=None)]) == [1, 1]
    lease.renew()
    assert lease.transaction([Put(key="a", body=b"2", expect=1)]) == [2]
    with pytest.raises(errors.VersionConflict):
        lease.transaction([Put(key="a", body=b"3", expect=1)])


def test_a_renewal_whose_answer_was_lost_is_ours_still(store: Store) -> None:
    """The document moved and is still ours: the next use goes on from there."""
    lease = leases.acquire(store, KEY, name="orders")
    for use in (lease.renew, lease.check, lambda: lease.transaction([Put(key="a", body=b"", expect=None)])):
        found = store.get(KEY)
        assert found is not None
        store.put(KEY, found.body, expect=found.version, history=False)
        use()


def test_a_lease_leaves_no_history(store: Store) -> None:
    """Heartbeats are not decisions."""
    lease = leases.acquire(store, KEY, name="orders")
    for _ in range(5):
        lease.renew()
    assert [info.version for info in store.versions(KEY)] == [6]


# a holder that cannot be seen


def test_an_unseen_holder_is_waited_for_until_its_time_is_over(store: Store, clock: ManualClock) -> None:
    """It is told once whom we wait for; then the lease is ours."""
    leases.acquire(store, KEY, name="orders")
    elsewhere(store)
    told: list[LeaseView] = []
    lease = leases.acquire(store, KEY, name="orders", waiting=told.append)
    assert [view.owner for view in told] == ["pid 7 on far"]
    assert lease.token == 2
    assert TTL_S <= clock.monotonic() < TTL_S + 1


def test_an_unseen_holder_whose_clock_runs_ahead_is_waited_for_no_longer(store: Store, clock: ManualClock) -> None:
    """Silence for its whole time, by our clock, is enough."""
    leases.acquire(store, KEY, name="orders")
    elsewhere(store, expires_us=leases._now_us(store) + 1000 * leases.TTL_US)
    assert leases.acquire(store, KEY, name="orders").token == 2
    assert TTL_S <= clock.monotonic() < TTL_S + 1


def test_an_unseen_holder_that_renews_lives(store: Store, clock: ManualClock) -> None:
    """Then waiting is over: it is refused as any living one."""
    leases.acquire(store, KEY, name="orders")
    elsewhere(store)

    def renewed(view: LeaseView) -> None:
        elsewhere(store, expires_us=view.expires_us + leases.TTL_US)

    with pytest.raises(errors.LeaseHeld, match="pid 7 on far"):
        leases.acquire(store, KEY, name="orders", waiting=renewed)
    assert clock.monotonic() < 1


def test_an_unseen_holder_that_releases_is_replaced_at_once(store: Store, clock: ManualClock) -> None:
    """No need to wait for its time."""
    leases.acquire(store, KEY, name="orders")
    elsewhere(store)
    lease = leases.acquire(store, KEY, name="orders", waiting=lambda _: elsewhere(store, released=True))
    assert lease.token == 2
    assert clock.monotonic() < 1


@pytest.mark.parametrize("ahead_s", [-5, -1, 0, 1, 4])
def test_runners_whose_clocks_differ_within_the_bound_do_not_take_a_living_lease(ahead_s: int) -> None:
    """Where the store has no time of its own. The holder has renewed in time by its own clock."""
    bucket, mine, theirs = Bucket(), ManualClock(), ManualClock(passes_by_waiting=True)
    theirs.advance(ahead_s * 1_000_000) if ahead_s > 0 else mine.advance(-ahead_s * 1_000_000)
    here = ObjectStoreLedger("test://bucket", mine, bucket=bucket)
    there = ObjectStoreLedger("test://bucket", theirs, bucket=bucket)
    lease = leases.acquire(here, KEY, name="orders")
    elsewhere(here)
    for clock in (mine, theirs):
        clock.advance(leases.TTL_US - 1)
    seen = leases.view(there, KEY)
    assert seen is not None
    assert seen.alive
    told: list[LeaseView] = []
    taken = leases.acquire(there, KEY, name="orders", waiting=told.append)
    assert [view.token for view in told] == [lease.token]  # it was not taken at once, only after its silence
    assert taken.token == lease.token + 1


def test_stop_ends_the_wait(store: Store, clock: ManualClock) -> None:
    """Ctrl-C while waiting does not wait."""
    leases.acquire(store, KEY, name="orders")
    elsewhere(store)
    stop = threading.Event()
    with pytest.raises(errors.LeaseHeld):
        leases.acquire(store, KEY, name="orders", stop=stop, waiting=lambda _: stop.set())
    assert clock.monotonic() == 0


# other processes


def test_a_living_process_is_refused_at_once(path: Path, hold: Callable[..., Holder]) -> None:
    """As a second `tidegate run` is."""
    holder = hold()
    with pytest.raises(errors.LeaseHeld, match=f"pid {holder.process.pid} on"):
        leases.acquire(SqliteStore(path), KEY, name="orders")


def test_a_killed_process_is_replaced_at_once(path: Path, hold: Callable[..., Holder]) -> None:
    """Even while nobody has fetched its exit code: it is proved dead."""
    holder = hold(3_600_000_000)
    os.kill(holder.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
    store = SqliteStore(path)
    view = leases.view(store, KEY)
    assert view is not None
    assert not view.alive
    assert leases.acquire(store, KEY, name="orders").token == holder.token + 1


def test_a_number_given_again_is_not_the_holder(path: Path, hold: Callable[..., Holder]) -> None:
    """A process with the holder's number that started at another time is somebody else."""
    holder = hold(3_600_000_000)
    store = SqliteStore(path)
    found = store.get(KEY)
    assert found is not None
    owner = owners.Owner.from_json(json.loads(found.body)["owner"])
    assert owners.lives(owner) is True
    assert owners.lives(replace(owner, started=f"{owner.started}0")) is False
    assert owners.lives(replace(owner, boot="another")) is None
    assert owners.lives(replace(owner, started="")) is None
    assert owner.pid == holder.process.pid


def test_a_stopped_process_is_replaced_when_its_time_is_over_and_then_refused(
    path: Path, hold: Callable[..., Holder]
) -> None:
    """SIGSTOP, take-over, SIGCONT: the zombie's checks, renewals and writes are refused, whichever it tries."""
    store = SqliteStore(path)
    clock = store.clock
    holder = hold(300_000)
    holder.process.send_signal(signal.SIGSTOP)
    started = clock.monotonic()
    lease = until_acquired(store)
    assert clock.monotonic() - started < 5
    assert lease.token == holder.token + 1
    holder.process.send_signal(signal.SIGCONT)
    for what in ("put", "check", "renew"):
        assert holder.do(what) == f"StaleWriter another runner took over orders (token {lease.token}, ours 1)"
    assert holder.do("release") == "done"
    lease.check()
    assert "late" not in store.list()


def until_acquired(store: Store) -> Lease:
    """The lease as soon as it can be had; the holder's process exists, so nobody else would be let wait."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return leases.acquire(store, KEY, name="orders")
        except errors.LeaseHeld:
            assert time.monotonic() < deadline
            store.clock.wait(threading.Event(), 0.01)


def test_of_processes_that_ask_together_one_gets_it(path: Path) -> None:
    """The others are told who."""
    SqliteStore(path).put("a", b"")
    code = """
import sys
from pathlib import Path
from tidegate import errors
from tidegate.ledger import leases
from tidegate.ledger.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
sys.stdin.readline()
try:
    print("got", leases.acquire(store, sys.argv[2], name="orders").token, flush=True)
except errors.LeaseHeld as held:
    print("held", flush=True)
sys.stdin.readline()
"""
    command = [sys.executable, "-c", code, str(path), KEY]
    asking = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for one in asking:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    answers = []
    for one in asking:
        assert one.stdout is not None
        answers.append(one.stdout.readline().strip())
    for one in asking:
        one.communicate("\n", timeout=60)
    assert sorted(answers) == ["got 1", "held", "held"]


@given(st.lists(st.sampled_from(["acquire", "release", "renew", "sleep", "zombie"]), max_size=30))
def test_never_two_owners_and_tokens_only_grow(steps: list[str]) -> None:
    """Whatever happens, at most the newest lease writes."""
    clock = ManualClock()
    store = MemoryStore(clock)
    got: list[Lease] = []
    for step in steps:
        try:
            match step:
                case "acquire":
                    got.append(leases.acquire(store, KEY, name="orders"))
                case "sleep":
                    clock.advance(leases.TTL_US)
                case "release" if got:
                    got[-1].release()
                case "renew" if got:
                    got[-1].renew()
                case "zombie" if len(got) > 1:
                    got[-2].renew()
                    pytest.fail("an earlier owner renewed")
        except (errors.LeaseHeld, errors.StaleWriter):
            pass
        for earlier in got[:-1]:
            with pytest.raises(errors.StaleWriter):
                earlier.transaction([Put(key="a", body=b"", expect=None)])
    assert [lease.token for lease in got] == list(range(1, len(got) + 1))


# the keeper


class Losses:
    """What a keeper said it lost."""

    def __init__(self) -> None:
        self.lost: list[tuple[Lease, Exception]] = []
        self.happened = threading.Event()

    def __call__(self, lease: Lease, error: Exception) -> None:
        self.lost.append((lease, error))
        self.happened.set()


def expires_us(store: Store, key: str = KEY) -> int:
    view = leases.view(store, key)
    assert view is not None
    return view.expires_us


def test_a_keeper_renews_each_third_of_the_time(store: Store, clock: ManualClock) -> None:
    """And not before; several leases each in their own time."""
    losses = Losses()
    keeper = Keeper(losses, clock)
    first = leases.acquire(store, KEY, name="orders")
    keeper.add(first)
    clock.advance(1_000_000)
    other = leases.acquire(store, "other", name="other", ttl_us=3_000_000)
    keeper.add(other)
    before = expires_us(store)
    assert keeper.step() == pytest.approx(1.0)
    assert expires_us(store) == before
    for _ in range(50):
        clock.advance(round(keeper.step() * 1_000_000))
        first.check()
        other.check()
        for key in (KEY, "other"):
            view = leases.view(store, key)
            assert view is not None
            assert view.alive
    assert losses.lost == []


def test_a_keeper_tells_once_that_a_lease_was_taken(store: Store, clock: ManualClock) -> None:
    """And renews the others still."""
    losses = Losses()
    keeper = Keeper(losses, clock)
    mine = leases.acquire(store, "mine", name="mine")
    slept = leases.acquire(store, KEY, name="orders")
    keeper.add(mine)
    keeper.add(slept)
    clock.advance(leases.TTL_US)
    leases.acquire(store, KEY, name="orders")
    keeper.step()
    keeper.step()
    [(lease, error)] = losses.lost
    assert lease is slept
    assert isinstance(error, errors.StaleWriter)
    mine.check()


def test_a_keeper_that_cannot_reach_the_ledger_tries_until_the_time_is_over(tmp_path: Path) -> None:
    """A short outage costs nothing; a long one is a loss."""
    clock, losses = ManualClock(), Losses()
    store = SqliteStore(tmp_path / "ledger.db", clock)
    keeper = Keeper(losses, clock)
    keeper.add(leases.acquire(store, KEY, name="orders"))
    store.close()
    pause_s = keeper.step()
    while not losses.lost:
        clock.advance(max(1, round(pause_s * 1_000_000)))
        assert pause_s <= TTL_S / 3
        pause_s = keeper.step()
    assert clock.monotonic() == pytest.approx(TTL_S, abs=0.01)
    [(_, error)] = losses.lost
    assert isinstance(error, errors.LedgerUnreachable)


def test_a_dropped_lease_is_renewed_no_more(store: Store, clock: ManualClock) -> None:
    """It may be released, and that is no loss."""
    losses = Losses()
    keeper = Keeper(losses, clock)
    lease = leases.acquire(store, KEY, name="orders")
    keeper.add(lease)
    keeper.drop(lease)
    lease.release()
    clock.advance(leases.TTL_US)
    keeper.step()
    assert losses.lost == []
    assert not keeper._kept


def test_a_keeper_works_on_its_own_thread(tmp_path: Path) -> None:
    """With the real clock: it outlives its time, and a taken one is told."""
    losses = Losses()
    store = SqliteStore(tmp_path / "ledger.db")
    lease = leases.acquire(store, KEY, name="orders", ttl_us=300_000)
    start = expires_us(store)
    with Keeper(losses) as keeper:
        keeper.add(lease)
        deadline = time.monotonic() + 30
        while expires_us(store) < start + 600_000:
            assert time.monotonic() < deadline
            store.clock.wait(threading.Event(), 0.01)
        lease.check()
        elsewhere(store, token=99)
        assert losses.happened.wait(30)
    assert not keeper._thread.is_alive()
    assert losses.lost[0][0] is lease


def test_a_keeper_that_was_never_started_closes(store: Store) -> None:
    """Nothing to wait for."""
    Keeper(Losses()).close()
