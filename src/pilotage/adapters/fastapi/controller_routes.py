"""`controller_routes`: the controllers of an application as a router for FastAPI."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Depends
from starlette.exceptions import HTTPException
from starlette.websockets import WebSocket

from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import Authentication, has_resolver
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.problems import problem_of, problem_response
from pilotage.adapters.asgi.streaming import clock_of
from pilotage.adapters.asgi.streaming_response import StreamingResponse
from pilotage.adapters.fastapi.controller import ControllerRoute, controllers_in, problems_of, routes_of
from pilotage.adapters.fastapi.controller_definition import ControllerDefinition, RouteKind
from pilotage.adapters.fastapi.controller_endpoints import (
    ControllerSockets,
    ItemFrames,
    plain_endpoint,
    seen_signature,
    socket_endpoint,
    stream_endpoint,
)
from pilotage.adapters.fastapi.frames import SSE_FORMAT
from pilotage.adapters.fastapi.responses import stream_responses
from pilotage.adapters.fastapi.route_class import route_class_with
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import PilotageError, start_error


def controller_routes(
    app: Application,
    *,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> APIRouter:
    """Return a router over the `@ApiController` pods: `api.include_router(controller_routes(app), prefix="/api")`.

    Call it when the application is put together. With a `principal`, or an `IPrincipalResolver` among the pods,
    requests need authentication, except those to controllers that are `public`.

    Raises:
        ApplicationStartError: with all errors in the controllers.
    """
    if problems := list(problems_of(app.graph)):
        raise start_error(app.name, problems)
    bounds = settings or HttpSettings.from_environment()
    authentication = Authentication.of(app, principal, bounds.allowed_origins)
    routers = _ControllerRouters(app, authentication if has_resolver(app, principal) else None, bounds)
    router = APIRouter()
    for pod in controllers_in(app.graph):
        router.include_router(routers.router_of(pod))
    return router


class _ControllerRouters:
    """Makes routers of controllers."""

    def __init__(
        self, app: Application, authentication: Authentication | None, settings: HttpSettings
    ) -> None:
        self._app = app
        self._authentication = authentication
        self._settings = settings
        self._streams = OpenStreams.of(app)
        self._sockets = ControllerSockets(self._streams, settings)

    def router_of(self, pod: ControllerDefinition) -> APIRouter:
        """Return the routes of one controller, with authentication unless it is public."""
        authentication = None if pod.public else self._authentication
        middleware = HttpMiddleware(authentication, self._settings)
        router = APIRouter(
            tags=list(pod.tags or (pod.target.__name__,)), route_class=route_class_with(middleware)
        )

        async def authenticate(websocket: WebSocket) -> None:
            try:
                await websockets.authenticate(websocket, authentication, self._settings)
            except PilotageError as error:
                problem = problem_of(error)
                headers = dict(problem_response(problem).headers)
                del headers["content-length"], headers["content-type"]
                raise HTTPException(problem.status, problem.detail, headers) from error

        for route in routes_of(pod):
            self._add(route, router, authenticate)
        return router

    def _add(self, route: ControllerRoute, router: APIRouter, authenticate: Any) -> None:
        method = partial(self._method, route)
        function, shape, mark = route.function, seen_signature(route.function), route.mark
        match mark.kind:
            case RouteKind.PLAIN:
                endpoint = plain_endpoint(method, function, shape)
                router.add_api_route(route.path, endpoint, methods=[mark.method], **mark.options)
            case RouteKind.SSE:
                endpoint = stream_endpoint(method, function, shape, self._stream)
                described: dict[str, Any] = {
                    "status_code": 200,
                    "response_model": None,
                    "response_class": StreamingResponse,
                    "responses": stream_responses(401, 429, 503),
                    **mark.options,
                }
                router.add_api_route(route.path, endpoint, methods=[mark.method], **described)
            case RouteKind.WEBSOCKET:
                endpoint = socket_endpoint(method, function, shape, self._sockets.use)
                router.add_api_websocket_route(route.path, endpoint, dependencies=[Depends(authenticate)])

    def _method(self, route: ControllerRoute) -> Any:
        """Return the method of the pod for this request: a prototype is created anew."""
        return getattr(self._app.get(route.pod.target, route.pod.name), route.name)

    def _stream(self, frames: ItemFrames) -> StreamingResponse:
        clock = clock_of(self._app)
        return StreamingResponse(
            frames, SSE_FORMAT, streams=self._streams, settings=self._settings, clock=clock
        )
