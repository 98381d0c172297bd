"""`agent_routes`: the runs of an application as routes for FastAPI."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from pilotage.adapters.fastapi.acting import ActingRoutes
from pilotage.adapters.fastapi.guard import Guard, route_behind
from pilotage.adapters.fastapi.reading import ReadingRoutes
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.runs import AgentRuns


def agent_routes(
    app: Application,
    *,
    principals: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> APIRouter:
    """A router over `AgentRuns`: `api.include_router(agent_routes(app), prefix="/api")`.

    Who asks is said by `principals`, or by the application's `IPrincipalResolver`. Without one there are no routes:
    nobody is let in by default.

    Raises:
        AgentDefinitionError: nothing says who asks.
    """
    if principals is None and not app.contains(IPrincipalResolver):
        raise AgentDefinitionError(
            f"nothing says who may reach the runs of application {app.name!r} over HTTP. Give "
            "agent_routes(app, principals=BearerTokens({...})), or add a pod that implements IPrincipalResolver."
        )
    settings = settings or HttpSettings.from_environment()
    resolver = partial(app.get, IPrincipalResolver) if principals is None else lambda: principals
    runs = partial(app.get, AgentRuns)
    router = APIRouter(tags=["runs"], route_class=route_behind(Guard(resolver, settings)))
    ReadingRoutes(runs, settings).add_to(router)
    ActingRoutes(runs).add_to(router)
    return router
