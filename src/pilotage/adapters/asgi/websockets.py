"""WebSockets: authentication of the handshake, refusals, writing and closing, for every adapter."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from pilotage.adapters.asgi.authentication import headers_of, offered_protocols
from pilotage.adapters.asgi.problems import problem_response
from pilotage.adapters.asgi.streaming import failed
from pilotage.errors import PilotageError
from pilotage.inbound.problems import ProblemView, problem_of

_DENIAL = "websocket.http.response"
_POLICY = 1008
# The protocol that is accepted when the client offers it, beside the one that carries a token.
_PROTOCOL = "pilotage"


async def accept(websocket: WebSocket) -> None:
    """Accept a WebSocket, with our protocol where the client offers it."""
    is_offered = _PROTOCOL in offered_protocols(headers_of(websocket))
    await websocket.accept(_PROTOCOL if is_offered else None)


async def refuse(websocket: WebSocket, error: PilotageError | ProblemView) -> None:
    """Refuse a handshake with a problem where the server supports it, else by a close; an open one is closed."""
    problem = error if isinstance(error, ProblemView) else problem_of(error)
    if websocket.application_state is not WebSocketState.CONNECTING:
        if is_open(websocket):
            await websocket.close(failed(problem).code, problem.code)
    elif _DENIAL in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(problem_response(problem))
    else:
        await websocket.close(_POLICY, problem.code)


def is_open(websocket: WebSocket) -> bool:
    """Return whether both sides are connected."""
    states = (websocket.application_state, websocket.client_state)
    return states == (WebSocketState.CONNECTED, WebSocketState.CONNECTED)


async def send_text(websocket: WebSocket, text: str) -> None:
    """Send one message.

    Raises:
        ClientDisconnect: the client has gone.
    """
    try:
        await websocket.send_text(text)
    except (WebSocketDisconnect, RuntimeError) as error:
        raise ClientDisconnect from error


async def close(websocket: WebSocket, code: int, reason: str) -> None:
    """Close a WebSocket, unless the client has closed it already."""
    try:
        await websocket.close(code, reason)
    except (WebSocketDisconnect, RuntimeError) as error:
        raise ClientDisconnect from error


async def disconnected(websocket: WebSocket) -> None:
    """Return when the client has gone; its messages are ignored."""
    while websocket.client_state is WebSocketState.CONNECTED:
        await websocket.receive()
