"""Ports of servers that a test starts."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from tidegate.clock import SystemClock


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, server: subprocess.Popen[bytes], log: Path, limit_s: float = 60.0) -> None:
    """Return once somebody listens; say what the server said when it does not."""
    clock = SystemClock()
    deadline = clock.monotonic() + limit_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            assert clock.monotonic() < deadline, log.read_text()
