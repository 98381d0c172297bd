"""`pilotage_lifespan`: starts and stops an application with the FastAPI or Starlette application it is in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from pilotage.adapters.http_settings import HttpSettings
from pilotage.container.application import Application
from pilotage.errors import ApplicationStateError
from pilotage.inbound.limits import OpenStreams
from pilotage.runtime.runs import AgentRuns

_PLACE = "pilotage_application"


def pilotage_lifespan(
    app: Application, *, settings: HttpSettings | None = None
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return a lifespan in which the application is started: `FastAPI(lifespan=pilotage_lifespan(app))`.

    At the end the clients of streams are asked to reconnect, and each run stops after its current action, or after
    `shutdown_seconds` where it is; another process goes on from there. An application that was started before is not
    stopped.
    """
    bounds = settings or HttpSettings.from_environment()

    @asynccontextmanager
    async def lifespan(api: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            if not app.is_started:
                await stack.enter_async_context(app)
                stack.push_async_callback(_hand_over, app, bounds.shutdown_seconds)
            setattr(api.state, _PLACE, app)
            streams = OpenStreams.of(app)
            streams.open()
            stack.callback(streams.close)
            yield

    return lifespan


async def _hand_over(app: Application, seconds: float) -> None:
    runs = app.get_or_none(AgentRuns)
    if runs is not None:
        await runs.hand_over(seconds)


def application_of(connection: HTTPConnection) -> Application:
    """Return the application of the lifespan of the web application that serves a connection.

    Raises:
        ApplicationStateError: there is none.
    """
    found: object = getattr(connection.app.state, _PLACE, None)
    if not isinstance(found, Application):
        raise ApplicationStateError(
            "this FastAPI application holds no started Pilotage application. "
            "Make it with FastAPI(lifespan=pilotage_lifespan(app))."
        )
    return found
