"""How a tool call finds the run it is made in: one context variable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class IToolCalls(Protocol):
    """Takes over the tool calls made inside a run.

    `call` is asked at the moment the call is made, before anything is awaited, so it may number calls in
    the order of the program. For an async tool it returns an awaitable. It must reach the tool through
    `original_function(tool)`; calling `tool` itself would come back here.
    """

    def call(
        self, tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Perform the call; `args` starts with the instance when the tool is a method."""
        ...

    def invoke(
        self, tool: Callable[..., object], arguments: Mapping[str, object], call_id: str | None = None
    ) -> Awaitable[object]:
        """Perform a call that a model asked for by this id: the result is what the model may see of it."""
        ...


active_tool_calls: ContextVar[IToolCalls | None] = ContextVar("pilotage_active_tool_calls", default=None)


@contextmanager
def tool_calls_go_to(calls: IToolCalls) -> Generator[None]:
    """Hand every tool call made in this context to `calls`."""
    token = active_tool_calls.set(calls)
    try:
        yield
    finally:
        active_tool_calls.reset(token)
