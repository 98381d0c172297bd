"""What stands in front of every WebSocket: where the page comes from, who asks; and how one is turned away."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.websockets import WebSocket

from pilotage.adapters.asgi.admission import OriginRefusedError
from pilotage.adapters.fastapi.answers import problem_answer
from pilotage.adapters.fastapi.binding import is_allowed_origin
from pilotage.adapters.fastapi.entrance import PROTOCOL, Entrance, headers_of, offered_protocols
from pilotage.adapters.fastapi.problems import ProblemView, problem_of
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.errors import PilotageError

_DENIAL = "websocket.http.response"
_POLICY = 1008


class SocketGuard:
    """Lets a WebSocket in from pages that may, when it is known who asks."""

    def __init__(self, entrance: Entrance | None, settings: HttpSettings) -> None:
        self._entrance = entrance
        self._origins = settings.allowed_origins

    async def admit(self, websocket: WebSocket) -> None:
        """Look at the handshake.

        Raises:
            OriginRefusedError: a page of another site wants in.
            NotAuthenticatedError: nobody that is known here.
        """
        origin, host = websocket.headers.get("origin"), websocket.headers.get("host")
        if not is_allowed_origin(origin, host, self._origins):
            raise OriginRefusedError(
                f"pages of {origin!r} may not connect. Add it to PILOTAGE_HTTP_ALLOWED_ORIGINS if they should."
            )
        if self._entrance is not None:
            await self._entrance.admit(websocket)

    async def depend(self, websocket: WebSocket) -> None:
        """The same as a dependency of a route."""
        try:
            await self.admit(websocket)
        except PilotageError as error:
            problem = problem_of(error)
            raise HTTPException(problem.status, problem.detail) from error


def protocol_for(websocket: WebSocket) -> str | None:
    """The protocol that is answered with: ours, where the client offers it."""
    return PROTOCOL if PROTOCOL in offered_protocols(headers_of(websocket)) else None


async def turn_away(websocket: WebSocket, problem: ProblemView) -> None:
    """Refuse a handshake with a problem, as far as the server can tell one."""
    if _DENIAL in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(problem_answer(problem))
    else:
        await websocket.close(_POLICY, problem.code)
