"""Limits of a connection before the application gets a request: heads, time, and the number of connections.

A request is read by a parser of uvicorn's, which reports to a `RequestGuard`: the beginning of a request, its target,
its headers, pieces of its body, its end. The guard refuses with a problem (408, 414, 431, 503) where nothing of a
response has been sent, and closes the connection in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from enum import Enum, auto
from http import HTTPStatus
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp

from pilotage.adapters.asgi.problems import problem_response
from pilotage.adapters.http_settings import HttpSettings
from pilotage.inbound.problems import problem_of_status

_LINGER_SECONDS = 1.0


class Refusal(Exception):  # noqa: N818 - a decision that the parser carries, not an error of the server
    """The refusal of a request, with its reason."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status

    def encoded(self) -> bytes:
        """Return the response, as it is sent."""
        response = problem_response(problem_of_status(self.status, str(self)))
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}".encode(), b"connection: close"]
        lines += [name + b": " + text for name, text in response.raw_headers]
        return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body)


class Exchange(Protocol):
    """One request and its response, as uvicorn keeps them."""

    disconnected: bool
    response_started: bool


class Flow(Protocol):
    """Flow control of a connection: whether the server has paused reading."""

    read_paused: bool


class Connection(Protocol):
    """A connection, as uvicorn keeps it; `cycle` is its newest exchange."""

    @property
    def transport(self) -> asyncio.Transport: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def flow(self) -> Flow: ...
    @property
    def cycle(self) -> Exchange | None: ...


class RequestPhase(Enum):
    """Phases of a connection: idle, a head, a body; a complete request; nothing is read any more."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    SENT = auto()
    REFUSED = auto()


class Crowd:
    """The connections of a server. Idle ones are closed first, the longest idle first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.waiting: dict[RequestGuard, None] = {}

    def admit(self, newcomer: RequestGuard, connections: Collection[object]) -> None:
        """Admit a connection; if there are too many, the one that has been idle longest is closed, or the new one."""
        if len(connections) > self.most:
            (next(iter(self.waiting), None) or newcomer).refuse(
                Refusal(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"the server has {self.most:,} connections, which is what it takes. Come back in a moment.",
                )
            )


class RequestGuard:
    """Limits of one connection: the size and time of its requests.

    `forget` removes the connection from those of the server.
    """

    def __init__(
        self, connection: Connection, limits: HttpSettings, crowd: Crowd, *, forget: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._limits = limits
        self._crowd = crowd
        self._forget = forget
        self._phase = RequestPhase.IDLE
        self._timer: asyncio.TimerHandle | None = None
        self._url_bytes = self._headers = self._header_bytes = self._unfinished = 0
        self._unanswered = 0
        self.refusal: Refusal | None = None

    def connected(self, connections: Collection[object]) -> None:
        """Time the head of the first request from the beginning of the connection."""
        self._await(RequestPhase.HEAD)
        self._crowd.admit(self, connections)

    def receives(self) -> bool:
        """Return whether to read; time a request from its first byte, whatever the parser makes of it."""
        if self._phase is RequestPhase.IDLE:
            self._await(RequestPhase.HEAD)
        return self._phase is not RequestPhase.REFUSED

    def begins(self) -> None:
        """Count from zero for a new request."""
        self._url_bytes = self._headers = self._header_bytes = self._unfinished = 0
        if self._phase is not RequestPhase.HEAD:
            self._await(RequestPhase.HEAD)

    def unfinished(self, size: int) -> None:
        """Count bytes that the parser holds in its buffer."""
        self._unfinished += size
        if self._unfinished > self._limits.max_header_bytes:
            self.refuse(self._too_large())

    def url(self, size: int) -> None:
        """Count a piece of the target; raise `Refusal`."""
        self._unfinished = 0
        self._url_bytes += size
        if self._url_bytes > self._limits.max_url_bytes:
            detail = f"the URL is longer than {self._limits.max_url_bytes:,} bytes, which is what this server takes."
            raise self._refused(Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, detail))

    def header(self, size: int) -> None:
        """Count a header, or a trailer; raise `Refusal`."""
        self._unfinished = 0
        self._headers += 1
        self._header_bytes += size
        if self._headers > self._limits.max_headers or self._header_bytes > self._limits.max_header_bytes:
            raise self._refused(self._too_large())

    def overflows(self) -> None:
        """Note that the parser gives up, because its buffer is full."""
        self._refused(self._too_large())

    def head_ends(self) -> None:
        """Time the rest of the request."""
        self._unfinished = 0
        self._unanswered += 1
        self._crowd.waiting.pop(self, None)
        self._enter(RequestPhase.BODY, self._limits.request_seconds)

    def body(self) -> None:
        """Note that the parser has passed on a piece of the body."""
        self._unfinished = 0

    def request_ends(self) -> None:
        """Stop timing: it is the application's turn."""
        self._phase = RequestPhase.SENT
        self._stop()

    def response_ends(self) -> None:
        """Wait for the next request; do not wait long for the rest of one that was answered before its end."""
        self._unanswered -= 1
        if self._connection.transport.is_closing():
            self.closing()
        elif self._phase is RequestPhase.REFUSED and self.refusal is not None:
            self._send(self.refusal)
        elif self._phase is RequestPhase.BODY:
            self._await(RequestPhase.BODY)
        elif self._phase is RequestPhase.SENT and not self._unanswered:
            self._phase = RequestPhase.IDLE
            self._crowd.waiting[self] = None

    def upgraded(self) -> None:
        """Stop: the protocol of WebSockets has bounds of its own, and hangs with a head that is too large for them."""
        transport = self._connection.transport
        self.lost()
        if getattr(transport.get_protocol(), "handshake_initiated", True) is False:
            transport.write(self._too_large().encoded())
            transport.close()

    def lost(self) -> None:
        """Forget the connection."""
        self._crowd.waiting.pop(self, None)
        self._stop()

    def closing(self) -> None:
        """Give the client time to read the rest of the response, as long as it makes progress."""
        left = self._connection.transport.get_write_buffer_size()
        self._stop()
        if left:
            self._timer = self._later(self._limits.header_seconds, lambda: self._give_up(left))

    def refuse(self, refusal: Refusal) -> None:
        """Read nothing more, and send the refusal after the responses to earlier requests."""
        if self._phase is RequestPhase.REFUSED or self._connection.transport.is_closing():
            self.lost()
            self._forget()
            self._connection.transport.abort()
            return
        phase, self._phase = self._phase, RequestPhase.REFUSED
        exchange = self._connection.cycle
        self._stop()
        if phase is RequestPhase.IDLE or (
            phase is RequestPhase.BODY and exchange is not None and exchange.response_started
        ):
            self._close()
        elif self._unanswered > (1 if phase is RequestPhase.BODY else 0):
            self.refusal = refusal
            self._connection.transport.pause_reading()
        else:
            if phase is RequestPhase.BODY and exchange is not None:
                exchange.disconnected = True
            self._send(refusal)

    def _send(self, refusal: Refusal) -> None:
        """Send a refusal. The client's bytes are read for a moment: otherwise the refusal would be lost."""
        transport = self._connection.transport
        transport.write(refusal.encoded())
        if refusal.status is HTTPStatus.SERVICE_UNAVAILABLE or not transport.can_write_eof():
            self._close()
            return
        transport.write_eof()
        transport.resume_reading()
        self._crowd.waiting[self] = None
        self._stop()
        self._timer = self._later(min(_LINGER_SECONDS, self._limits.header_seconds), transport.abort)

    def _close(self) -> None:
        self._crowd.waiting.pop(self, None)
        self._forget()
        self._connection.transport.close()
        self.closing()

    def _await(self, phase: RequestPhase) -> None:
        if not self._unanswered:
            self._crowd.waiting[self] = None
        self._enter(phase, self._limits.header_seconds)

    def _enter(self, phase: RequestPhase, seconds: float) -> None:
        self._phase = phase
        self._stop()
        self._timer = self._later(seconds, lambda: self._late(seconds))

    def _late(self, seconds: float) -> None:
        """Refuse a request that takes too long to send, unless the server has stopped reading."""
        if self._connection.flow.read_paused or (self._phase is RequestPhase.HEAD and self._unanswered):
            self._enter(self._phase, seconds)
            return
        part = "headers" if self._phase is RequestPhase.HEAD else "request"
        self.refuse(
            Refusal(HTTPStatus.REQUEST_TIMEOUT, f"the {part} did not come within {seconds:g} seconds.")
        )

    def _give_up(self, left: int) -> None:
        transport = self._connection.transport
        if transport.get_write_buffer_size() < left:
            self.closing()
        else:
            transport.abort()

    def _too_large(self) -> Refusal:
        most, size = self._limits.max_headers, self._limits.max_header_bytes
        detail = f"the headers are more than {most}, or longer than {size:,} bytes, which is what this server takes."
        return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)

    def _refused(self, refusal: Refusal) -> Refusal:
        """Store a refusal until the parser has given up, because it hides the exception."""
        self.refusal = refusal
        return refusal

    def _later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return self._connection.loop.call_later(seconds, act)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedConfig(uvicorn.Config):
    """Configuration of uvicorn with the limits of our settings."""

    def __init__(
        self, api: ASGIApp, limits: HttpSettings, *, host: str, port: int, protocol: type[asyncio.Protocol]
    ) -> None:
        super().__init__(
            api,
            host=host,
            port=port,
            http=protocol,
            ws_max_size=limits.max_body_bytes,
            timeout_graceful_shutdown=max(1, round(limits.shutdown_seconds)),
            server_header=False,
        )
        self.limits = limits
        self.crowd = Crowd(limits.max_connections)
