"""What is certain about constructors and factories at decoration."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import pytest

from pilotage.container.signature import Making, making_of, read_parameters, where


class Port(Protocol):
    def use(self) -> None: ...


class Plain: ...


class FromProtocol(Port): ...


class Base:
    def __init__(self, first: int, *, second: str = "") -> None: ...


class Derived(Base): ...


@dataclass
class Record:
    first: int
    second: str = ""


class Row(NamedTuple):
    first: int
    second: str


class Built:
    def __new__(cls, first: int) -> Self:
        return super().__new__(cls)


def call() -> int: ...
async def awaited() -> int: ...
def yielding() -> Iterator[int]:
    yield 1


async def async_yielding() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (Plain, []),
        (FromProtocol, []),
        (OSError, []),
        (Base, ["first", "second"]),
        (Derived, ["first", "second"]),
        (Record, ["first", "second"]),
        (Row, ["first", "second"]),
        (Built, ["first"]),
        (call, []),
    ],
)
def test_the_parameters_are_those_of_the_constructor_that_runs(target: object, names: list[str]) -> None:
    assert [parameter.name for parameter in read_parameters(target)] == names


@pytest.mark.parametrize(
    ("target", "name"),
    [(Derived, "Derived.__init__"), (Built, "Built.__new__"), (Plain, "Plain"), (call, "call")],
)
def test_messages_name_the_signature(target: object, name: str) -> None:
    assert where(target) == name


@pytest.mark.parametrize(
    ("target", "making", "is_async", "has_cleanup"),
    [
        (Plain, Making.CALL, False, False),
        (call, Making.CALL, False, False),
        (awaited, Making.AWAIT, True, False),
        (yielding, Making.YIELD, False, True),
        (async_yielding, Making.ASYNC_YIELD, True, True),
    ],
)
def test_the_way_of_making_is_read_from_the_kind_of_function(
    target: object, making: Making, is_async: bool, has_cleanup: bool
) -> None:
    assert making_of(target) is making
    assert (making.is_async, making.has_cleanup) == (is_async, has_cleanup)
