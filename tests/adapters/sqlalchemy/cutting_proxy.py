"""A line to a server that breaks at a chosen commit: before the server has heard of it, or before its answer is heard."""

from __future__ import annotations

import socket
from contextlib import suppress
from enum import Enum, auto
from threading import Lock, Thread
from types import TracebackType
from typing import Self

_COMMITS = (b"COMMIT\0", b'"fingerprint":')
"""The word, and rows of a journal: the statement that writes them may be a transaction by itself."""


class Cut(Enum):
    """Which way a commit is lost."""

    REQUEST = auto()
    REPLY = auto()


class CuttingProxy:
    """Passes everything on to a server, and cuts the line of whoever makes the n-th commit; 0 is never.

    `commits` is how many there were, of all lines together.
    """

    def __init__(self, server_port: int, number: int = 0, cut: Cut = Cut.REQUEST) -> None:
        self._server_port, self._number, self._cut = server_port, number, cut
        self._lock = Lock()
        self.commits = 0
        self.is_cut = False
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._threads = [Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                line = _Line(client, server)
                for pump in (self._requests, self._replies):
                    thread = Thread(target=pump, args=[line], daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _requests(self, line: _Line) -> None:
        with line, suppress(OSError):
            while data := line.client.recv(65536):
                if any(sign in data for sign in _COMMITS) and self._is_chosen():
                    if self._cut is Cut.REQUEST:
                        return
                    line.hears_no_more = True
                line.server.sendall(data)

    def _replies(self, line: _Line) -> None:
        with line, suppress(OSError):
            while data := line.server.recv(65536):
                # The server has done what it was asked to, and nobody is told.
                if line.hears_no_more:
                    return
                line.client.sendall(data)

    def _is_chosen(self) -> bool:
        with self._lock:
            self.commits += 1
            is_chosen = self.commits == self._number
            self.is_cut = self.is_cut or is_chosen
        return is_chosen


class _Line:
    """A client and its server; when the one is gone the other hears of it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.hears_no_more = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
