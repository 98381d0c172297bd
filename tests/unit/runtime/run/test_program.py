"""Whatever `execute()` gives is read as a stream of items with the answer last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator

import pytest

from pilotage import AgentYield, Final, Progress, Token
from pilotage.runtime.run.program import items_of

STREAM = [Token("a"), Progress("b"), Final("c")]


async def async_generator() -> AsyncGenerator[AgentYield[str], None]:
    for item in STREAM:
        yield item


def generator() -> Generator[AgentYield[str], None, None]:
    yield from STREAM


async def coroutine() -> str:
    return "c"


async def coroutine_of_a_stream() -> AsyncGenerator[AgentYield[str], None]:
    return async_generator()


class Iterator:
    """An async iterator that is no generator."""

    def __init__(self) -> None:
        self._items = iter(STREAM)

    def __aiter__(self) -> AsyncIterator[AgentYield[str]]:
        return self

    async def __anext__(self) -> AgentYield[str]:
        item = next(self._items, None)
        if item is None:
            raise StopAsyncIteration
        return item


@pytest.mark.parametrize("shape", ["async generator", "generator", "coroutine of a stream", "iterator"])
async def test_a_stream_is_read_item_by_item(shape: str) -> None:
    given = {
        "async generator": async_generator,
        "generator": generator,
        "coroutine of a stream": coroutine_of_a_stream,
        "iterator": Iterator,
    }[shape]()
    assert [item async for item in items_of(given)] == STREAM


@pytest.mark.parametrize("given", ["c", None, ["c"], {"c": 1}], ids=str)
async def test_a_plain_answer_is_its_own_final(given: object) -> None:
    assert [item async for item in items_of(given)] == [Final(given)]


async def test_the_answer_of_a_coroutine_is_its_own_final() -> None:
    assert [item async for item in items_of(coroutine())] == [Final("c")]


async def test_a_stream_that_is_left_is_closed() -> None:
    closed: list[str] = []

    async def watched() -> AsyncGenerator[AgentYield[str], None]:
        try:
            yield Token("a")
            yield Token("b")
        finally:
            closed.append("closed")

    items = items_of(watched())
    assert await anext(items) == Token("a")
    await items.aclose()
    assert closed == ["closed"]


async def test_an_exception_of_the_stream_reaches_the_reader() -> None:
    async def broken() -> AsyncGenerator[AgentYield[str], None]:
        yield Token("a")
        raise ValueError("no")

    items = items_of(broken())
    assert await anext(items) == Token("a")
    with pytest.raises(ValueError, match="no"):
        await anext(items)
