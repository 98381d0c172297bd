"""The assistant over HTTP, WebSocket and AG-UI: `uvicorn --factory examples.code_assistant.serving:api`.

Nothing here is the framework's server: these are endpoints of a plain FastAPI application, and an agent is called like
any other component. What the run does when a client goes away is not their business: it goes on.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, HTTPException, Request, WebSocket, WebSocketException
from fastapi.requests import HTTPConnection
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from examples.code_assistant.application import code_assistant, offline_model
from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.declarative import DeclarativeCodeAssistant
from examples.code_assistant.task import CodeTask
from pilotage import AgentYieldJsonEncoder, Application, Principal
from pilotage.adapters.agui import driver_for, frames_for
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.errors import NotAuthenticatedError
from pilotage.jsonvalue import canonical_json

_EVENT_STREAM = "text/event-stream"
_POLICY_VIOLATION = 1008


def serve_assistant(app: Application) -> FastAPI:
    """A FastAPI application around the assistant; whom its `IPrincipalResolver` does not know gets nothing."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with app:
            yield

    async def caller(connection: HTTPConnection) -> Principal:
        return await _known(connection, app.get(IPrincipalResolver))

    api = FastAPI(title="Code assistant", lifespan=lifespan)
    api.include_router(agent_routes(app))

    @api.post("/assistant", dependencies=[Depends(caller)])
    async def stream(task: CodeTask) -> StreamingResponse:
        return StreamingResponse(_events(app.get(CodeAssistant), task), media_type=_EVENT_STREAM)

    @api.websocket("/assistant/ws", dependencies=[Depends(caller)])
    async def socket(socket: WebSocket) -> None:
        await socket.accept()
        try:
            task = CodeTask.model_validate(await socket.receive_json())
        except (ValidationError, ValueError) as error:
            raise WebSocketException(_POLICY_VIOLATION, "that is no task") from error
        async with aclosing(app.get(CodeAssistant).execute(task)) as items:
            async for item in items:
                await socket.send_json(AgentYieldJsonEncoder.encode(item))
        await socket.close()

    @api.post("/agui")
    async def agui(request: Request) -> StreamingResponse:
        drive = driver_for(app, DeclarativeCodeAssistant, principal=await caller(request))
        return StreamingResponse(frames_for(drive, await request.body()), media_type=_EVENT_STREAM)

    return api


def api() -> FastAPI:
    """The assistant in the current folder, for whoever has the token."""
    token = os.environ.get("CODE_ASSISTANT_TOKEN") or secrets.token_urlsafe()
    print(f"Authorization: Bearer {token}", flush=True)
    people = BearerTokens({token: Principal("keyboard")})
    return serve_assistant(code_assistant(Path.cwd(), *offline_model(), people))


async def _events(agent: CodeAssistant, task: CodeTask) -> AsyncGenerator[str, None]:
    async with aclosing(agent.execute(task)) as items:
        async for item in items:
            yield f"data: {canonical_json(AgentYieldJsonEncoder.encode(item))}\n\n"


async def _known(connection: HTTPConnection, resolver: IPrincipalResolver) -> Principal:
    """Who asks; a page of somebody else may not ask through a browser."""
    origin = connection.headers.get("origin")
    if origin and urlsplit(origin).netloc != connection.headers.get("host"):
        raise _refusal(connection, 403, "pages of other hosts may not ask")
    try:
        return await resolver.resolve(dict(connection.headers))
    except NotAuthenticatedError as error:
        raise _refusal(connection, 401, str(error)) from error


def _refusal(connection: HTTPConnection, status: int, why: str) -> Exception:
    if connection.scope["type"] == "websocket":
        return WebSocketException(_POLICY_VIOLATION, why[:100])
    return HTTPException(status, why)
