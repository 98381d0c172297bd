"""Changes of values: types of results and of their fields, members of enums, the output of the run."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict

from pilotage import Agent, AgentExecutionSpec, IAgentModel, Idempotency, agent_tool
from pilotage.runtime import step
from tests.replay.kit import READ, Process, Shop
from tests.replay.releases import DURABLE, Diverges, GoesOn, Refused, Release, change, next_shop, written


async def price_and_pay(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.price('apple')} {await shop.pay('apple')}"


PRICED = GoesOn("12.50 pay apple done", "pay apple")
PRICE = Diverges("run/tool:price#1")
PRICE_AND_PAY = written(price_and_pay)


@next_shop
class TextShop(Shop):
    @agent_tool(effects=READ)
    async def price(self, item: str) -> str:  # type: ignore[override]
        """Return a price as text."""
        return "12.50"


@next_shop
class WholeShop(Shop):
    @agent_tool(effects=READ)
    async def price(self, item: str) -> int:  # type: ignore[override]
        """Return a price in cents."""
        return 1250


@next_shop
class OptionalShop(Shop):
    @agent_tool(effects=READ)
    async def price(self, item: str) -> Decimal | None:  # type: ignore[override]
        """Return a price, or nothing."""
        return Decimal("12.50")


@next_shop
class OpaqueShop(Shop):
    @agent_tool(effects=READ)
    async def price(self, item: str) -> Process:  # type: ignore[override]
        """Return something that cannot be read back."""
        return self.process


PRICE_ANEW = PRICED.asking("run/tool:price#1")
change(
    "a result has a type that reads the record",
    PRICE_AND_PAY,
    written(price_and_pay, TextShop),
    PRICE_ANEW,
    PRICED,
    PRICED,
)
change(
    "a result has a wider type",
    PRICE_AND_PAY,
    written(price_and_pay, OptionalShop),
    PRICE_ANEW,
    PRICED,
    PRICED,
)
change(
    "a result has a type that does not read the record",
    PRICE_AND_PAY,
    written(price_and_pay, WholeShop),
    GoesOn("1250 pay apple done", "pay apple", asks="run/tool:price#1"),
    PRICE,
    PRICE,
)
change(
    "a result has a type that cannot be recorded",
    PRICE_AND_PAY,
    written(price_and_pay, OpaqueShop),
    *[Refused("price")] * 3,
)


class WiderCustomer(BaseModel):
    """One field more, with a default."""

    name: str
    age: int = 30
    city: str = "Rome"


class DemandingCustomer(BaseModel):
    """One field more, without a default."""

    name: str
    age: int = 30
    city: str


class NarrowCustomer(BaseModel):
    """One field less."""

    name: str


class StrictCustomer(BaseModel):
    """One field less, and nothing else is taken."""

    model_config = ConfigDict(extra="forbid")
    name: str


class NumberCustomer(BaseModel):
    """A field of another type."""

    name: int
    age: int = 30


def customers(made: type[BaseModel], **fields: Any) -> type[Shop]:
    """Return a shop whose customers are of another class."""

    class CustomerShop(Shop):
        async def customer(self, name: str) -> Any:
            """Return a customer."""
            return made(**{"name": name, **fields})

        customer.__annotations__["return"] = made
        customer = agent_tool(effects=READ)(customer)

    return next_shop(CustomerShop)


async def greet(shop: Shop, model: IAgentModel) -> str:
    customer = await shop.customer("Ada")
    return f"{customer.name} {await shop.pay('apple')}"


GREET = written(greet)
ADA = GoesOn("Ada pay apple done", "pay apple")
CUSTOMER, ASKED = Diverges("run/tool:customer#1"), ADA.asking("run/tool:customer#1")
change(
    "a model gets a field with a default", GREET, written(greet, customers(WiderCustomer)), ASKED, ADA, ADA
)
change(
    "a model gets a field without a default",
    GREET,
    written(greet, customers(DemandingCustomer, city="Rome")),
    ASKED,
    CUSTOMER,
    CUSTOMER,
)
change("a model loses a field", GREET, written(greet, customers(NarrowCustomer)), ASKED, ADA, ADA)
change(
    "a strict model loses a field",
    GREET,
    written(greet, customers(StrictCustomer)),
    ASKED,
    CUSTOMER,
    CUSTOMER,
)
change(
    "a field of a model has another type",
    GREET,
    written(greet, customers(NumberCustomer, name=7)),
    GoesOn("7 pay apple done", "pay apple", asks="run/tool:customer#1"),
    CUSTOMER,
    CUSTOMER,
)


class RenamedColour(Enum):
    """The members have other names, and the values they had."""

    CRIMSON = "red"
    NAVY = "blue"


class OtherColour(Enum):
    """A member has another value."""

    RED = "r"
    BLUE = "blue"


class MoreColours(Enum):
    """One member more."""

    RED = "red"
    GREEN = "green"
    BLUE = "blue"


def colours(made: type[Enum], first: Enum) -> type[Shop]:
    """Return a shop with other colours."""

    class ColourShop(Shop):
        async def colour(self, item: str) -> Any:
            """Return a colour."""
            return first

        colour.__annotations__["return"] = made
        colour = agent_tool(effects=READ)(colour)

    return next_shop(ColourShop)


async def paint(shop: Shop, model: IAgentModel) -> str:
    colour = await shop.colour("apple")
    return f"{colour.value} {await shop.pay('apple')}"


PAINT = written(paint)
RED = GoesOn("red pay apple done", "pay apple")
COLOUR = Diverges("run/tool:colour#1")
ASKED_COLOUR = RED.asking("run/tool:colour#1")
change(
    "a member of an enum is renamed",
    PAINT,
    written(paint, colours(RenamedColour, RenamedColour.CRIMSON)),
    RED,
    RED,
    RED,
)
change(
    "a member of an enum has another value",
    PAINT,
    written(paint, colours(OtherColour, OtherColour.RED)),
    GoesOn("r pay apple done", "pay apple", asks="run/tool:colour#1"),
    COLOUR,
    COLOUR,
)
change(
    "an enum gets a member",
    PAINT,
    written(paint, colours(MoreColours, MoreColours.RED)),
    ASKED_COLOUR,
    RED,
    RED,
)


@dataclass
class Offer:
    price: Decimal


@dataclass
class TaxedOffer:
    price: Decimal
    tax: Decimal = Decimal(0)


async def step_with_a_type(shop: Shop, model: IAgentModel) -> str:
    offer = await step("offer", lambda: Offer(Decimal(3)), returns=Offer, idempotency=Idempotency.IDEMPOTENT)
    return f"{offer.price} {await shop.pay('apple')}"


async def step_with_a_wider_type(shop: Shop, model: IAgentModel) -> str:
    offer = await step(
        "offer", lambda: TaxedOffer(Decimal(3)), returns=TaxedOffer, idempotency=Idempotency.IDEMPOTENT
    )
    return f"{offer.price + offer.tax} {await shop.pay('apple')}"


async def step_with_another_type(shop: Shop, model: IAgentModel) -> str:
    offer = await step("offer", lambda: 3, returns=int, idempotency=Idempotency.IDEMPOTENT)
    return f"{offer} {await shop.pay('apple')}"


OFFERED = GoesOn("3 pay apple done", "pay apple")
change(
    "a step has a wider type",
    written(step_with_a_type),
    written(step_with_a_wider_type),
    OFFERED,
    OFFERED,
    OFFERED,
)
change(
    "a step has another type",
    written(step_with_a_type),
    written(step_with_another_type),
    OFFERED,
    Diverges("run/step:offer#1"),
    Diverges("run/step:offer#1"),
)


@Agent(name="clerk", spec=AgentExecutionSpec(name="clerk", recovery=DURABLE))
class CountingClerk:
    """Returns a number instead of text."""

    def __init__(self, model: IAgentModel, process: Process) -> None:
        self.shop = Shop(process)

    async def execute(self) -> int:
        await self.shop.price("apple")
        await self.shop.pay("apple")
        return 7


ANSWER = Diverges("run/result#1/approval")
SEVEN = GoesOn("7", "pay apple")
change(
    "the output of the run has another type", PRICE_AND_PAY, Release((CountingClerk,)), SEVEN, SEVEN, ANSWER
)
