"""A small HTTP server on the loopback that answers as it is told, and sees when its clients leave.

It lives in threads of its own, so that the loop of a test holds nothing but the adapter.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from tests.adapters.openai.traces import Trace

Headers = dict[str, str]
_PATIENCE = 10


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What to send: a body in pieces, whole or broken off, perhaps held until the client is gone."""

    pieces: Sequence[bytes]
    status: int = 200
    headers: Headers = field(default_factory=lambda: {"content-type": "application/json"})
    breaks_off: bool = False
    is_held: bool = False
    closes_silently: bool = False


Handler = Callable[[Seen], Answer]


def answer_of(trace: Trace) -> Answer:
    """A recorded answer."""
    return Answer([trace.body], trace.status, dict(trace.headers), trace.broke_off)


def events(*data: object, done: bool = True) -> Answer:
    """A stream of chunks."""
    pieces = [f"data: {json.dumps(each)}\n\n".encode() for each in data]
    if done:
        pieces.append(b"data: [DONE]\n\n")
    return Answer(pieces, headers={"content-type": "text/event-stream; charset=utf-8"})


class ReplayServer(ThreadingHTTPServer):
    """Answers each request with what the handler says; remembers what it saw."""

    daemon_threads = True

    def __init__(self, handler: Handler) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.handler = handler
        self.seen: list[Seen] = []
        self.connections = 0
        self.asked = Event()
        self.left = Event()
        self.sockets: list[socket.socket] = []
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def chats(self) -> list[Any]:
        """The bodies of all chat requests."""
        return [seen.json for seen in self.seen if seen.path.endswith("/chat/completions")]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle is what some tests are about."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ReplayServer  # type: ignore[assignment]

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.server.sockets.append(self.connection)

    def do_GET(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self._reply()

    def _reply(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): text for name, text in self.headers.items()}
        seen = Seen(self.command, self.path, headers, body)
        self.server.seen.append(seen)
        self.server.asked.set()
        answer = self.server.handler(seen)
        self.close_connection = answer.breaks_off or answer.closes_silently
        if not answer.closes_silently:
            try:
                self._send(answer)
            except OSError:
                self.server.left.set()
                self.close_connection = True

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, text in {**answer.headers, "transfer-encoding": "chunked"}.items():
            self.send_header(name, text)
        self.end_headers()
        for piece in filter(None, answer.pieces):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if answer.is_held:
            readable, _, _ = select.select([self.connection], [], [], _PATIENCE)
            if readable:
                self.server.left.set()
            self.close_connection = True
        elif not answer.breaks_off:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@contextmanager
def replaying(handler: Handler | Answer) -> Iterator[ReplayServer]:
    """A server that runs as long as the block."""
    server = ReplayServer(handler if callable(handler) else lambda _: handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        for each in server.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
