"""Who a process is, so that another one on the same host can tell whether it still lives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.quick import dataclass

_PROC = Path("/proc")
_GONE = frozenset("ZXx")  # of the states of a process: ended, and nobody has fetched its exit code yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, named so that no other one ever has the same name.

    `boot` is this run of the host's kernel and its table of processes (a container has its own);
    `started` is when the process started, in the kernel's ticks since that boot: a number of a
    process that ended is given again. Both are empty where the system does not tell.
    """

    host: str
    boot: str
    pid: int
    started: str

    @property
    def text(self) -> str:
        """As people read it."""
        return f"pid {self.pid} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Owner:
        return cls(host=read["host"], boot=read["boot"], pid=read["pid"], started=read["started"])


def this_process() -> Owner:
    """The process that asks."""
    return Owner(host=os.uname().nodename, boot=_boot(), pid=os.getpid(), started=_started(os.getpid()) or "")


def lives(owner: Owner) -> bool | None:
    """Whether the process lives; None when that cannot be known from here (another host or container)."""
    if not owner.boot or owner.boot != _boot() or not owner.started:
        return None
    return _started(owner.pid) == owner.started


@cache
def _boot() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process started; None when it does not run (any more), or the system does not tell."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # the second field is the command's name in parentheses, and may itself hold spaces and parentheses
    fields = stat[stat.rindex(b")") + 2 :].decode("ascii").split()
    return None if fields[0] in _GONE else fields[19]
