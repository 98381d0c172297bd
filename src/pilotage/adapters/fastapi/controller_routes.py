"""`controller_routes`: the controllers of an application as a router for FastAPI."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Depends

from pilotage.adapters.fastapi.answers import stream_responses
from pilotage.adapters.fastapi.controller_check import (
    ControllerRoute,
    controllers_in,
    problems_of,
    routes_of,
)
from pilotage.adapters.fastapi.controller_definition import ControllerDefinition
from pilotage.adapters.fastapi.controller_methods import (
    plain_endpoint,
    seen_signature,
    socket_endpoint,
    stream_endpoint,
)
from pilotage.adapters.fastapi.controller_sockets import ControllerSockets
from pilotage.adapters.fastapi.entrance import Entrance, entrance_of
from pilotage.adapters.fastapi.event_stream import EventStream
from pilotage.adapters.fastapi.guard import Guard, route_behind
from pilotage.adapters.fastapi.open_streams import OpenStreams
from pilotage.adapters.fastapi.route_marks import RouteKind
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.adapters.fastapi.socket_guard import SocketGuard
from pilotage.adapters.fastapi.telling import Frames
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import start_error
from pilotage.ids import IClock, SystemClock


def controller_routes(
    app: Application,
    *,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> APIRouter:
    """A router over the `@ApiController` pods: `api.include_router(controller_routes(app), prefix="/api")`.

    Call it when the application is put together. With a `principal`, or an `IPrincipalResolver` among the pods,
    only those are let in whom it knows, except to controllers that are `public`.

    Raises:
        ApplicationStartError: with everything that is wrong with the controllers.
    """
    if problems := list(problems_of(app.graph)):
        raise start_error(app.name, problems)
    maker = _Maker(app, entrance_of(app, principal), settings or HttpSettings.from_environment())
    router = APIRouter()
    for pod in controllers_in(app.graph):
        router.include_router(maker.router_of(pod))
    return router


class _Maker:
    """Makes routers of controllers."""

    def __init__(self, app: Application, entrance: Entrance | None, settings: HttpSettings) -> None:
        self._app = app
        self._entrance = entrance
        self._settings = settings
        self._streams = OpenStreams.of(app)
        self._sockets = ControllerSockets(self._streams, settings)

    def router_of(self, pod: ControllerDefinition) -> APIRouter:
        """The routes of one controller, behind the guard or open to everybody."""
        entrance = None if pod.public else self._entrance
        guard = Guard(entrance, self._settings)
        router = APIRouter(tags=list(pod.tags or (pod.target.__name__,)), route_class=route_behind(guard))
        admit = SocketGuard(entrance, self._settings).depend
        for route in routes_of(pod):
            self._add(route, router, admit)
        return router

    def _add(self, route: ControllerRoute, router: APIRouter, admit: Any) -> None:
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
                    "response_class": EventStream,
                    "responses": stream_responses(401, 429, 503),
                    **mark.options,
                }
                router.add_api_route(route.path, endpoint, methods=[mark.method], **described)
            case RouteKind.WEBSOCKET:
                endpoint = socket_endpoint(method, function, shape, self._sockets.use)
                router.add_api_websocket_route(route.path, endpoint, dependencies=[Depends(admit)])

    def _method(self, route: ControllerRoute) -> Any:
        """The method of the pod as it is for this request: a prototype is made anew."""
        return getattr(self._app.get(route.pod.target, route.pod.name), route.name)

    def _stream(self, told: Frames) -> EventStream:
        return EventStream(told, self._streams, self._settings, self._clock)

    @property
    def _clock(self) -> IClock:
        return self._app.get_or_none(IClock) or SystemClock()
