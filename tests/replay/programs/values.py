"""Programs that use the types of their results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

from pilotage import IAgentModel, Idempotency
from pilotage.runtime import step
from tests.replay.kit import Colour, HeavyParcel, Shop, program


@program()
async def decimal_result(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    return await shop.pay("apple", note=str(price * 2))


@program()
async def decimal_from_a_step(shop: Shop, model: IAgentModel) -> str:
    price = await step("price", lambda: Decimal("12.50"), idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=str(price * 2))


@program()
async def time_from_a_step(shop: Shop, model: IAgentModel) -> str:
    when = await step("when", lambda: datetime(2026, 1, 2, tzinfo=UTC), idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=str(when.year))


@program()
async def date_from_a_step(shop: Shop, model: IAgentModel) -> str:
    day = await step("day", lambda: date(2026, 1, 2), idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=day.strftime("%d"))


@program()
async def uuid_from_a_step(shop: Shop, model: IAgentModel) -> str:
    number = await step("id", lambda: UUID(int=7), idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=number.hex)


@program()
async def bytes_from_a_step(shop: Shop, model: IAgentModel) -> str:
    data = await step("data", lambda: b"apple", idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=data.decode())


@dataclass
class Offer:
    """A result of a step, by annotation."""

    price: Decimal


def _offer() -> Offer:
    return Offer(Decimal("3.50"))


@program()
async def dataclass_from_a_step(shop: Shop, model: IAgentModel) -> str:
    offer = await step("offer", _offer, idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=str(offer.price + 1))


@program()
async def enum_result(shop: Shop, model: IAgentModel) -> str:
    if await shop.colour("apple") is Colour.RED:
        return await shop.pay("apple")
    return await shop.ship("apple")


@program()
async def dataclass_result(shop: Shop, model: IAgentModel) -> str:
    parcel = await shop.parcel(7)
    return await shop.pay("apple", note=str(parcel.weight + 1))


@program()
async def subclass_result(shop: Shop, model: IAgentModel) -> str:
    parcel = await shop.heavy(7)
    if isinstance(parcel, HeavyParcel):
        return await shop.pay("crane")
    return await shop.pay("van")


@program()
async def pydantic_result(shop: Shop, model: IAgentModel) -> str:
    customer = await shop.customer("Ada")
    return await shop.pay("apple", note=f"{customer.name} {customer.age + 1}")


@program()
async def result_that_its_tool_changes(shop: Shop, model: IAgentModel) -> str:
    content = await shop.content()
    shop.basket.append("pear")
    return await shop.pay("basket", note=",".join(content))


@program()
async def result_that_the_program_changes(shop: Shop, model: IAgentModel) -> str:
    content = await shop.content()
    content.append("plum")
    again = await shop.content()
    return await shop.pay("basket", note=f"{len(content)} {len(again)}")


@program()
async def tuple_and_set_from_a_step(shop: Shop, model: IAgentModel) -> str:
    pair = await step("pair", lambda: [1, "two", None, {"three": 3.5}], idempotency=Idempotency.IDEMPOTENT)
    return await shop.pay("apple", note=str(pair))
