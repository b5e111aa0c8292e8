"""Tasks that race, in an order that the test says: every order there is, or one for each seed.

    def both_advance(order: Order) -> None:
        store = order.watched(MemoryStore())           # each call of it is a point
        told = order.run(a=lambda: advance(store, 11), b=lambda: advance(store, 12))
        assert read(store) == 12

    explore(both_advance)

A task runs until it comes to a point or ends; then the order says who goes on. So a run is one interleaving of
the calls that are watched, it can be had again, and `explore` has them all.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

# Longer than any step takes: who needs more waits for somebody who stands at a point.
_STEP_S: Final = 30.0

_Watched = TypeVar("_Watched")


class Stuck(AssertionError):
    """A task neither came to a point nor ended: it waits for something that a task at a point holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a task ended."""

    value: Any = None
    error: Exception | None = None


class Order:
    """Who goes on at each point. The choices of `prefix` first, then the seed's or the first that can."""

    def __init__(self, prefix: Sequence[int] = (), *, seed: int | None = None) -> None:
        self._prefix = tuple(prefix)
        self._rng = None if seed is None else random.Random(seed)
        self._tasks: dict[int, _Task] = {}
        self.choices: list[tuple[int, int]] = []  #: at each point: which of how many went on
        self.names: list[str] = []  #: and its name

    def __str__(self) -> str:
        return " ".join(self.names)

    def watched(self, target: _Watched) -> _Watched:
        """The same object; before each call of a public method of it another task may go on."""
        return cast(_Watched, _Watch(target, self.point))

    def point(self) -> None:
        """Another task may go on here. Outside of a task nothing happens."""
        task = self._tasks.get(threading.get_ident())
        if task is not None:
            task.stop_here()

    def run(self, **tasks: Callable[[], object]) -> dict[str, Outcome]:
        """Run the tasks to their ends, one step at a time: how each of them ended, by name."""
        made = {name: _Task(name, body, self._tasks) for name, body in tasks.items()}
        try:
            while ready := [task for task in made.values() if not task.is_done]:
                at = self._choose(len(ready))
                self.names.append(ready[at].name)
                ready[at].step()
        finally:
            for task in made.values():
                task.abandon()
        return {name: task.outcome for name, task in made.items()}

    def _choose(self, count: int) -> int:
        later = 0 if self._rng is None else self._rng.randrange(count)
        choice = dict(enumerate(self._prefix)).get(len(self.choices), later)
        self.choices.append((choice, count))
        return choice


def explore(scenario: Callable[[Order], None], *, most: int = 20_000) -> int:
    """Play the scenario in every order there is: how many. What fails says in which order.

    The scenario makes everything anew each time, and is the same each time but for the order.
    :raises ValueError: there are more orders than `most`.
    """
    prefix: tuple[int, ...] | None = ()
    played = 0
    while prefix is not None:
        if played == most:
            raise ValueError(f"there are more than {most} orders; take fewer tasks, or seeds")
        order = Order(prefix)
        _play(scenario, order)
        played += 1
        prefix = _next(order.choices)
    return played


def sample(scenario: Callable[[Order], None], seeds: range) -> None:
    """Play the scenario once for each seed. What fails says in which order."""
    for seed in seeds:
        _play(scenario, Order(seed=seed))


def _play(scenario: Callable[[Order], None], order: Order) -> None:
    try:
        scenario(order)
    except BaseException as failed:
        failed.add_note(f"in the order: {order}")
        raise


def _next(choices: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
    """The choices that begin the next order, depth first."""
    for at in range(len(choices) - 1, -1, -1):
        choice, count = choices[at]
        if choice + 1 < count:
            return (*(earlier for earlier, _ in choices[:at]), choice + 1)
    return None


class _Abandoned(BaseException):
    """Ends a task whose run is over."""


class _Task:
    """A body in a thread of its own, which runs only between `step` and the next point."""

    def __init__(self, name: str, body: Callable[[], object], tasks: dict[int, _Task]) -> None:
        self.name = name
        self.outcome = Outcome()
        self.is_done = False
        self._body = body
        self._tasks = tasks
        self._may_run = threading.Semaphore(0)
        self._has_stopped = threading.Semaphore(0)
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let it run to its next point, or its end."""
        self._may_run.release()
        if not self._has_stopped.acquire(timeout=_STEP_S):
            raise Stuck(f"task {self.name} waits for something that another one holds at a point")

    def stop_here(self) -> None:
        """Called by the body: wait for the next step."""
        self._has_stopped.release()
        self._wait()

    def abandon(self) -> None:
        """The run is over; a body that has not ended ends where it stands."""
        self._is_abandoned = True
        if not self.is_done:
            self._may_run.release()
        self._thread.join(timeout=_STEP_S)

    def _wait(self) -> None:
        self._may_run.acquire()
        if self._is_abandoned:
            raise _Abandoned

    def _run(self) -> None:
        self._tasks[threading.get_ident()] = self
        try:
            self._wait()
            self.outcome = Outcome(value=self._body())
        except _Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 - the edge of a task: its error is its outcome
            self.outcome = Outcome(error=error)
        finally:
            del self._tasks[threading.get_ident()]
            self.is_done = True
            self._has_stopped.release()


class _Watch:
    """An object whose calls are points."""

    def __init__(self, target: object, point: Callable[[], None]) -> None:
        self._target = target
        self._point = point

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name.startswith("_") or not callable(found):
            return found

        def called(*given: Any, **named: Any) -> Any:
            self._point()
            return found(*given, **named)

        return called
