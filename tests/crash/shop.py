"""A shop whose agent uses every kind of tool, and an outside world that remembers what was done to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from decimal import Decimal

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentToolRuntimeContext,
    AgentYield,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    RecoveryStrategy,
    Token,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.testing import ProcessStopped

NO_APPROVAL = ToolApprovalRequirement.NOT_REQUIRED
DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


class World:
    """What is outside: it outlives every process, counts effects by their key, and may see a process die."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.by_key: dict[str, str] = {}
        self.calls = 0
        self.dies_before: int | None = None
        self.dies_after: int | None = None

    def act(self, what: str, key: str, *, once: bool = False) -> str:
        """Let something happen; `once` is a system that knows keys and does nothing for one it has seen."""
        self.calls += 1
        if self.calls == self.dies_before:
            raise ProcessStopped(f"before effect {self.calls}")
        if not (once and key in self.by_key):
            self.done[what] += 1
            self.by_key[key] = f"{what}-{self.done[what]}"
        if self.calls == self.dies_after:
            raise ProcessStopped(f"after effect {self.calls}")
        return self.by_key[key]


@Pod
class Shop:
    """One tool of each kind."""

    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, order: str) -> Decimal:
        """Look up what an order cost."""
        return Decimal("12.50") if order else Decimal(0)

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=NO_APPROVAL)
    async def mark(self, order: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Mark an order; doing it again changes nothing."""
        return self.world.act("mark", runtime_context.idempotency_key, once=True)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=NO_APPROVAL,
        reads_untrusted=False,
    )
    async def pay(self, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Pay; nobody can find out whether it happened but by looking."""
        return self.world.act("pay", runtime_context.idempotency_key)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=NO_APPROVAL,
        reconcile="find_parcel",
        reads_untrusted=False,
    )
    async def ship(self, order: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Ship; the carrier knows by the key whether it happened."""
        return self.world.act("ship", runtime_context.idempotency_key)

    async def find_parcel(self, idempotency_key: str) -> str | None:
        """What the carrier knows about a key."""
        return self.world.by_key.get(idempotency_key)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reads_untrusted=False,
    )
    async def refund(self, amount: Decimal, runtime_context: AgentToolRuntimeContext) -> str:
        """Give money back; somebody has to allow it."""
        return self.world.act("refund", runtime_context.idempotency_key)


@Agent(spec=DURABLE)
class Clerk:
    """Handles an order with every kind of tool."""

    def __init__(self, model: IAgentModel, shop: Shop) -> None:
        self.model, self.shop = model, shop

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[list[str]], None]:
        yield Progress("looking up the price")
        amount = await self.shop.price(order)
        text = ""
        async for event in self.model.stream(ModelRequest([ModelMessage.user(f"pay {amount}?")])):
            if event.is_text_delta:
                text += event.text
                yield Token(event.text)
        receipts = [
            text,
            await self.shop.mark(order),
            await self.shop.pay(amount),
            await self.shop.ship(order),
        ]
        yield Progress("giving it back")
        receipts.append(await self.shop.refund(amount))
        yield Final(receipts)


RECEIPTS = ["Yes.", "mark-1", "pay-1", "ship-1", "refund-1"]
