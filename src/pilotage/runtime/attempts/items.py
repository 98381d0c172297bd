"""Reading what `execute()` gives, whatever its shape: items one by one, the answer last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from inspect import isawaitable
from typing import Any, cast

from pilotage.agent.yields import AgentYield, Final


async def items_of(given: Any) -> AsyncGenerator[AgentYield[Any], None]:
    """The items of a stream; a plain answer is its own `Final`. A stream that is left is closed."""
    if isawaitable(given):
        given = await given
    if isinstance(given, AsyncIterable):
        stream = cast("AsyncIterable[AgentYield[Any]]", given)
        try:
            async for item in stream:
                yield item
        finally:
            if isinstance(stream, AsyncGenerator):
                await cast("AsyncGenerator[AgentYield[Any], None]", stream).aclose()
    elif isinstance(given, Generator):
        for item in cast("Iterable[AgentYield[Any]]", given):
            yield item
    else:
        yield Final(given)
