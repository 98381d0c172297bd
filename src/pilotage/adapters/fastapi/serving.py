"""A whole server over an application: runs, controllers and whatever else, in one ASGI application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from pilotage.adapters.fastapi.answers import problem_answer
from pilotage.adapters.fastapi.binding import is_from_here, refuse_open_binding
from pilotage.adapters.fastapi.controller_check import Place, place_of, problems_of
from pilotage.adapters.fastapi.controller_routes import controller_routes
from pilotage.adapters.fastapi.lifespan import pilotage_lifespan
from pilotage.adapters.fastapi.principals import OnePrincipal
from pilotage.adapters.fastapi.problems import problem_of_status
from pilotage.adapters.fastapi.routes import agent_routes
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import start_error

_THE_ROUTES_OF_RUNS = "the routes of runs"

Extension: TypeAlias = Callable[[FastAPI], object]
"""Adds something of its own to a server: `lambda api: api.include_router(...)`."""


def asgi_application(
    app: Application,
    *,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
    extensions: Iterable[Extension] = (),
) -> FastAPI:
    """The routes of runs and of controllers in a FastAPI application that starts and stops the application.

    Without a `principal`, and without an `IPrincipalResolver` among the pods, it answers programs on this machine
    only, and takes all of them for the application itself.

    Raises:
        ApplicationStartError: with everything that is wrong with the controllers.
    """
    settings = settings or HttpSettings.from_environment()
    api = FastAPI(title=app.name, lifespan=pilotage_lifespan(app, settings=settings))
    if not knows_who_asks(app, principal):
        api.add_middleware(LocalOnly)
        principal = OnePrincipal()
    runs = agent_routes(app, principal=principal, settings=settings)
    if problems := list(problems_of(app.graph, _places_in(runs))):
        raise start_error(app.name, problems)
    api.include_router(runs)
    api.include_router(controller_routes(app, principal=principal, settings=settings))
    for extend in extensions:
        extend(api)
    return api


def serve(
    app: Application,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
    extensions: Iterable[Extension] = (),
) -> None:
    """Serve the application until it is told to stop (SIGTERM, SIGINT); needs `pip install "pilotage[serve]"`.

    It stops in good order: streams end with a frame that says so, each run stops behind its current action, and
    whoever takes it up goes on from there.

    Raises:
        BindingRefusedError: others would reach it, and nothing says who they are.
        ApplicationStartError: with everything that is wrong with the application; nothing was made.
    """
    from pilotage.adapters.fastapi.server import GracefulServer  # noqa: PLC0415 - needs an extra of its own

    refuse_open_binding(host, knows_who_asks=knows_who_asks(app, principal))
    if problems := app.problems():
        raise start_error(app.name, problems)
    settings = settings or HttpSettings.from_environment()
    api = asgi_application(app, principal=principal, settings=settings, extensions=extensions)
    GracefulServer.over(app, api, host, port, settings).run()


def knows_who_asks(app: Application, principal: IPrincipalResolver | None) -> bool:
    """Whether something says who is behind a request."""
    return principal is not None or app.contains(IPrincipalResolver)


def _places_in(runs: APIRouter) -> dict[Place, str]:
    """Where the routes of runs answer: a controller at the same place would never be asked."""
    found: dict[Place, str] = {}
    for route in runs.routes:
        if isinstance(route, APIRoute):
            found |= {place_of(method, route.path): _THE_ROUTES_OF_RUNS for method in route.methods or ()}
        elif isinstance(route, APIWebSocketRoute):
            found[place_of("", route.path)] = _THE_ROUTES_OF_RUNS
    return found


class LocalOnly:
    """Turns away whoever is not on this machine, and pages of other sites, wherever the server listens."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not _is_from_here(scope):
            answer = problem_answer(
                problem_of_status(403, "This server answers programs on its own machine only.")
            )
            await (answer if scope["type"] == "http" else WebSocketClose(1008))(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_from_here(scope: Scope) -> bool:
    headers, client = Headers(scope=scope), scope.get("client")
    return is_from_here(client[0] if client else None, headers.get("host"), headers.get("origin"))
