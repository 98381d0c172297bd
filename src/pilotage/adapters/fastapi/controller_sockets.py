"""WebSockets that methods of controllers have: streams among the others, closed with a code that says why."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from pilotage.adapters.fastapi.callers import principal_in
from pilotage.adapters.fastapi.open_streams import OpenStreams
from pilotage.adapters.fastapi.problems import problem_of
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.adapters.fastapi.socket_guard import turn_away
from pilotage.adapters.fastapi.telling import CUT_OFF, OVER, broken
from pilotage.adapters.fastapi.waiting import stopped
from pilotage.errors import PilotageError


class ControllerSockets:
    """Lets methods have WebSockets, as many as there may be, until the server stops."""

    def __init__(self, streams: OpenStreams, settings: HttpSettings) -> None:
        self._streams = streams
        self._settings = settings

    async def use(self, websocket: WebSocket, work: Coroutine[Any, Any, None]) -> None:
        """Let the work have the WebSocket; a client that goes is no error, and one of ours is the code of the close."""
        try:
            with self._streams.entered(principal_in(websocket.scope), self._settings) as is_to_end:
                await _used(websocket, asyncio.ensure_future(work), is_to_end)
        except PilotageError as error:
            work.close()
            await _refused(websocket, error)
        except WebSocketDisconnect:
            pass


async def _used(websocket: WebSocket, work: asyncio.Future[None], is_to_end: asyncio.Future[None]) -> None:
    try:
        await asyncio.wait([work, is_to_end], return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_stopped = not work.done()
        await stopped([work])
    if not is_stopped:
        work.result()
    # A method that simply ends has said everything; without a close its client could not tell.
    if _is_open(websocket):
        ending = CUT_OFF if is_stopped else OVER
        await websocket.close(ending.code, ending.reason)


async def _refused(websocket: WebSocket, error: PilotageError) -> None:
    """Say what went wrong by the code of the close; before the connection is made, by an answer."""
    problem = problem_of(error)
    if websocket.application_state is WebSocketState.CONNECTING:
        await turn_away(websocket, problem)
    elif _is_open(websocket):
        await websocket.close(broken(problem).code, problem.code)


def _is_open(websocket: WebSocket) -> bool:
    states = (websocket.application_state, websocket.client_state)
    return states == (WebSocketState.CONNECTED, WebSocketState.CONNECTED)
