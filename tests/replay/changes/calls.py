"""Changes of the calls of one task: added, removed, swapped, repeated, behind gates, with timers, with bugs."""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel, ModelMessage, ModelRequest
from pilotage.runtime import changed, sleep, step, timeout, uid
from tests.replay.changes.tools import ORDER, ORDERED
from tests.replay.kit import Shop
from tests.replay.releases import Body, Diverges, Fails, GoesOn, change, written

APPLE = "pay apple, ship apple"


async def bought(shop: Shop, *, note: str = "n") -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple", note=note)
    return f"{price}; {paid}; {await shop.ship('apple')}"


async def mail(shop: Shop) -> None:
    await step("mail", lambda: shop.process.act("mail"))


async def in_front(shop: Shop, model: IAgentModel) -> str:
    await mail(shop)
    return await bought(shop)


async def in_front_gated(shop: Shop, model: IAgentModel) -> str:
    if await changed("mail"):
        await mail(shop)
    return await bought(shop)


async def in_the_middle(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple", note="n")
    await mail(shop)
    return f"{price}; {paid}; {await shop.ship('apple')}"


async def in_the_middle_gated(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple", note="n")
    if await changed("mail"):
        await mail(shop)
    return f"{price}; {paid}; {await shop.ship('apple')}"


async def behind(shop: Shop, model: IAgentModel) -> str:
    answer = await bought(shop)
    await mail(shop)
    return answer


async def behind_gated(shop: Shop, model: IAgentModel) -> str:
    answer = await bought(shop)
    if await changed("mail"):
        await mail(shop)
    return answer


def with_mail(effects: str) -> GoesOn:
    return GoesOn(ORDERED.output, effects)


MAIL = Diverges("run/step:mail#1")
ANSWERED = Diverges("run/result#1")
"""A person was asked about the answer, so the program had ended there."""
LATER, LAST = with_mail("pay apple, mail, ship apple"), with_mail(f"{APPLE}, mail")
change("a step is put in front", ORDER, written(in_front), *[MAIL] * 4)
change("a step is put in front behind a gate", ORDER, written(in_front_gated), *[ORDERED] * 4)
change("a step is put in the middle", ORDER, written(in_the_middle), LATER, LATER, MAIL, MAIL)
change(
    "a step is put in the middle behind a gate",
    ORDER,
    written(in_the_middle_gated),
    LATER,
    LATER,
    ORDERED,
    ORDERED,
)
change("a step is put at the end", ORDER, written(behind), *[LAST] * 3, ANSWERED)
change("a step is put at the end behind a gate", ORDER, written(behind_gated), *[LAST] * 3, ORDERED)
change(
    "a gate is removed and the new way stays",
    written(in_the_middle_gated),
    written(in_the_middle),
    *[LATER] * 5,
)
change(
    "a gate is removed and the old way stays",
    written(in_the_middle_gated),
    ORDER,
    ORDERED,
    ORDERED,
    Diverges("run/tool:ship#1"),  # the step is recorded
    Diverges("run/tool:ship#1"),
    Diverges("run/tool:ship#1"),
)


async def renamed_gate(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple", note="n")
    if await changed("letter"):
        await mail(shop)
    return f"{price}; {paid}; {await shop.ship('apple')}"


SHIP = Diverges("run/tool:ship#1")
change(
    "a gate is renamed", written(in_the_middle_gated), written(renamed_gate), LATER, LATER, SHIP, SHIP, SHIP
)


async def letter(shop: Shop, model: IAgentModel) -> str:
    await step("letter", lambda: shop.process.act("mail"))
    return await bought(shop)


LETTER = Diverges("run/step:letter#1")
change("a step is renamed", written(in_front), written(letter), *[LETTER] * 5)


async def without_payment(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    return f"{price}; {await shop.ship('apple')}"


async def without_shipping(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    return f"{price}; {await shop.pay('apple', note='n')}"


async def swapped(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    shipped = await shop.ship("apple")
    return f"{price}; {await shop.pay('apple', note='n')}; {shipped}"


change(
    "a call is removed",
    ORDER,
    written(without_payment),
    GoesOn("12.50; ship apple done", "ship apple"),
    *[SHIP] * 3,
)
change(
    "the last call is removed",
    ORDER,
    written(without_shipping),
    GoesOn("12.50; pay apple done", "pay apple"),
    GoesOn("12.50; pay apple done", "pay apple"),
    SHIP,
    SHIP,
)
change(
    "two calls are swapped",
    ORDER,
    written(swapped),
    GoesOn(ORDERED.output, "ship apple, pay apple"),
    *[SHIP] * 3,
)


async def unused_read(shop: Shop, model: IAgentModel) -> str:
    await shop.look("apple")
    return await bought(shop)


LOOK = Diverges("run/tool:look#1")
change("a read is put in front", ORDER, written(unused_read), *[LOOK] * 4)


async def with_an_id(shop: Shop, model: IAgentModel) -> str:
    await uid()
    return await bought(shop)


change("an id is taken in front", ORDER, written(with_an_id), *[Diverges("run/uid#1")] * 4)


def paying(*items: str) -> Body:
    """A loop of payments."""

    async def pay(shop: Shop, model: IAgentModel) -> str:
        return ", ".join([await shop.pay(item) for item in items])

    return pay


TWO, THREE = written(paying("a", "b")), written(paying("a", "b", "c"))
ALL_THREE = GoesOn("pay a done, pay b done, pay c done", "pay a, pay b, pay c")
SECOND, SECOND_BOUND = Diverges("run/tool:pay#2"), Diverges("run/tool:pay#2/approval")
change(
    "a loop has one turn more",
    TWO,
    THREE,
    ALL_THREE,
    ALL_THREE,
    ANSWERED,
)
change(
    "a loop has one turn less",
    TWO,
    written(paying("a")),
    GoesOn("pay a done", "pay a"),
    SECOND,
    SECOND,
)
change(
    "the items of a loop have another order",
    THREE,
    written(paying("a", "c", "b")),
    GoesOn("pay a done, pay c done, pay b done", "pay a, pay c, pay b"),
    SECOND_BOUND,
    SECOND,
    SECOND,
)


async def bug_in_front(shop: Shop, model: IAgentModel) -> str:
    raise KeyError("bug")


async def bug_in_the_middle(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    raise KeyError(f"bug {price}")


async def bug_behind(shop: Shop, model: IAgentModel) -> str:
    await bought(shop)
    raise KeyError("bug")


FAILED = Fails("KeyError", "")
change(
    "a bug raises in front",
    ORDER,
    written(bug_in_front),
    Diverges("run/tool:price#1"),
    Diverges("run/tool:price#1"),
    Diverges("run/tool:price#1"),
    Diverges("run/tool:price#1"),
)
PAY = Diverges("run/tool:pay#1")
change("a bug raises in the middle", ORDER, written(bug_in_the_middle), FAILED, PAY, PAY, PAY)
change("a bug raises behind", ORDER, written(bug_behind), *[Fails("KeyError", APPLE)] * 3, ANSWERED)


async def limited(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.timeout(30):
        return await bought(shop)


async def limited_by_the_runtime(shop: Shop, model: IAgentModel) -> str:
    async with timeout(30):
        return await bought(shop)


change("a time-out of asyncio is added", ORDER, written(limited), *[ORDERED] * 4)
change(
    "a recorded time-out is added", ORDER, written(limited_by_the_runtime), *[Diverges("run/timeout#1")] * 4
)


def sleeping(seconds: float) -> Body:
    async def body(shop: Shop, model: IAgentModel) -> str:
        await shop.pay("apple")
        await sleep(seconds)
        return await shop.ship("apple")

    return body


SLEPT = GoesOn("ship apple done", APPLE)
change(
    "a recorded sleep has another length",
    written(sleeping(3600)),
    written(sleeping(7200)),
    SLEPT,
    Diverges("run/sleep#1/approval"),
    Diverges("run/sleep#1"),
    Diverges("run/sleep#1"),
    Diverges("run/sleep#1"),
)


def asking(prompt: str) -> Body:
    async def body(shop: Shop, model: IAgentModel) -> str:
        reply = await model.complete(ModelRequest([ModelMessage.user(prompt)]))
        return f"{reply.content}; {await shop.pay(reply.content)}"

    return body


HELLO = GoesOn("hello; pay hello done", "pay hello")
change(
    "a prompt is changed", written(asking("How much?")), written(asking("How much exactly?")), *[HELLO] * 3
)
