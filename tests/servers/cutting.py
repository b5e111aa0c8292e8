"""A line to a server that can be cut at the very moment when it hurts."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Cut:
    """At the request that has the marker: cut before it arrives, or when its answer is on the way back."""

    marker: bytes
    arrives: bool


class CuttingProxy:
    """Forwards connections to the server. An armed cut happens once, and closes that connection."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._armed: Cut | None = None
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let nobody new in; who is connected stays."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def arm(self, marker: bytes, *, arrives: bool) -> None:
        """Cut the next request that has the marker."""
        self._armed = Cut(marker, arrives)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._target)
        lost = threading.Event()
        threading.Thread(target=self._answers, args=(server, client, lost), daemon=True).start()
        try:
            while request := client.recv(1 << 16):
                armed = self._armed
                if armed is not None and armed.marker in request:
                    self._armed = None
                    self.cuts += 1
                    if not armed.arrives:
                        break
                    lost.set()
                server.sendall(request)
        except OSError:
            pass
        finally:
            if not lost.is_set():
                _close(client, server)

    def _answers(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        try:
            while answer := server.recv(1 << 16):
                if lost.is_set():
                    break
                client.sendall(answer)
        except OSError:
            pass
        finally:
            _close(client, server)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
