"""An application inside a FastAPI application: they start and stop together, and endpoints get its pods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from pilotage.container.application import Application

try:
    from fastapi import FastAPI
except ImportError as error:
    raise ImportError('this adapter needs an extra: pip install "pilotage[fastapi]"') from error

T = TypeVar("T")


def container_lifespan(app: Application) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """A lifespan in which the application is started: `FastAPI(lifespan=container_lifespan(app))`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with app:
            yield

    return lifespan


def provide(
    app: Application, type_: Callable[..., T], name: str | None = None
) -> Callable[[], Coroutine[Any, Any, T]]:
    """A dependency that gives a pod to an endpoint: `clerk: Annotated[Clerk, Depends(provide(app, Clerk))]`."""

    async def pod() -> T:
        return app.get(type_, name)

    return pod
