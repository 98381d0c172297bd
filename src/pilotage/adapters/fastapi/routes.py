"""`agent_routes`: the runs of an application as routes for FastAPI."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from pilotage.adapters.asgi.authentication import Authentication, has_resolver
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.fastapi.route_class import route_class_with
from pilotage.adapters.fastapi.run_commands import RunCommands
from pilotage.adapters.fastapi.run_events import EncodedEvents, EventSocket
from pilotage.adapters.fastapi.run_queries import RunQueries
from pilotage.adapters.http_settings import HttpSettings
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
    """Return a router over `AgentRuns`: `api.include_router(agent_routes(app), prefix="/api")`.

    The principal of a request is resolved by `principal`, or by the application's `IPrincipalResolver`. Without one
    there are no routes: no request is accepted by default.

    Raises:
        AgentDefinitionError: there is no principal resolver.
    """
    if not has_resolver(app, principal):
        raise AgentDefinitionError(
            f"nothing says who may reach the runs of application {app.name!r} over HTTP. Give "
            "agent_routes(app, principal=BearerTokens({...})), or add a pod that implements IPrincipalResolver."
        )
    settings = settings or HttpSettings.from_environment()
    authentication = Authentication.of(app, principal, settings.allowed_origins)
    middleware = HttpMiddleware(authentication, settings, owns_errors=True)
    router = APIRouter(tags=["runs"], route_class=route_class_with(middleware))
    runs, streams, encoded = partial(app.get, AgentRuns), OpenStreams.of(app), EncodedEvents()
    RunQueries(runs, streams, settings, encoded).add_to(router)
    EventSocket(runs, authentication, streams, settings, encoded).add_to(router)
    RunCommands(runs).add_to(router)
    return router
