"""Methods of controllers as endpoints: FastAPI sees their parameters, the pod is looked up with every request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from inspect import Parameter, Signature, iscoroutinefunction, signature
from types import NoneType
from typing import Any, get_type_hints

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from pilotage.adapters.asgi import websockets
from pilotage.adapters.asgi.authentication import principal_in
from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.asgi.streaming import COMPLETED, RECONNECT, stopped
from pilotage.adapters.fastapi.frames import Frame, item_frame
from pilotage.adapters.http_settings import HttpSettings
from pilotage.errors import PilotageError


class ItemFrames(AsyncIterator[Sequence[Frame]]):
    """The items of a method that is an async generator, as frames."""

    def __init__(self, items: AsyncGenerator[object, None]) -> None:
        self._items = items

    async def __anext__(self) -> Sequence[Frame]:
        return (item_frame(await anext(self._items)),)

    async def aclose(self) -> None:
        await self._items.aclose()


def seen_signature(function: Callable[..., Any]) -> Signature:
    """The signature of a method without `self`, its types resolved where the method is written.

    Raises:
        NameError: a type cannot be resolved.
    """
    hints = get_type_hints(function, include_extras=True)
    _, *rest = signature(function).parameters.values()
    parameters = [each.replace(annotation=hints.get(each.name, each.annotation)) for each in rest]
    returned = hints.get("return", Signature.empty)
    # Resolving makes a type of None, which FastAPI would take for a body.
    return Signature(parameters, return_annotation=None if returned is NoneType else returned)


def socket_parameter(shape: Signature) -> str | None:
    """Which parameter of a method is the WebSocket."""
    return next((name for name, each in shape.parameters.items() if each.annotation is WebSocket), None)


def shown_as(endpoint: Any, function: Any, shape: Signature) -> Any:
    """Give an endpoint the name, documentation and signature of its method, and return it."""
    endpoint.__name__, endpoint.__doc__ = function.__name__, function.__doc__
    endpoint.__qualname__, endpoint.__module__ = function.__qualname__, function.__module__
    endpoint.__signature__ = shape
    return endpoint


def plain_endpoint(method: Callable[[], Any], function: Any, shape: Signature) -> Any:
    """An endpoint that answers with what the method returns; a method that blocks runs in a thread."""
    is_async = iscoroutinefunction(function)

    async def endpoint(**given: Any) -> Any:
        return await method()(**given) if is_async else await run_in_threadpool(method(), **given)

    return shown_as(endpoint, function, shape)


def stream_endpoint(
    method: Callable[[], Any], function: Any, shape: Signature, respond: Callable[[ItemFrames], object]
) -> Any:
    """An endpoint that answers with a stream of what the method yields."""

    async def endpoint(**given: Any) -> Any:
        return respond(ItemFrames(method()(**given)))

    return shown_as(endpoint, function, shape.replace(return_annotation=Signature.empty))


def socket_endpoint(
    method: Callable[[], Any],
    function: Any,
    shape: Signature,
    around: Callable[[WebSocket, Coroutine[Any, Any, None]], Awaitable[None]],
) -> Any:
    """An endpoint that hands the WebSocket to the method; `around` bounds it and closes it well."""
    name = str(socket_parameter(shape))

    async def endpoint(**given: Any) -> None:
        await around(given[name], method()(**given))

    return shown_as(endpoint, function, shape)


def has_variable_parameters(shape: Signature) -> bool:
    """Return whether a method takes `*args` or `**kwargs`, which no request can fill."""
    return any(
        each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for each in shape.parameters.values()
    )


class ControllerSockets:
    """Bounds the WebSockets of methods: they count as streams, and end when the server stops."""

    def __init__(self, streams: OpenStreams, settings: HttpSettings) -> None:
        self._streams = streams
        self._settings = settings

    async def use(self, websocket: WebSocket, work: Coroutine[Any, Any, None]) -> None:
        """Run a method with its WebSocket; an error of ours becomes the code of the close."""
        try:
            with self._streams.entered(principal_in(websocket.scope), self._settings) as shutdown:
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
    # A method that returns has sent everything; its client learns it by the close.
    if websockets.is_open(websocket):
        end = RECONNECT if is_stopped else COMPLETED
        await websocket.close(end.code, end.reason)
