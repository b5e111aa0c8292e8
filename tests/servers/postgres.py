"""A private Postgres from the programs of the system's packages, over a socket of its own and a port."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg

from tests.servers.ports import free_port
from tidegate.clock import SystemClock

_USERS = ("postgres", "nobody")


class Postgres:
    """A server that is up inside its `with`. It can be stopped, killed and started again on the same data.

    Tests kill clients and backends, never the machine: there, flushing would only be slow.
    """

    def __init__(self, *, flushes: bool = False) -> None:
        self._flushes = flushes
        programs = self.programs()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
        self.port = free_port()
        self._names = itertools.count(1)
        self._server: subprocess.Popen[bytes] | None = None

    @staticmethod
    def programs() -> Path | None:
        """The folder of initdb and postgres, of the newest version there is."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
        elsewhere = shutil.which("initdb")
        return found[-1].parent if found else Path(elsewhere).resolve().parent if elsewhere else None

    def __enter__(self) -> Self:
        if os.getuid() == 0:
            shutil.chown(self.folder, _user())
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "tide", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._make_certificate()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def certificate(self) -> Path:
        """The server's certificate, which is its own root."""
        return self.folder / "server.crt"

    def url(self, database: str = "postgres", **settings: str) -> str:
        """By the socket; with `host` among the settings by TCP and the port."""
        host = settings.pop("host", str(self.folder))
        rest = "".join(f"&{name}={quote(value, safe='')}" for name, value in settings.items())
        return f"postgresql:///{database}?user=tide&host={quote(host, safe='')}&port={self.port}{rest}"

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"tide_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """What a superuser can ask."""
        with psycopg.connect(self.url(database), autocommit=True) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._flushes else "off",
            "max_connections": "60",
            "shared_buffers": "64MB",
            "ssl": "on" if self.certificate.exists() else "off",
            "ssl_cert_file": str(self.certificate),
            "ssl_key_file": str(self.folder / "server.key"),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = open(self.folder / "log", "ab")  # noqa: SIM115 -- the child has it
        self._server = subprocess.Popen(
            [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options],
            stdout=log, stderr=log, cwd="/", **_as_user(),
        )  # fmt: skip
        log.close()
        clock = SystemClock()
        deadline = clock.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self._server.poll() is None, (self.folder / "log").read_text()
                assert clock.monotonic() < deadline, (self.folder / "log").read_text()

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it: SIGQUIT as a crash (it recovers at its next start), SIGINT in order."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(timeout=60)
            self._server = None

    def _make_certificate(self) -> None:
        if shutil.which("openssl") is None:
            return
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-keyout", str(self.folder / "server.key"), "-out", str(self.certificate)]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", *names, *files]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **_as_user())

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            **_as_user(),
        )
        assert done.returncode == 0, done.stderr


def _user() -> str:
    """A user that is not root: Postgres refuses to be run by it."""
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _USERS if name in known)


def _as_user() -> dict[str, object]:
    if os.getuid() != 0:
        return {}
    import pwd

    entry = pwd.getpwnam(_user())
    groups: Sequence[int] = []
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
