"""`ModelStream`: a model call as its reader holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Protocol

from pilotage.agent.model_reply import ModelStreamEvent


class IReadCall(Protocol):
    """A call as far as its reader is concerned."""

    def next(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        """The next event."""
        ...

    async def close(self) -> None:
        """Leave the stream."""
        ...


class ModelStream(AsyncGenerator[ModelStreamEvent, None]):
    """A model call as its reader holds it. Who lets go of it has left the stream."""

    __slots__ = ("__weakref__", "_call")

    def __init__(self, call: IReadCall) -> None:
        self._call = call

    def __anext__(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        return self._call.next()

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Leave the stream, if it has not ended."""
        return self._call.close()

    async def asend(self, value: None, /) -> ModelStreamEvent:
        return await self._call.next()

    async def athrow(self, error: Any, /, *_: object) -> ModelStreamEvent:
        """Leave the stream with an error."""
        await self._call.close()
        raise error
