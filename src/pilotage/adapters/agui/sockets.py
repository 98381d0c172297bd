"""AG-UI over a WebSocket: further inputs on the same connection, each answered in its turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.websockets import WebSocket, WebSocketDisconnect

from pilotage.adapters.agui.dialogue import Dialogue
from pilotage.adapters.agui.encoder import SSE
from pilotage.adapters.agui.gatekeeping import Gatekeeper
from pilotage.adapters.agui.settings import AgUiLimits
from pilotage.adapters.asgi.lasting_answer import OpenStreams
from pilotage.adapters.asgi.problems import problem_answer
from pilotage.adapters.asgi.waiting import until_the_first_ends
from pilotage.errors import PilotageError

_POLICY_VIOLATION = 1008
_SERVICE_RESTART = 1012
_DENIAL = "websocket.http.response"


class SocketEndpoint:
    """Serves sockets. Each message of ours is a frame as server-sent events have it, with its id."""

    def __init__(self, gatekeeper: Gatekeeper, limits: AgUiLimits) -> None:
        self._gatekeeper = gatekeeper
        self._limits = limits
        self._streams = OpenStreams(limits.max_streams, gatekeeper.common_end)

    async def serve(self, socket: WebSocket) -> None:
        """One connection, from who it is to its end."""
        try:
            factory = await self._gatekeeper.admitted(socket)
            self._streams.refuse_more()
        except PilotageError as error:
            await _refuse(socket, error)
            return
        with self._streams.counted() as end:
            await socket.accept()
            dialogue = Dialogue(factory, socket.send_text, SSE, self._limits)
            try:
                async with aclosing(_messages(socket)) as messages:
                    await until_the_first_ends(dialogue.hold(messages), end)
                # Inputs last as long as the client does: it is the server that goes.
                await socket.close(_SERVICE_RESTART)
            except (WebSocketDisconnect, OSError):
                # The client is gone; what it started goes on where it is kept.
                return


async def _messages(socket: WebSocket) -> AsyncGenerator[str | bytes, None]:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000), message.get("reason"))
        text = message.get("text")
        yield text if text is not None else message.get("bytes") or b""


async def _refuse(socket: WebSocket, error: PilotageError) -> None:
    if _DENIAL in socket.scope.get("extensions", {}):
        await socket.send_denial_response(problem_answer(error))
    else:
        await socket.close(_POLICY_VIOLATION, error.code)
