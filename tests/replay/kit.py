"""The form of the kit: a program is a function over a shop, with its verdict written beside it.

`World` is what outlives every process: a ledger that counts business effects. `Shop` has a tool of every kind. A
program is deterministic if it depends on nothing but its input and the outcomes of its calls: it must complete with the
output and the ledger of the uninterrupted run. Any other program may diverge, but never does an effect twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias

from pydantic import BaseModel

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    IAgentModel,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.errors import ToolError
from pilotage.runtime import step
from pilotage.testing import ProcessStopped

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)
READ, CHANGE, OUTSIDE = ToolEffects.read_only(), ToolEffects.write_state(), ToolEffects.external_side_effect()
UNASKED = ToolApprovalRequirement.NOT_REQUIRED
LONG = 300
"""The milliseconds of a read that a program cuts short: long enough on a busy machine, and less than `PATIENCE`."""


class World:
    """What is outside of every process: business effects done, and what each idempotency key led to."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.by_key: dict[str, str] = {}
        self.calls = 0
        self.dies_at: int | None = None
        """The number of the effect behind which the process dies."""
        self.failed: Counter[str] = Counter()
        """How often each thing failed that fails for a while."""

    def fail(self, what: str, times: int = 1) -> None:
        """Fail the first times that something is tried, with an error that says nothing about its effect."""
        if self.failed[what] < times:
            self.failed[what] += 1
            raise ConnectionError(f"no answer about {what}")


class Process:
    """One process of the application: dead code does nothing any more."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_dead = False
        self.has_died = False
        self.death = asyncio.Event()

    def act(self, what: str, key: str | None = None, *, once: bool = False) -> str:
        """Do something to the world; `once` is a system that knows keys."""
        self.require_life()
        world = self.world
        world.calls += 1
        key = key or what
        if not (once and key in world.by_key):
            world.done[what] += 1
            world.by_key[key] = f"{what} done"
        if world.calls == world.dies_at:
            self.has_died = True
            self.die()
        self.require_life()
        return world.by_key[key]

    def die(self) -> None:
        """End the process: whatever its code still waits for does not come."""
        self.is_dead = True
        self.death.set()

    def require_life(self) -> None:
        if self.is_dead:
            raise ProcessStopped("the process is dead")


class OutOfStock(ToolError):  # noqa: N818 - as people name them
    """An error of the shop's own."""


class SoldOut(ToolError):  # noqa: N818 - as people name them
    """An error of the shop's own that its tools declare."""

    def __init__(self, item: str, instead: Decimal) -> None:
        super().__init__(f"no {item}")
        self.instead = instead


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Parcel:
    number: int
    weight: Decimal


@dataclass
class HeavyParcel(Parcel):
    crane: str = "big"


class Customer(BaseModel):
    name: str
    age: int = 30


@Pod
class Shop:
    """Tools of every kind; the first argument names the business effect."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.basket: list[str] = ["apple"]

    @agent_tool(effects=READ)
    async def price(self, item: str) -> Decimal:
        """Return a price at once."""
        return Decimal("12.50") if item else Decimal(0)

    @agent_tool(effects=READ)
    async def look(self, item: str) -> str:
        """Return something after a turn of the loop."""
        await asyncio.sleep(0)
        return f"saw {item}"

    @agent_tool(effects=READ)
    async def slow(self, item: str, milliseconds: int = 3) -> str:
        """Return something after some time."""
        await asyncio.sleep(milliseconds / 1000)
        return f"found {item}"

    @agent_tool(effects=READ)
    async def colour(self, item: str) -> Colour:
        """Return an enum."""
        return Colour.RED if item == "apple" else Colour.BLUE

    @agent_tool(effects=READ)
    async def parcel(self, number: int) -> Parcel:
        """Return a dataclass."""
        return Parcel(number, Decimal("1.5"))

    @agent_tool(effects=READ)
    async def heavy(self, number: int) -> Parcel:
        """Return a subclass of what is declared."""
        return HeavyParcel(number, Decimal(40))

    @agent_tool(effects=READ)
    async def customer(self, name: str) -> Customer:
        """Return a pydantic model."""
        return Customer(name=name)

    @agent_tool(effects=READ)
    async def content(self) -> list[str]:
        """Return a list that the shop goes on changing."""
        return self.basket

    @agent_tool(effects=READ)
    async def stock(self, item: str) -> int:
        """Fail with an error of the shop's own, unless it is an apple."""
        if item != "apple":
            raise OutOfStock(f"no {item}")
        return 3

    @agent_tool(effects=READ, errors=[SoldOut])
    async def offer(self, item: str) -> int:
        """Fail with a declared error, unless it is an apple."""
        if item != "apple":
            raise SoldOut(item, Decimal("2.50"))
        return 3

    @agent_tool(effects=READ)
    async def refuses(self, item: str) -> str:
        """Fail for certain."""
        raise ToolError(f"no {item}")

    @agent_tool(effects=READ)
    async def breaks(self, item: str) -> str:
        """Fail with an error of Python."""
        raise ValueError(f"no {item}")

    @agent_tool(effects=CHANGE, idempotency=Idempotency.IDEMPOTENT, approval=UNASKED)
    async def mark(self, item: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Mark something; doing it again changes nothing."""
        return self.process.act(f"mark {item}", runtime_context.idempotency_key, once=True)

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def pay(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Pay for something."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def pay_slowly(
        self, item: str, runtime_context: AgentToolRuntimeContext, milliseconds: int = 5
    ) -> str:
        """Pay for something, which takes time."""
        await asyncio.sleep(milliseconds / 1000)
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)

    @agent_tool(
        effects=OUTSIDE,
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNASKED,
        reconcile="find",
        reads_untrusted=False,
    )
    async def ship(self, item: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Ship something; the carrier knows by the key whether it happened."""
        return self.process.act(f"ship {item}", runtime_context.idempotency_key)

    async def find(self, idempotency_key: str) -> str | None:
        """Return what the carrier knows about a key."""
        self.process.require_life()
        return self.process.world.by_key.get(idempotency_key)

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, reads_untrusted=False)
    async def transfer(self, item: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Transfer money; a person has to approve it."""
        return self.process.act(f"transfer {item}", runtime_context.idempotency_key)

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def order(self, item: str) -> str:
        """Call other tools."""
        price = await self.price(item)
        paid = await self.pay(item, note=str(price))
        return f"{paid}, {await self.ship(item)}"

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def order_with_approval(self, item: str) -> str:
        """Call a tool that a person has to approve."""
        await self.mark(item)
        return await self.transfer(item)

    @agent_tool(effects=READ)
    async def check(self, item: str) -> str:
        """Say that it only reads, and call tools that do more."""
        await self.look(item)
        await self.mark(item)
        return await self.transfer(item)

    @agent_tool(effects=READ)
    async def check_all(self, items: list[str]) -> list[str]:
        """Say that it only reads, and call such a tool for each item side by side."""
        return await asyncio.gather(*(self.check(item) for item in items))

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def buy(self, items: list[str]) -> str:
        """Order things one after the other: a tool in a tool in a tool."""
        return ";".join([await self.order(item) for item in items])

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def buy_at_once(self, items: list[str]) -> str:
        """Pay for things side by side."""
        return ";".join(await asyncio.gather(*[self.pay_slowly(item) for item in items]))

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def order_at_once(self, items: list[str]) -> str:
        """Order things side by side."""
        return ";".join(await asyncio.gather(*[self.order(item) for item in items]))

    @agent_tool(effects=CHANGE, idempotency=Idempotency.IDEMPOTENT, approval=UNASKED)
    async def arrange(self, item: str) -> str:
        """Call a tool that may not be repeated from one that may."""
        return f"{await self.order(item)}; {await self.mark(item)}"

    @agent_tool(effects=CHANGE, idempotency=Idempotency.IDEMPOTENT, approval=UNASKED)
    async def arrange_all(self, items: list[str]) -> str:
        """Call a tool that may be repeated, and calls one that may not, from one that may be repeated."""
        return ";".join([await self.arrange(item) for item in items])

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def buy_arranged(self, item: str) -> str:
        """Call a tool that may be repeated, which calls one that may not."""
        return f"{await self.pay('deposit')}; {await self.arrange(item)}"

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def pay_and_ask(self, item: str) -> str:
        """Pay for something while a person is asked about something else."""
        paid, sent = await asyncio.gather(self.pay_slowly(item), self.transfer(item))
        return f"{paid}; {sent}"

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def order_by_post(self, item: str, times: int = 1) -> str:
        """Call other tools; between two of them the connection is lost for a while."""
        paid = await self.pay(item)
        self.process.world.fail(f"post of {item}", times)
        return f"{paid}, {await self.ship(item)}"

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def order_all_by_post(self, items: list[str]) -> str:
        """Pay for things side by side, lose the connection once, and order by post."""
        paid = await asyncio.gather(*[self.pay_slowly(item) for item in items])
        self.process.world.fail("post of all")
        return f"{paid}; {[await self.order_by_post(f'{item} again') for item in items]}"

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def post(self, item: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Post something; the connection is lost before it is."""
        self.process.world.fail(f"post of {item}")
        return self.process.act(f"post {item}", runtime_context.idempotency_key)

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def order_with_approval_by_post(self, item: str) -> str:
        """Pay, lose the connection once, and call a tool that a person has to approve."""
        paid = await self.pay(item)
        self.process.world.fail(f"post of {item}")
        return f"{paid}, {await self.transfer(item)}"

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNASKED, reads_untrusted=False
    )
    async def steps(self, item: str) -> str:
        """Do something in a step between two payments."""
        first = await self.pay(item)
        mailed = await step("mail", lambda: self.process.act("mail", "step:mail#1"))
        return f"{first}; {mailed}; {await self.pay(f'{item} again')}"


class Recovery(Enum):
    """What a recovery handler does about unknown outcomes."""

    TELLS = "it looks up what took effect: done, or retry"
    ALTERNATES = "it does so every second time, and leaves the others to a person"


Body: TypeAlias = Callable[[Shop, IAgentModel], Awaitable[Any]]


@dataclass(frozen=True)
class Program:
    """A program and its verdict: a deterministic one completes, any other one may diverge where `may_diverge` says."""

    name: str
    body: Body
    may_diverge: tuple[str, ...]
    """The recorded actions at which it may diverge, by the last parts of their ids; none if it is deterministic."""
    replies: tuple[str, ...]
    at_most: int | None
    """The most business effects that an uninterrupted run has, where that depends on chance or time."""
    at_least: int
    """The fewest business effects that a completed run has."""
    recovery: Recovery | None
    """What the application's recovery handler does; None if there is none."""
    depends_on_time: bool
    """Whether its effects and output depend on which of two things is faster: it completes, but not always the same."""

    @property
    def is_deterministic(self) -> bool:
        return not self.may_diverge

    def agent(self) -> type[object]:
        """Return an agent that runs the program."""
        body = self.body

        @Agent(spec=DURABLE)
        class Clerk:
            """Runs a program of the kit."""

            def __init__(self, model: IAgentModel, shop: Shop) -> None:
                self.model, self.shop = model, shop

            async def execute(self) -> str:
                return f"{await body(self.shop, self.model)}"

        return Clerk


PROGRAMS: dict[str, Program] = {}


def program(
    *,
    may_diverge: str = "",
    replies: tuple[str, ...] = (),
    at_most: int | None = None,
    at_least: int = 0,
    recovery: Recovery | None = None,
    depends_on_time: bool = False,
) -> Callable[[Body], Body]:
    """Add a function to the kit: where it may diverge, as words; `replies` are what the model says."""

    def add(body: Body) -> Body:
        name: str = body.__name__
        if name in PROGRAMS:
            raise ValueError(f"two programs are called {name!r}")
        PROGRAMS[name] = Program(
            name, body, tuple(may_diverge.split()), replies, at_most, at_least, recovery, depends_on_time
        )
        return body

    return add
