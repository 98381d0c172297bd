"""Changes of tools: names, parameters, kinds, errors, what they do inside."""

from __future__ import annotations

from pilotage import AgentToolRuntimeContext, IAgentModel, Idempotency, Pod, agent_tool
from pilotage.errors import ToolError
from tests.replay.kit import OUTSIDE, READ, UNASKED, OutOfStock, Shop
from tests.replay.releases import Diverges, Fails, GoesOn, change, next_shop, written

ONCE = Idempotency.NON_IDEMPOTENT
APPLE = "pay apple, ship apple"
ORDERED = GoesOn("12.50; pay apple done; ship apple done", APPLE)


async def order(shop: Shop, model: IAgentModel) -> str:
    """Look up, pay, ship."""
    price = await shop.price("apple")
    paid = await shop.pay("apple", note="n")
    return f"{price}; {paid}; {await shop.ship('apple')}"


ORDER = written(order)


@next_shop
class RenamedShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def pay_out(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Pay for something."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)


@next_shop
class FormerShop(Shop):
    pay = None  # type: ignore[assignment]

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, formerly=["pay"], reads_untrusted=False)
    async def pay_out(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Pay for something."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)


async def renamed(shop: RenamedShop | FormerShop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay_out("apple", note="n")
    return f"{price}; {paid}; {await shop.ship('apple')}"


PAY, PAY_OUT = Diverges("run/tool:pay#1"), Diverges("run/tool:pay_out#1")
BOUND = Diverges("run/tool:pay#1/approval")
"""A person was asked about a call with other arguments."""
ANEW = ORDERED.asking("run/tool:pay#1")
"""An approval is bound to the tool as it was declared: a person is asked anew."""
change("a tool is renamed", ORDER, written(renamed, RenamedShop), ORDERED, *[PAY_OUT] * 3)
change(
    "a tool is renamed with its former name",
    ORDER,
    written(renamed, FormerShop),
    ORDERED,
    ANEW,
    ORDERED,
    ORDERED,
)


@next_shop
class UrgentShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def pay(
        self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "", urgent: bool = False
    ) -> str:
        """Pay for something."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)


change("an optional parameter is added", ORDER, written(order, UrgentShop), ORDERED, ANEW, ORDERED, ORDERED)


async def urgent(shop: UrgentShop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple", note="n", urgent=True)
    return f"{price}; {paid}; {await shop.ship('apple')}"


change("a new parameter is given", ORDER, written(urgent, UrgentShop), ORDERED, BOUND, PAY, PAY)


@next_shop
class NotedShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def ship(self, item: str, runtime_context: AgentToolRuntimeContext, way: str = "air") -> str:
        """Ship something."""
        return self.process.act(f"ship {item} by {way}", runtime_context.idempotency_key)


@next_shop
class SeaShop(NotedShop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def ship(self, item: str, runtime_context: AgentToolRuntimeContext, way: str = "sea") -> str:
        """Ship something."""
        return self.process.act(f"ship {item} by {way}", runtime_context.idempotency_key)


async def pay_and_ship(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.pay('apple')}; {await shop.ship('apple')}"


BY_SEA = GoesOn("pay apple done; ship apple by sea done", "pay apple, ship apple by sea")
BY_AIR = GoesOn("pay apple done; ship apple by air done", "pay apple, ship apple by air")
change(
    "a default is changed",
    written(pay_and_ship, NotedShop),
    written(pay_and_ship, SeaShop),
    BY_SEA,
    BY_SEA.asking("run/tool:ship#1"),
    BY_AIR,
)


@next_shop
class BareShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def pay(self, item: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay for something."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)


async def bare(shop: BareShop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple")
    return f"{price}; {paid}; {await shop.ship('apple')}"


change("a parameter that was given is removed", ORDER, written(bare, BareShop), ORDERED, BOUND, PAY, PAY)
change(
    "a parameter that was not given is removed",
    written(bare),
    written(bare, BareShop),
    ORDERED,
    ANEW,
    ORDERED,
    ORDERED,
)


async def reordered(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price(item="apple")
    paid = await shop.pay(note="n", item="apple")
    return f"{price}; {paid}; {await shop.ship(item='apple')}"


change("arguments are given by name and in another order", ORDER, written(reordered), *[ORDERED] * 4)


async def other_note(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    paid = await shop.pay("apple", note="other")
    return f"{price}; {paid}; {await shop.ship('apple')}"


change("an argument has another value", ORDER, written(other_note), ORDERED, BOUND, PAY, PAY)


@next_shop
class SafeShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNASKED, reads_untrusted=False)
    async def pay(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Pay for something; the key makes it happen once."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key, once=True)


change("a tool becomes idempotent", ORDER, written(order, SafeShop), *[ORDERED] * 4)
change("a tool becomes unrepeatable", written(order, SafeShop), ORDER, *[ORDERED] * 4)


@next_shop
class SyncShop(Shop):
    @agent_tool(effects=READ)
    def look(self, item: str) -> str:  # type: ignore[override]
        """Return something at once."""
        return f"saw {item}"


async def look_and_pay(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.look('apple')}; {await shop.pay('apple')}"


async def look_sync_and_pay(shop: SyncShop, model: IAgentModel) -> str:
    return f"{shop.look('apple')}; {await shop.pay('apple')}"


LOOKED = GoesOn("saw apple; pay apple done", "pay apple")
change("a tool becomes sync", written(look_and_pay), written(look_sync_and_pay, SyncShop), *[LOOKED] * 3)
change(
    "a sync tool becomes async", written(look_sync_and_pay, SyncShop), written(look_and_pay), *[LOOKED] * 3
)


@next_shop
class DeclaringShop(Shop):
    @agent_tool(effects=READ, errors=[OutOfStock])
    async def stock(self, item: str) -> int:
        """Fail with a declared error."""
        raise OutOfStock(f"no {item}")


async def by_class(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.stock("pear")
    except OutOfStock:
        return await shop.pay("apple")
    except ToolError:
        return await shop.pay("plum")
    return "never"


change(
    "an error is declared",
    written(by_class),
    written(by_class, DeclaringShop),
    GoesOn("pay apple done", "pay apple"),
    GoesOn("pay plum done", "pay plum"),
    GoesOn("pay plum done", "pay plum"),
)
change(
    "an error is not declared any more",
    written(by_class, DeclaringShop),
    written(by_class),
    GoesOn("pay plum done", "pay plum"),
    BOUND,
    PAY,
)


class NoStock(ToolError):  # noqa: N818 - as people name them
    """The error under another name."""


class GoneWithCode(ToolError):  # noqa: N818 - as people name them
    """The error under another name, with the code it had."""

    code = "out_of_stock"


@next_shop
class RenamingShop(Shop):
    @agent_tool(effects=READ, errors=[NoStock])
    async def stock(self, item: str) -> int:
        """Fail with a declared error."""
        raise NoStock(f"no {item}")


@next_shop
class CodedShop(Shop):
    @agent_tool(effects=READ, errors=[GoneWithCode])
    async def stock(self, item: str) -> int:
        """Fail with a declared error."""
        raise GoneWithCode(f"no {item}")


async def only_declared(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.stock("pear")
    except (OutOfStock, NoStock, GoneWithCode):
        return await shop.pay("apple")
    return "never"


PAID = GoesOn("pay apple done", "pay apple")
DECLARED = written(only_declared, DeclaringShop)
change("a declared error is renamed", DECLARED, written(only_declared, RenamingShop), PAID, PAY, PAY)
change(
    "a declared error is renamed and keeps its code",
    DECLARED,
    written(only_declared, CodedShop),
    PAID,
    PAID,
    PAID,
)


@next_shop
class DoubleShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def order(self, item: str) -> str:
        """Call other tools, one more than before."""
        price = await self.price(item)
        await self.mark(item)
        paid = await self.pay(item, note=str(price))
        return f"{paid}, {await self.ship(item)}"


async def order_twice(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.order('apple')}; {await shop.order('pear')}"


APPLES, PEARS = "pay apple, ship apple", "pay pear, ship pear"
DONE = "pay apple done, ship apple done; pay pear done, ship pear done"
MARKED_BOTH = GoesOn(DONE, f"mark apple, {APPLES}, mark pear, {PEARS}")
MARKED_PEAR = GoesOn(DONE, f"{APPLES}, mark pear, {PEARS}")


def inside(item: int) -> Diverges:
    return Diverges(f"run/tool:order#{item}/tool:mark#1")


change(
    "a tool calls one more tool",
    written(order_twice),
    written(order_twice, DoubleShop),
    MARKED_BOTH,  # before the first order
    MARKED_BOTH,  # before its price
    inside(1),  # before its payment
    inside(1),
    MARKED_PEAR,  # the first order has ended: replay does not enter it
    MARKED_PEAR,
    inside(2),
    inside(2),
    GoesOn(DONE, f"{APPLES}, {PEARS}"),
)


@next_shop
class BrokenShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def pay(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Fail for certain."""
        raise ToolError("no money")


change(
    "a tool gets a bug",
    ORDER,
    written(order, BrokenShop),
    Fails("no money", ""),
    Fails("no money", ""),
    ORDERED,
    ORDERED,
)


@Pod
class MovedShop(Shop):
    """A class of another module."""

    @agent_tool(effects=OUTSIDE, idempotency=ONCE, approval=UNASKED, reads_untrusted=False)
    async def pay(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Pay for something."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)


change("a class of tools is moved", ORDER, written(order, MovedShop), ORDERED, ANEW, ORDERED, ORDERED)
