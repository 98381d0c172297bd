"""`ModelStream`: a model call as its reader holds it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Protocol
from weakref import ref

from pilotage.agent.model_reply import ModelStreamEvent


class IReadCall(Protocol):
    """A call as far as its reader is concerned."""

    reader: ref[ModelStream] | None
    """Who reads; None once the stream is closed."""
    is_open: bool
    """Whether the model's own stream is being read."""
    read_ahead: deque[ModelStreamEvent] | None
    """What was read of it before the reader asked, where anything was."""

    def read(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        """The next event of the model's own stream."""
        ...

    def read_aside(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        """The next event in all other cases."""
        ...

    def left_by_its_reader(self, reader: object, /) -> None:
        """The reader has let go of the stream without closing it."""
        ...

    def close(self) -> Coroutine[Any, Any, None]:
        """Leave the stream."""
        ...


class ModelStream(AsyncGenerator[ModelStreamEvent, None]):
    """A model call as its reader holds it. Who lets go of it has left the stream."""

    __slots__ = ("__weakref__", "_call")

    def __init__(self, call: IReadCall) -> None:
        self._call = call
        call.reader = ref(self, call.left_by_its_reader)

    def __anext__(self) -> Coroutine[Any, Any, ModelStreamEvent]:
        call = self._call
        return call.read() if call.is_open and not call.read_ahead else call.read_aside()

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Leave the stream, if it has not ended."""
        return self._call.close()

    async def asend(self, value: None, /) -> ModelStreamEvent:
        return await self.__anext__()

    async def athrow(self, error: Any, /, *_: object) -> ModelStreamEvent:
        """Leave the stream with an error."""
        await self._call.close()
        raise error
