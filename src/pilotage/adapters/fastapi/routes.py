"""`agent_routes`: the runs of an application as routes for FastAPI."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from pilotage.adapters.fastapi.acting import ActingRoutes
from pilotage.adapters.fastapi.entrance import entrance_of
from pilotage.adapters.fastapi.event_socket import EventSocket
from pilotage.adapters.fastapi.guard import Guard, route_behind
from pilotage.adapters.fastapi.open_streams import OpenStreams
from pilotage.adapters.fastapi.reading import ReadingRoutes
from pilotage.adapters.fastapi.run_frames import EncodedEvents
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.adapters.fastapi.socket_guard import SocketGuard
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.runs import AgentRuns


def agent_routes(
    app: Application,
    *,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> APIRouter:
    """A router over `AgentRuns`: `api.include_router(agent_routes(app), prefix="/api")`.

    Who asks is said by `principal`, or by the application's `IPrincipalResolver`. Without one there are no routes:
    nobody is let in by default.

    Raises:
        AgentDefinitionError: nothing says who asks.
    """
    entrance = entrance_of(app, principal)
    if entrance is None:
        raise AgentDefinitionError(
            f"nothing says who may reach the runs of application {app.name!r} over HTTP. Give "
            "agent_routes(app, principal=BearerTokens({...})), or add a pod that implements IPrincipalResolver."
        )
    settings = settings or HttpSettings.from_environment()
    runs, streams, encoded = partial(app.get, AgentRuns), OpenStreams.of(app), EncodedEvents()
    router = APIRouter(tags=["runs"], route_class=route_behind(Guard(entrance, settings, owns_errors=True)))
    ReadingRoutes(runs, streams, settings, encoded).add_to(router)
    EventSocket(runs, SocketGuard(entrance, settings), streams, settings, encoded).add_to(router)
    ActingRoutes(runs).add_to(router)
    return router
