"""Endpoints of AG-UI over HTTP and WebSockets, on the HTTP layer of all adapters.

An input that cannot be served is a problem (RFC 9457) until its stream begins; from then on every stream has an end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol, runtime_checkable

from ag_ui.core import RunErrorEvent
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.encoder import NDJSON, SSE, AgUiEncoder, NdjsonEncoder, SseEncoder, line_of
from pilotage.adapters.agui.serving import AgentDriver
from pilotage.adapters.agui.transport import Dialogue, frames_of, open_stream
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import Authentication, principal_in
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.problems import ProblemView
from pilotage.adapters.asgi.streaming import (
    RECONNECT,
    ClientWriter,
    Heartbeat,
    clock_of,
    until_the_first_ends,
)
from pilotage.adapters.asgi.streaming_response import SSE_HEARTBEAT, StreamFormat, StreamingResponse
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.errors import PilotageError


@runtime_checkable
class ActsForOthers(Protocol):
    """A factory of streams that can act for any principal; the result of `driver_for` is one."""

    def for_principal(self, principal: Principal) -> RunDriverFactory:
        """Return the same streams, acting for a principal."""
        ...


class EndpointParts:
    """What an endpoint needs of the HTTP layer, for one factory of streams.

    The principal of a request is resolved by `principal`, else by the application's own resolver. Without both, the
    factory acts for the principal it was made with, for programs on this machine only.
    """

    def __init__(
        self, factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None
    ) -> None:
        self._factory = factory
        self.app = factory.app if isinstance(factory, AgentDriver) else None
        self.limits = config.limits
        self.settings = config.http
        self.authentication = Authentication.of(self.app, principal, config.http.allowed_origins)
        self.streams = OpenStreams.of(self.app) if self.app is not None else OpenStreams()

    def factory_for(self, principal: Principal | None) -> RunDriverFactory:
        """Return the factory, acting for the principal of a request."""
        if principal is None or not isinstance(self._factory, ActsForOthers):
            return self._factory
        return self._factory.for_principal(principal)


class PostEndpoint:
    """Serves inputs that are posted, each with a stream of its own."""

    def __init__(self, parts: EndpointParts, stream_format: StreamFormat[str]) -> None:
        self._parts = parts
        self._format = stream_format

    async def serve(self, request: Request) -> Response:
        """Return the stream for an input.

        Raises:
            PilotageError: the input cannot be served.
        """
        parts, principal = self._parts, principal_in(request.scope)
        parts.streams.refuse(principal, parts.settings)
        stream = await open_stream(
            parts.factory_for(principal),
            await request.body(),
            self._format.media_type,
            last_event_id=request.headers.get("last-event-id"),
            limits=parts.limits,
        )
        return StreamingResponse(
            frames_of(stream),
            self._format,
            streams=parts.streams,
            settings=parts.settings,
            clock=clock_of(parts.app),
        )


class SocketEndpoint:
    """Serves WebSockets: each message is an input, and each answer a frame as server-sent events have it."""

    def __init__(self, parts: EndpointParts) -> None:
        self._parts = parts

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection, from its authentication to its end."""
        parts = self._parts
        try:
            principal = await parts.authentication.principal_of(socket)
            with parts.streams.entered(principal, parts.settings) as shutdown:
                await websockets.accept(socket)
                writer = self._writer(socket)
                dialogue = Dialogue(parts.factory_for(principal), writer.write, SSE, parts.limits)
                async with aclosing(_messages(socket)) as messages:
                    await until_the_first_ends(dialogue.hold(messages), writer.keep_alive(), shutdown)
                # Inputs last as long as the client is connected: it is the server that stops.
                await socket.close(RECONNECT.code, RECONNECT.reason)
        except PilotageError as error:
            await websockets.refuse(socket, error)
        except (ClientDisconnect, WebSocketDisconnect, OSError):
            # The client has gone; its durable runs go on.
            return

    def _writer(self, socket: WebSocket) -> ClientWriter[str]:
        async def send(frame: str) -> None:
            await websockets.send_text(socket, frame)

        heartbeat = Heartbeat(SSE_HEARTBEAT.decode(), self._parts.settings.heartbeat_seconds)
        return ClientWriter(send, heartbeat, self._parts.streams, clock_of(self._parts.app))


async def _messages(socket: WebSocket) -> AsyncGenerator[str | bytes, None]:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000), message.get("reason"))
        text = message.get("text")
        yield text if text is not None else message.get("bytes") or b""


def _error_with(encoder: AgUiEncoder, problem: ProblemView) -> bytes:
    return encoder.encode(RunErrorEvent(message=problem.detail, code=problem.code)).encode()


SSE_FORMAT: StreamFormat[str] = StreamFormat(
    SSE, encode=str.encode, problem=lambda problem: _error_with(SseEncoder(), problem)
)
# Lines of JSON have no piece without a meaning, so no heartbeat.
NDJSON_FORMAT: StreamFormat[str] = StreamFormat(
    NDJSON,
    encode=lambda frame: line_of(frame).encode(),
    problem=lambda problem: _error_with(NdjsonEncoder(), problem),
    heartbeat=None,
)
