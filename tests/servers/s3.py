"""A private S3 server that honours conditions: versitygw where it was built, moto's where it was not."""

from __future__ import annotations

import http.server
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.ports import free_port, wait_for_port

#: Where scripts/setup-servers puts what it builds.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate" / "servers"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "tide", "AWS_SECRET_ACCESS_KEY": "only-for-tests", "AWS_REGION": "us-east-1"}


class S3:
    """A server that is up inside its `with`, on a port of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-s3-"))
        self.port = free_port()
        self._names = itertools.count(1)
        self._server: subprocess.Popen[bytes] | None = None

    @staticmethod
    def program() -> Path | None:
        """The server that there is."""
        found = [*sorted(CACHE.glob("versitygw-*/versitygw")), *CACHE.glob("moto-*/bin/moto_server")]
        return found[0] if found else None

    @property
    def is_moto(self) -> bool:
        program = self.program()
        return program is not None and program.name == "moto_server"

    def __enter__(self) -> Self:
        program = self.program()
        assert program is not None
        (self.folder / "buckets").mkdir()
        if self.is_moto:
            command = [str(program), "-H", "127.0.0.1", "-p", str(self.port)]
        else:
            keys = ["--access", ENVIRONMENT["AWS_ACCESS_KEY_ID"], "--secret", ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]]
            command = [str(program), *keys, "--port", f"127.0.0.1:{self.port}", "posix", str(self.folder / "buckets")]
        with open(self.folder / "log", "wb") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for_port(self.port, self._server, self.folder / "log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"tide-{os.getpid()}-{next(self._names)}"
        if self.is_moto:
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT")
            urllib.request.urlopen(request, timeout=30).close()
        else:
            (self.folder / "buckets" / name).mkdir()  # a bucket of versitygw is a folder
        return name

    def url(self, bucket: str, *, port: int | None = None) -> str:
        """A ledger in that bucket."""
        return f"s3://{bucket}/some/ledger?endpoint=http://127.0.0.1:{port or self.port}"


class _Careless(http.server.BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        self._answer(HTTPStatus.NO_CONTENT)

    def do_GET(self) -> None:
        self._answer(HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        self._answer(HTTPStatus.NOT_IMPLEMENTED)

    def _answer(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


class CarelessS3:
    """As some servers do: a condition on a write is read over, and the answer is that all went well."""

    def __enter__(self) -> Self:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Careless)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
