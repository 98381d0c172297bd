"""What `execute()` promises, read from its signature."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator

import pytest

from pilotage.agent.execution import ExecuteContract, ExecuteShape, read_execute
from pilotage.agent.yields import AgentYield, Final


class AsyncStream:
    async def execute(self, name: str, *, count: int = 1) -> AsyncGenerator[AgentYield[str], None]:
        yield Final(name * count)


class SyncStream:
    def execute(self) -> Generator[AgentYield[int], None, None]:
        yield Final(1)


class AsyncIteration:
    async def execute(self) -> AsyncIterator[AgentYield[int]]:
        yield Final(1)


class SyncIteration:
    def execute(self) -> Iterator[AgentYield[int]]:
        yield Final(1)


class BareYield:
    async def execute(self) -> AsyncGenerator[AgentYield, None]:  # type: ignore[type-arg]
        yield Final(1)


class Coroutine:
    async def execute(self, numbers: list[int]) -> int:
        return sum(numbers)


class Function:
    def execute(self) -> None:
        return None


class Delegating:
    """Gives back a stream that somebody else makes."""

    def execute(self, name: str) -> AsyncGenerator[AgentYield[str], None]:
        return AsyncStream().execute(name)


class Inheriting(Coroutine):
    """Has its entry point from its base."""


@pytest.mark.parametrize(
    ("owner", "contract"),
    [
        (AsyncStream, ExecuteContract(ExecuteShape.ASYNC_GENERATOR, {"name": str, "count": int}, str)),
        (SyncStream, ExecuteContract(ExecuteShape.GENERATOR, {}, int)),
        (AsyncIteration, ExecuteContract(ExecuteShape.ASYNC_GENERATOR, {}, int)),
        (SyncIteration, ExecuteContract(ExecuteShape.GENERATOR, {}, int)),
        (BareYield, ExecuteContract(ExecuteShape.ASYNC_GENERATOR, {}, object)),
        (Coroutine, ExecuteContract(ExecuteShape.COROUTINE, {"numbers": list[int]}, int)),
        (Function, ExecuteContract(ExecuteShape.FUNCTION, {}, type(None))),
        (Delegating, ExecuteContract(ExecuteShape.ASYNC_GENERATOR, {"name": str}, str)),
        (Inheriting, ExecuteContract(ExecuteShape.COROUTINE, {"numbers": list[int]}, int)),
        (object, None),
    ],
)
def test_the_signature_is_the_contract(owner: type, contract: ExecuteContract | None) -> None:
    assert read_execute(owner) == contract
