"""Changes of programs of several tasks: branches, groups, sequential and parallel, gates in branches."""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel
from pilotage.runtime import changed
from tests.replay.kit import Shop
from tests.replay.releases import Body, Diverges, GoesOn, change, written


def gathered(*items: str) -> Body:
    async def body(shop: Shop, model: IAgentModel) -> str:
        paid = await asyncio.gather(*[shop.pay(item) for item in items])
        return f"{len(paid)}; {await shop.mark('end')}"

    return body


def grouped(*items: str) -> Body:
    async def body(shop: Shop, model: IAgentModel) -> str:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(shop.pay(item)) for item in items]
        return f"{len(tasks)}; {await shop.mark('end')}"

    return body


def sequential(*items: str) -> Body:
    async def body(shop: Shop, model: IAgentModel) -> str:
        paid = [await shop.pay(item) for item in items]
        return f"{len(paid)}; {await shop.mark('end')}"

    return body


def paid(*order: str) -> GoesOn:
    return GoesOn(f"{len(order)}; mark end done", ", ".join([*[f"pay {item}" for item in order], "mark end"]))


BOTH = written(gathered("a", "b"))
A_LATE, B_LATE = paid("b", "a"), paid("a", "b")
"""The payment that waited for its approval comes last."""

PAY_1, PAY_2, PAY_3 = (Diverges(f"run/tool:pay#{number}") for number in (1, 2, 3))

change("a group of tasks becomes a gather", written(grouped("a", "b")), BOTH, A_LATE, B_LATE, B_LATE, B_LATE)
change("a gather becomes a group of tasks", BOTH, written(grouped("a", "b")), A_LATE, B_LATE, B_LATE, B_LATE)
change(
    "parallel calls are made in another order", BOTH, written(gathered("b", "a")), PAY_2, PAY_1, PAY_1, PAY_1
)
change(
    "a gather has one branch more",
    BOTH,
    written(gathered("a", "b", "c")),
    paid("b", "a", "c"),
    paid("a", "b", "c"),
    PAY_3,
    PAY_3,
)
change("a gather has one branch less", BOTH, written(gathered("a")), *[PAY_2] * 4)
# The second payment was begun before the first one had ended, and now it is not.
change("parallel calls become sequential", BOTH, written(sequential("a", "b")), *[PAY_2] * 4)
# The calls are made in the order of the record.
change("sequential calls become parallel", written(sequential("a", "b")), BOTH, *[B_LATE] * 4)


def buying(*order: str, room: int = 5, is_gated: bool = False, has_more: bool = False) -> Body:
    """Branches of several calls, in tasks of their own."""

    async def body(shop: Shop, model: IAgentModel) -> str:
        limit = asyncio.Semaphore(room)

        async def buy(item: str) -> str:
            async with limit:
                await shop.pay(item)
                if has_more and (not is_gated or await changed("mark")):
                    await shop.mark(item)
                return await shop.ship(item)

        return ", ".join(sorted(await asyncio.gather(*[buy(item) for item in order])))

    return body


def bought(effects: str) -> GoesOn:
    return GoesOn("ship a done, ship b done", effects)


BUYING = written(buying("a", "b"))
A, B = "run/task:tool:pay:c7cfb8a2#1", "run/task:tool:pay:f40b0887#1"
"""The branches: tasks are named by their first call and by what they were given."""
BOUGHT = (
    bought("pay b, ship b, pay a, ship a"),  # before a is paid
    bought("pay a, ship a, pay b, ship b"),  # before b is paid
    bought("pay a, pay b, ship b, ship a"),  # before a is shipped
    bought("pay a, pay b, ship a, ship b"),  # before b is shipped
    bought("pay a, pay b, ship a, ship b"),
)
change("branches have another order", BUYING, written(buying("b", "a")), *BOUGHT)
change("a semaphore with room for all is added", BUYING, written(buying("a", "b", room=2)), *BOUGHT)
change(
    "a call is added in branches",
    BUYING,
    written(buying("a", "b", has_more=True)),
    Diverges(f"{B}/tool:mark#1"),
    *[Diverges(f"{A}/tool:mark#1")] * 4,
)
change(
    "a call is added in branches behind a gate",
    BUYING,
    written(buying("a", "b", is_gated=True, has_more=True)),
    bought("pay b, ship b, pay a, mark a, ship a"),  # open where the record of the branch has ended
    bought("pay a, ship a, pay b, mark b, ship b"),
    *BOUGHT[2:],
)
MARKED = bought("pay a, pay b, mark a, mark b, ship a, ship b")
change(
    "a gate in branches is removed and the new way stays",
    written(buying("a", "b", is_gated=True, has_more=True)),
    written(buying("a", "b", has_more=True)),
    bought("pay b, mark b, ship b, pay a, mark a, ship a"),
    bought("pay a, mark a, ship a, pay b, mark b, ship b"),
    bought("pay a, pay b, mark b, ship b, mark a, ship a"),
    bought("pay a, pay b, mark a, ship a, mark b, ship b"),
    bought("pay a, pay b, mark a, mark b, ship b, ship a"),
    MARKED,
    MARKED,
)
change(
    "a gate in branches is removed and the old way stays",
    written(buying("a", "b", is_gated=True, has_more=True)),
    BUYING,
    Diverges(f"{B}/tool:ship#1"),
    Diverges(f"{A}/tool:ship#1"),
    *[Diverges(f"{A}/tool:ship#1")] * 5,
)
