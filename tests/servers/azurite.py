"""Azurite, Microsoft's own emulator of Azure's blobs."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import itertools
import os
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.ports import free_port, wait_for_port
from tests.servers.s3 import CACHE

#: The account that every Azurite has; its key is in its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ENVIRONMENT = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}


class Azurite:
    """A server that is up inside its `with`, on a port of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-azurite-"))
        self.port = free_port()
        self._names = itertools.count(1)

    @staticmethod
    def program() -> Path | None:
        """Where scripts/setup-servers, or anybody, put it."""
        found = sorted(CACHE.glob("azurite-*/node_modules/.bin/azurite-blob"))
        elsewhere = shutil.which("azurite-blob")
        return found[-1] if found else Path(elsewhere) if elsewhere else None

    def __enter__(self) -> Self:
        command = [str(self.program()), "--silent", "--skipApiVersionCheck", "--location", str(self.folder)]
        with open(self.folder / "log", "wb") as log:
            self._server = subprocess.Popen([*command, "--blobPort", str(self.port)], stdout=log, stderr=log)
        wait_for_port(self.port, self._server, self.folder / "log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.terminate()
        self._server.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def new_container(self) -> str:
        """The name of a new, empty container."""
        name = f"tide-{os.getpid()}-{next(self._names)}"
        headers = {
            "x-ms-date": datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "x-ms-version": "2023-11-03",
        }
        told = "".join(f"{header}:{value}\n" for header, value in sorted(headers.items()))
        resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signed = hmac.new(base64.b64decode(KEY), ("PUT" + "\n" * 12 + told + resource).encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signed.digest()).decode()}"
        headers["Content-Length"] = "0"
        url = f"{self.endpoint}/{name}?restype=container"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=30).close()
        return name

    def url(self, container: str) -> str:
        """A ledger in that container."""
        return f"az://{container}/some/ledger?endpoint={self.endpoint}"
