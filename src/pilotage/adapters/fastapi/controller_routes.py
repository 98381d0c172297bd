"""`controller_routes`: the controllers of an application as a router for FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from inspect import Signature, iscoroutinefunction
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.params import Depends as DependsParam
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.websockets import WebSocket, WebSocketDisconnect

from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import (
    Authentication,
    has_resolver,
    principal_in,
    refuse_foreign_origin,
)
from pilotage.adapters.asgi.middleware import HttpMiddleware
from pilotage.adapters.asgi.problems import problem_response
from pilotage.adapters.asgi.streaming import COMPLETED, RECONNECT, StreamingResponse, Streams, stopped
from pilotage.adapters.fastapi import controller
from pilotage.adapters.fastapi.description import security_of, stream_responses
from pilotage.adapters.fastapi.frames import SSE_FORMAT, ItemFrames
from pilotage.adapters.fastapi.routing import route_class_with
from pilotage.adapters.http_settings import HttpSettings
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.container.application import Application
from pilotage.errors import PilotageError, start_error
from pilotage.inbound.problems import problem_of


def plain_endpoint(method: Callable[[], Any], function: Any, shape: Signature) -> Any:
    """Return an endpoint that responds with the result of the method; a blocking method runs in a thread."""
    is_async = iscoroutinefunction(function)

    async def endpoint(**given: Any) -> Any:
        return await method()(**given) if is_async else await run_in_threadpool(method(), **given)

    return controller.shown_as(endpoint, function, shape)


def stream_endpoint(method: Callable[[], Any], function: Any, shape: Signature, streams: Streams) -> Any:
    """Return an endpoint that responds with a stream of the method's items."""

    async def endpoint(**given: Any) -> Any:
        return streams.response(ItemFrames(method()(**given)), SSE_FORMAT)

    return controller.shown_as(endpoint, function, shape.replace(return_annotation=Signature.empty))


def socket_endpoint(
    method: Callable[[], Any],
    function: Any,
    shape: Signature,
    around: Callable[[WebSocket, Coroutine[Any, Any, None]], Awaitable[None]],
) -> Any:
    """Return an endpoint that hands the WebSocket to the method; `around` bounds it and closes it well."""
    name = str(controller.socket_parameter(shape))

    async def endpoint(**given: Any) -> None:
        await around(given[name], method()(**given))

    return controller.shown_as(endpoint, function, shape)


async def use_websocket(streams: Streams, websocket: WebSocket, work: Coroutine[Any, Any, None]) -> None:
    """Run a method with its WebSocket, which is a stream; an error of ours becomes the code of the close."""
    try:
        with streams.entered(principal_in(websocket.scope)) as shutdown:
            await _used(websocket, asyncio.ensure_future(work), shutdown)
    except PilotageError as error:
        work.close()
        await websockets.refuse(websocket, error)
    except WebSocketDisconnect:
        pass


async def _used(websocket: WebSocket, work: asyncio.Future[None], shutdown: asyncio.Future[None]) -> None:
    try:
        await asyncio.wait([work, shutdown], return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_stopped = not work.done()
        await stopped([work])
    if not is_stopped:
        work.result()
    # A method that returns has sent everything; the close reports that to its client.
    if websockets.is_open(websocket):
        end = RECONNECT if is_stopped else COMPLETED
        await websocket.close(end.code, end.reason)


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
    if problems := list(controller.problems_of(app.graph)):
        raise start_error(app.name, problems)
    bounds = settings or HttpSettings.from_environment()
    authentication = Authentication.of(app, principal, bounds.allowed_origins)
    routers = _ControllerRouters(
        app,
        authentication if has_resolver(app, principal) else None,
        bounds,
        security_of(app, principal),
    )
    router = APIRouter()
    for pod in controller.controllers_in(app.graph):
        router.include_router(routers.router_of(pod))
    return router


class _ControllerRouters:
    """Makes routers of controllers."""

    def __init__(
        self,
        app: Application,
        authentication: Authentication | None,
        settings: HttpSettings,
        security: Sequence[DependsParam],
    ) -> None:
        self._app = app
        self._security = security
        self._authentication = authentication
        self._settings = settings
        self._streams = Streams(app, settings)

    def router_of(self, pod: controller.ControllerDefinition) -> APIRouter:
        """Return the routes of one controller, with authentication unless it is public."""
        authentication = None if pod.public else self._authentication
        middleware = HttpMiddleware(authentication, self._settings)
        router = APIRouter(
            tags=list(pod.tags or (pod.target.__name__,)), route_class=route_class_with(middleware)
        )

        async def authenticate(websocket: WebSocket) -> None:
            try:
                if authentication is not None:
                    await authentication.principal_of(websocket)
                else:
                    refuse_foreign_origin(websocket, self._settings.allowed_origins)
            except PilotageError as error:
                problem = problem_of(error)
                headers = dict(problem_response(problem).headers)
                del headers["content-length"], headers["content-type"]
                raise HTTPException(problem.status, problem.detail, headers) from error

        for route in controller.routes_of(pod):
            self._add(route, router, authenticate)
        return router

    def _add(self, route: controller.ControllerRoute, router: APIRouter, authenticate: Any) -> None:
        method = partial(self._method, route)
        function, shape, mark = route.function, controller.seen_signature(route.function), route.mark
        own: Sequence[DependsParam] = mark.options.get("dependencies", ())
        secured: dict[str, Any] = {"dependencies": [*own, *(() if route.pod.public else self._security)]}
        match mark.kind:
            case controller.RouteKind.PLAIN:
                endpoint = plain_endpoint(method, function, shape)
                router.add_api_route(
                    route.path, endpoint, methods=[mark.method], **{**mark.options, **secured}
                )
            case controller.RouteKind.SSE:
                endpoint = stream_endpoint(method, function, shape, self._streams)
                described: dict[str, Any] = {
                    "status_code": 200,
                    "response_model": None,
                    "response_class": StreamingResponse,
                    "responses": stream_responses(401, 429, 503),
                    **mark.options,
                    **secured,
                }
                router.add_api_route(route.path, endpoint, methods=[mark.method], **described)
            case controller.RouteKind.WEBSOCKET:
                endpoint = socket_endpoint(method, function, shape, partial(use_websocket, self._streams))
                router.add_api_websocket_route(route.path, endpoint, dependencies=[Depends(authenticate)])

    def _method(self, route: controller.ControllerRoute) -> Any:
        """Return the method of the pod for this request: a prototype is created anew."""
        return getattr(self._app.get(route.pod.target, route.pod.name), route.name)
