"""A result is recorded by its declared type, and comes back as a value of that type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypedDict, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, SecretStr, computed_field

from pilotage import agent_tool
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue, as_object, canonical_json, parsed, to_json_value
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.result_codec import (
    UNTYPED,
    ResultCodec,
    codec_of,
    declared_codec,
    record_of_result,
    without_changed,
)


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


def days() -> set[date]:
    return {day()}


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
    days,
]


def written_and_read(codec: ResultCodec, result: object) -> object:
    """The result of a call as its program gets it: from the text of the record."""
    record = record_of_result(*codec.encode(result))
    return codec.read(as_object(parsed(canonical_json(record))))


@pytest.mark.parametrize("function", FUNCTIONS, ids=[each.__name__ for each in FUNCTIONS])
def test_a_result_survives_the_way_to_its_record_and_back(function: Callable[[], object]) -> None:
    result = function()
    decoded = written_and_read(codec_of(function), result)
    assert decoded == result
    assert type(decoded) is type(result)


@pytest.mark.parametrize("function", FUNCTIONS, ids=[each.__name__ for each in FUNCTIONS])
def test_a_record_of_an_earlier_version_is_read_like_a_new_one(function: Callable[[], object]) -> None:
    assert codec_of(function).read({"result": to_json_value(function())}) == function()


class Shop:
    @agent_tool
    async def find(self, number: int) -> Order:
        """Find an order."""
        return Order(number, Decimal(1))


@pytest.mark.parametrize("function", [Shop.find, Shop().find, partial(Shop().find, 3)])
def test_a_tool_is_read_by_the_type_of_its_function(function: Callable[..., object]) -> None:
    assert codec_of(function).decode({"number": 3, "amount": "1"}) == Order(3, Decimal(1))


def test_what_is_not_of_the_type_is_refused() -> None:
    with pytest.raises(AgentStructuredOutputError, match=r"the answer is no .*Order"):
        codec_of(order).decode({"number": "many"})


@dataclass(frozen=True)
class Express(Order):
    courier: str = "Ada"


@dataclass
class Basket:
    first: Order | None
    others: dict[str, tuple[Order, ...]]
    inner: Basket | None = None


class Person(BaseModel):
    name: str = Field(alias="fullName")
    hidden: str = Field("h", exclude=True)

    @computed_field
    def length(self) -> int:
        return len(self.name)


class Employee(Person):
    desk: int = 1


class Named(TypedDict):
    name: str


class Numbered(Named):
    number: int


RUSH = Express(1, Decimal(2))
PLAIN = Order(1, Decimal(2))


@pytest.mark.parametrize(
    ("declared", "result", "given"),
    [
        (Order, RUSH, PLAIN),
        (list[Order], (RUSH,), [PLAIN]),
        (tuple[Order, int], (RUSH, 1), (PLAIN, 1)),
        (Order | str, RUSH, PLAIN),
        (Order | str, "none", "none"),
        (frozenset[Order], frozenset({RUSH}), frozenset({PLAIN})),
        (Basket, Basket(RUSH, {"a": (RUSH,)}), Basket(PLAIN, {"a": (PLAIN,)})),
        (Basket, Basket(None, {}, Basket(RUSH, {})), Basket(None, {}, Basket(PLAIN, {}))),
        (Person, Employee(fullName="Ada"), Person(fullName="Ada")),
        (list[Person], [Employee(fullName="Ada")], [Person(fullName="Ada")]),
        (Named, Numbered(name="a", number=1), Named(name="a")),
        (JsonValue, {"at": amount(), "in": (1, 2)}, {"at": "12.50", "in": [1, 2]}),
        (int, "7", 7),
        (Order, {"number": 1, "amount": 2}, PLAIN),
        (bytes, b"\x00\xff", b"\x00\xff"),
    ],
)
def test_a_value_of_a_subclass_comes_as_the_declared_type(
    declared: object, result: object, given: object
) -> None:
    decoded = written_and_read(declared_codec(declared), result)
    assert decoded == given
    assert type(decoded) is type(given)


MOMENT = moment()
UNTYPED_RESULTS: list[object] = [
    None,
    "text",
    3,
    2.5,
    True,
    [1, {"a": None}],
    Decimal("12.50"),
    Decimal("1E+3"),
    MOMENT,
    datetime(2030, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - without a zone it stays without
    day(),
    key(),
    b"\x00\xff",
    {"price": Decimal("0.10"), "lines": [{"id": key()}, b"raw"], "days": {"first": day()}},
    {"scalars": [["decimal"]], "result": "12.50", "decimal": {"$decimal": "1"}},
]


@pytest.mark.parametrize("result", UNTYPED_RESULTS, ids=repr)
def test_json_and_the_closed_set_of_scalars_need_no_type(result: object) -> None:
    decoded = written_and_read(codec_of(lambda: result), result)
    assert decoded == result
    assert type(decoded) is type(result)


def test_the_scalars_of_a_result_stand_beside_it_and_not_in_it() -> None:
    record = record_of_result(*UNTYPED.encode({"price": Decimal("0.10"), "of": [day()]}))
    assert record == {
        "result": {"price": "0.10", "of": ["2030-01-02"]},
        "scalars": [["decimal", "price"], ["date", "of", 0]],
    }


def test_an_untyped_record_of_an_earlier_version_is_json_as_it_stands() -> None:
    assert UNTYPED.read({"result": {"decimal": "12.50"}}) == {"decimal": "12.50"}


class Pair(NamedTuple):
    first: int
    second: int


UNRECORDABLE: list[object] = [
    Pair(1, 2),
    order(),
    colour(),
    {1, 2},
    object(),
    {"a": order()},
    {1: "a"},
    float("nan"),
    [float("inf")],
]


@pytest.mark.parametrize("result", UNRECORDABLE, ids=lambda each: type(each).__name__)
def test_any_other_value_needs_a_declared_type(result: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        UNTYPED.encode(result)


def test_the_program_gets_a_copy_of_its_own() -> None:
    held = {"lines": [1]}
    record = record_of_result(*UNTYPED.encode(held))
    for given in (UNTYPED.read(record), UNTYPED.read(record)):
        assert isinstance(given, dict)
        given["lines"].append(2)
    held["lines"].append(3)
    assert record == {"result": {"lines": [1]}}


@pytest.mark.parametrize(
    "scalars", ["x", [["pickle"]], [[]], [["decimal", "a"]], [["uuid"]], [["decimal", 0]], [3]], ids=repr
)
def test_scalars_that_are_none_are_a_damaged_record(scalars: JsonValue) -> None:
    with pytest.raises(DamagedRecordError):
        UNTYPED.read({"result": "text", "scalars": scalars})


def unresolvable() -> object:
    return {"a": 1}


unresolvable.__annotations__["return"] = "NoSuchType"


class Plain:
    """A class without fields."""


def unreadable() -> Plain:
    return Plain()


class Masked(BaseModel):
    password: SecretStr


def masked() -> Masked:
    return Masked(password=SecretStr("x"))


@pytest.mark.parametrize("function", [unresolvable, unreadable, masked], ids=lambda each: each.__name__)
def test_a_type_that_cannot_be_read_back_is_refused(function: Callable[[], object]) -> None:
    with pytest.raises(AgentDefinitionError, match=function.__name__):
        codec_of(function)


T = TypeVar("T")


def anything() -> Any:
    return 1


def generic(given: T) -> T:
    return given


async def awaitable() -> Awaitable[Decimal]:
    raise NotImplementedError


class Caller:
    def __call__(self) -> Decimal:
        return Decimal(1)


def test_the_type_is_that_of_what_the_program_gets() -> None:
    assert codec_of(anything) is UNTYPED
    assert codec_of(generic) is UNTYPED
    assert codec_of(awaitable) is codec_of(Caller()) is codec_of(amount)


def test_a_scalar_that_was_masked_comes_back_as_its_mark() -> None:
    whole, scalars = UNTYPED.encode({"price": Decimal("0.10"), "of": [day()]})
    masked: JsonValue = {"price": "***", "of": ["2030-01-02"]}
    kept = without_changed(scalars, whole, masked)
    assert UNTYPED.read(record_of_result(masked, kept)) == {"price": "***", "of": [day()]}
