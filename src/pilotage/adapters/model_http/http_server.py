"""A server over HTTP: one pooled httpx client, its errors mapped in one table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias, cast

from pilotage.adapters.model_http.error_mapping import retry_after_of, server_error
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.server import ModelServer, ServerAccess, ServerStream
from pilotage.adapters.model_http.trace_context import trace_headers
from pilotage.agent.model_failure import ModelFailure
from pilotage.ids import IClock

try:
    import httpx
except ImportError as error:
    raise ImportError('adapters of model servers need an extra: pip install "pilotage[openai]"') from error

# Servers close connections that idle; vLLM after five seconds.
_KEEP_ALIVE_SECONDS = 4.0
_LONGEST_ERROR = 64 * 1024
_LONGEST_REPLY = 64 * 1024 * 1024

_Table: TypeAlias = tuple[tuple[type[Exception], ModelFailure, str], ...]

# The first row that fits counts; errors while a body is read have their own table.
_BEFORE_THE_ANSWER: _Table = (
    (httpx.PoolTimeout, ModelFailure.OVERLOADED, "all connections of this process to it are in use"),
    (httpx.TimeoutException, ModelFailure.TIMEOUT, ""),
    (httpx.DecodingError, ModelFailure.UNREADABLE, ""),
    (httpx.TransportError, ModelFailure.UNREACHABLE, ""),
    (httpx.HTTPError, ModelFailure.UNREADABLE, ""),
    (httpx.InvalidURL, ModelFailure.UNREACHABLE, ""),
)
_IN_THE_ANSWER: _Table = (
    (httpx.TimeoutException, ModelFailure.TIMEOUT, ""),
    (httpx.DecodingError, ModelFailure.UNREADABLE, ""),
    (httpx.HTTPError, ModelFailure.BROKEN_STREAM, ""),
    (httpx.StreamError, ModelFailure.BROKEN_STREAM, ""),
)


class HttpServer(ModelServer):
    """A server. The client is made with the first request, for the loop it runs in.

    `transport` replaces the transport of httpx.
    """

    def __init__(
        self,
        access: ServerAccess,
        clock: IClock,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._access = access
        self.key = access.secret
        self._timeouts = access.timeouts
        self._clock = clock
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, url: str) -> bytes:
        return await self._whole("GET", url, b"", self._timeouts.idle)

    async def post(self, url: str, body: bytes) -> bytes:
        return await self._whole("POST", url, body, self._timeouts.request)

    async def open(self, url: str, body: bytes) -> ServerStream:
        deadline = asyncio.get_running_loop().time() + self._timeouts.request
        async with _within(self._timeouts.first_token, "no answer"), _mapped(_BEFORE_THE_ANSWER):
            response = await self._sent("POST", url, body)
        if response.is_success:
            return HttpStream(response, deadline)
        raise await self._refusal(response)

    async def close(self) -> None:
        client, self._client = self._client, None
        # Connections of a loop that has ended cannot be closed any more.
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def _whole(self, method: str, url: str, body: bytes, seconds: float) -> bytes:
        async with _within(seconds, "no whole answer"):
            async with _mapped(_BEFORE_THE_ANSWER):
                response = await self._sent(method, url, body)
            if not response.is_success:
                raise await self._refusal(response)
            answer = await _body(response, _LONGEST_REPLY)
        if len(answer) > _LONGEST_REPLY:
            raise failed(ModelFailure.UNREADABLE, f"a body of more than {_LONGEST_REPLY:,} bytes")
        return answer

    async def _sent(self, method: str, url: str, body: bytes) -> httpx.Response:
        client = self._connected()
        headers = trace_headers() if self._access.sends_trace else None
        request = client.build_request(method, url, content=body or None, headers=headers)
        try:
            return await client.send(request, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            # A pooled connection may be dead; a new one shows whether the server is.
            again = client.build_request(method, url, content=body or None, headers=headers)
            return await client.send(again, stream=True)

    def _connected(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = _client(self._access, self._transport), loop
        return self._client

    async def _refusal(self, response: httpx.Response) -> ModelServerError:
        wait = retry_after_of(response.headers, self._clock.now())
        async with _within(self._timeouts.idle, "no body of an error"):
            body = await _body(response, _LONGEST_ERROR)
        error = server_error(response.status_code, body, wait)
        error.hide(self.key)
        return error


class HttpStream(ServerStream):
    """A body that is read piece by piece."""

    def __init__(self, response: httpx.Response, deadline: float) -> None:
        self._response = response
        self._deadline = deadline
        self._pieces = cast("AsyncGenerator[bytes, None]", response.aiter_bytes())
        self._time = asyncio.get_running_loop().time
        self._limit = WaitLimit()
        kind: str = response.headers.get("content-type", "").partition(";")[0]
        self._is_event_stream = kind.strip().lower() == "text/event-stream"

    @property
    def is_event_stream(self) -> bool:
        return self._is_event_stream

    async def read(self, within: float) -> bytes:
        until = min(self._time() + within, self._deadline)
        self._limit.begin(until)
        try:
            return await anext(self._pieces, b"")
        except asyncio.CancelledError as error:
            if self._limit.is_reason():
                raise _too_long(within if until < self._deadline else None) from error
            raise
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _mapped_error(error, _IN_THE_ANSWER) from error
        finally:
            self._limit.end()

    async def close(self) -> None:
        self._limit.close()
        await self._pieces.aclose()
        await self._response.aclose()


def _client(access: ServerAccess, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    waiting = access.timeouts
    return httpx.AsyncClient(
        transport=transport,
        headers=access.headers,
        # Reading a reply has time limits of its own.
        timeout=httpx.Timeout(None, connect=waiting.connect, write=waiting.idle, pool=waiting.first_token),
        limits=httpx.Limits(
            max_connections=access.concurrency,
            max_keepalive_connections=access.concurrency,
            keepalive_expiry=_KEEP_ALIVE_SECONDS,
        ),
    )


async def _body(response: httpx.Response, longest: int) -> bytes:
    """Return the body; of one that is too long only the beginning, and a little more."""
    body = bytearray()
    try:
        async with _mapped(_IN_THE_ANSWER):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > longest:
                    break
    finally:
        await response.aclose()
    return bytes(body)


@asynccontextmanager
async def _within(seconds: float, what: str) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise failed(ModelFailure.TIMEOUT, f"{what} within {seconds:g} s") from error


@asynccontextmanager
async def _mapped(table: _Table) -> AsyncGenerator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
        raise _mapped_error(error, table) from error


def _mapped_error(error: Exception, table: _Table) -> ModelServerError:
    failure, text = next((row[1], row[2]) for row in table if isinstance(error, row[0]))
    return failed(failure, text or f"{type(error).__name__} {error}".strip())


def _too_long(idle: float | None) -> ModelServerError:
    silent = f"nothing came for {idle:g} s" if idle is not None else "the reply is not complete in time"
    return failed(ModelFailure.TIMEOUT, silent)


class WaitLimit:
    """A time limit for many short waits, one after the other; `begin` and `end` enclose each wait.

    A timeout object for each wait would cost more than reading and decoding a token. So only the deadline moves, and
    the one timer, which fires too early, is set again.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._until = 0.0
        self._cancelling = 0
        self._has_rung = False

    def begin(self, until: float) -> None:
        """Begin a wait of the current task, until a time of the loop at the latest."""
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a limit is for waits inside a task")
        self._task, self._until, self._cancelling = task, until, task.cancelling()
        if self._timer is None:
            self._timer = self._loop.call_at(until, self._ring)
        elif self._timer.when() > until:
            self._timer.cancel()
            self._timer = self._loop.call_at(until, self._ring)

    def end(self) -> None:
        """End the wait."""
        self._task = None

    def is_reason(self) -> bool:
        """Return whether only this limit cancelled the wait; call it once, in the cancelled task."""
        task = asyncio.current_task(self._loop)
        if not self._has_rung or task is None:
            return False
        self._has_rung = False
        return task.uncancel() <= self._cancelling

    def close(self) -> None:
        """Cancel the timer."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._ring)
        else:
            self._has_rung = True
            self._task.cancel()
