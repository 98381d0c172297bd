"""A recorded result comes back as a value of the type the function promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest

from pilotage import agent_tool
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.effect import decoder_of


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Order:
    number: int
    amount: Decimal
    lines: tuple[str, ...] = ()


def text() -> str:
    return "ü"


def nothing() -> None:
    return None


def amount() -> Decimal:
    return Decimal("12.50")


def moment() -> datetime:
    return datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))


def day() -> date:
    return date(2030, 1, 2)


def key() -> UUID:
    return UUID(int=7)


def colour() -> Colour:
    return Colour.RED


def order() -> Order:
    return Order(1, Decimal("2.50"), ("a", "b"))


def orders() -> dict[str, list[Order]]:
    return {"new": [order()]}


def maybe() -> Order | None:
    return None


def untyped() -> object:
    return {"a": [1, None]}


del untyped.__annotations__["return"]


def unresolvable() -> object:
    return {"a": 1}


unresolvable.__annotations__["return"] = "NoSuchType"


FUNCTIONS: list[Callable[[], object]] = [
    text,
    nothing,
    amount,
    moment,
    day,
    key,
    colour,
    order,
    orders,
    maybe,
    untyped,
    unresolvable,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=[each.__name__ for each in FUNCTIONS])
def test_a_result_survives_the_way_to_json_and_back(function: Callable[[], object]) -> None:
    result = function()
    decoded = decoder_of(function)(to_json_value(result))
    assert decoded == result
    assert type(decoded) is type(result)


class Shop:
    @agent_tool
    async def find(self, number: int) -> Order:
        """Find an order."""
        return Order(number, Decimal(1))


@pytest.mark.parametrize("function", [Shop.find, Shop().find], ids=["function", "bound method"])
def test_a_tool_is_read_by_the_type_of_its_function(function: Callable[..., object]) -> None:
    assert decoder_of(function)({"number": 3, "amount": "1"}) == Order(3, Decimal(1))


def test_what_is_not_of_the_type_is_refused() -> None:
    with pytest.raises(AgentStructuredOutputError, match=r"the answer is no .*Order"):
        decoder_of(order)({"number": "many"})
