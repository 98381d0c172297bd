"""A whole server over an application: runs, controllers and extensions in one ASGI application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, TypeAlias

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.requests import HTTPConnection
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import Authentication, CrossOrigin, has_resolver, is_loopback
from pilotage.adapters.asgi.lifespan import pilotage_lifespan
from pilotage.adapters.asgi.problems import problem_response
from pilotage.adapters.fastapi.controller import Place, place_of, problems_of
from pilotage.adapters.fastapi.controller_routes import controller_routes
from pilotage.adapters.fastapi.description import TAGS, describe_other_routes, security_of
from pilotage.adapters.fastapi.health import add_health
from pilotage.adapters.fastapi.pages import add_pages
from pilotage.adapters.fastapi.routes import agent_routes
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import PilotageError, StartupError, start_error
from pilotage.inbound.authentication import OnePrincipal
from pilotage.runtime.delivery.watchdog import ProcessOfItsOwn
from pilotage.runtime.delivery.worker import configure_worker

_THE_ROUTES_OF_RUNS = "the routes of runs"


class BindingRefusedError(StartupError):
    """The server would be open to others without authentication; `host` is where it would listen."""

    message: ClassVar[str] = "The server would be open to others without authentication."
    code: ClassVar[str] = "binding_refused"

    def __init__(self, *args: object, host: str = "") -> None:
        super().__init__(*args)
        self.host = host


Extension: TypeAlias = Callable[[FastAPI], object]
"""Adds something of its own to a server: `lambda api: api.include_router(...)`."""


def asgi_application(
    app: Application,
    *,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
    extensions: Iterable[Extension] = (),
) -> FastAPI:
    """Return a FastAPI application with the routes of runs and of controllers, which starts and stops the application.

    Without a `principal`, and without an `IPrincipalResolver` among the pods, it serves programs on this machine
    only, all as the application's own principal.

    Raises:
        ApplicationStartError: with all errors in the controllers.
    """
    settings = settings or HttpSettings.from_environment()
    api = FastAPI(
        title=app.name,
        summary="Runs of agents: start, follow, answer, cancel.",
        lifespan=pilotage_lifespan(app, settings=settings),
        openapi_tags=[dict(each) for each in TAGS],
        docs_url=None,
        redoc_url=None,
    )
    add_pages(api)
    if has_resolver(app, principal):
        if not settings.public_docs:
            _authenticate_docs(api, Authentication.of(app, principal))
    else:
        api.add_middleware(LocalOnly)
        principal = OnePrincipal()
    api.add_middleware(CrossOrigin, allowed_origins=allowed_origins(app, settings), is_server=True)
    runs = agent_routes(app, principal=principal, settings=settings)
    if problems := list(problems_of(app.graph, _places_in(runs))):
        raise start_error(app.name, problems)
    api.include_router(runs)
    api.include_router(controller_routes(app, principal=principal, settings=settings))
    add_health(api, app)
    for extend in extensions:
        extend(api)
    describe_other_routes(api, security_of(app, principal))
    return api


def serve(
    app: Application,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
    extensions: Iterable[Extension] = (),
    worker: bool = True,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Serve the application until a signal stops it (SIGTERM, SIGINT); needs `pip install "pilotage[serve]"`.

    A worker beside the server takes up runs without an owner, such as those of a process that died; `worker=False`
    leaves them to other processes. `WorkerSettings` of the application count.

    It stops in good order: streams end with a frame that asks to reconnect, each run stops after its current action,
    and another process goes on from there. `announce` is called with the URL as soon as requests are served.

    Raises:
        BindingRefusedError: others would reach it, and there is no principal resolver.
        AddressNotFreeError: another program listens there; nothing was created.
        ApplicationStartError: with all errors in the application; nothing was created.
    """
    from pilotage.adapters.fastapi import server  # noqa: PLC0415 - needs an extra of its own

    refuse_open_binding(host, has_resolver=has_resolver(app, principal))
    app.bind(ProcessOfItsOwn, ProcessOfItsOwn())
    configure_worker(app, is_on=worker)
    if problems := app.problems():
        raise start_error(app.name, problems)
    settings = settings or HttpSettings.from_environment()
    api = asgi_application(app, principal=principal, settings=settings, extensions=extensions)
    sockets = server.listening(host, port)
    server.GracefulServer.over(app, api, host, port, settings, announce=announce).run(sockets)


def refuse_open_binding(host: str, *, has_resolver: bool) -> None:
    """Refuse to listen where others reach the server, unless a principal resolver authenticates them."""
    if not has_resolver and not is_loopback(host):
        raise BindingRefusedError(
            f"host {host!r} can be reached by others, and no principal resolver is configured. Give serve(app, "
            "principal=BearerTokens({...})), add a pod that implements IPrincipalResolver, or listen on 127.0.0.1.",
            host=host,
        )


def allowed_origins(app: Application, settings: HttpSettings) -> frozenset[str]:
    """Return the origins whose pages may use the server: those of HTTP and those of AG-UI count for all routes."""
    agui = app.graph.given(AgUiConfig)
    return frozenset(settings.allowed_origins) | frozenset(agui.allowed_origins if agui else ())


def _authenticate_docs(api: FastAPI, authentication: Authentication) -> None:
    """Let only principals see the pages that a new FastAPI application has: its description, in three forms."""
    for route in api.routes:
        if isinstance(route, Route):
            route.app = Authenticated(route.app, authentication)


def _places_in(runs: APIRouter) -> dict[Place, str]:
    """Return the places of the routes of runs: a controller at the same place would never be called."""
    found: dict[Place, str] = {}
    for route in runs.routes:
        if isinstance(route, APIRoute):
            found |= {place_of(method, route.path): _THE_ROUTES_OF_RUNS for method in route.methods or ()}
        elif isinstance(route, APIWebSocketRoute):
            found[place_of("", route.path)] = _THE_ROUTES_OF_RUNS
    return found


class Authenticated:
    """ASGI middleware that refuses requests without an authenticated principal."""

    def __init__(self, app: ASGIApp, authentication: Authentication) -> None:
        self._app = app
        self._authentication = authentication

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            await self._authentication.principal_of(HTTPConnection(scope))
        except PilotageError as error:
            if scope["type"] == "http":
                await problem_response(error)(scope, receive, send)
            else:
                await websockets.refuse(WebSocket(scope, receive, send), error)
        else:
            await self._app(scope, receive, send)


class LocalOnly(Authenticated):
    """ASGI middleware that refuses requests of other machines, and of pages of other sites."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, Authentication.of(None, None))
