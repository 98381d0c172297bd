"""A shop whose agents and tools are served over MCP: the application of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import mcp_types as types
from mcp import Client
from mcp.client import advertise

from pilotage import (
    Agent,
    AgentYield,
    Application,
    Final,
    Pod,
    Principal,
    ToolApprovalRequirement,
    ToolEffects,
    ToolError,
    agent_tool,
    step,
)
from pilotage.adapters.mcp_server import McpExports, exported_tools, mcp_server
from pilotage.agent.principal import LOCAL
from pilotage.safety import PII, SensitiveField
from pilotage.testing import MemoryStore, ScriptedModel

TASKS = "io.modelcontextprotocol/tasks"
KEY = "io.pilotage/idempotency-key"
MODERN, LEGACY = "auto", "legacy"
ADA, BOB = Principal("ada", tenant="navy"), Principal("bob", tenant="army")


@dataclass
class Item:
    name: str
    parts: list[Item] | None = None


@dataclass
class Receipt:
    number: int
    to: str


@dataclass
class Customer:
    name: str
    email: Annotated[str, SensitiveField(PII.EMAIL)]


@Pod
class Bank:
    """The outside world."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self) -> int:
        """Return the balance."""
        return 100 - sum(self.paid)

    @agent_tool(approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, amount: int, to: str = "shop") -> Receipt:
        """Pay an amount."""
        self.paid.append(amount)
        return Receipt(len(self.paid), to)

    @agent_tool(approval=ToolApprovalRequirement.NOT_REQUIRED, permissions=())
    async def slow(self) -> str:
        """Wait for the gate."""
        self.waiting.set()
        await self.gate.wait()
        return "through"

    @agent_tool(approval=ToolApprovalRequirement.NOT_REQUIRED)
    async def fail(self) -> str:
        """Fail with words for the caller."""
        raise ToolError("the bank is closed")


@Agent
class Greeter:
    """Greet somebody."""

    async def execute(self, name: str, times: int = 1) -> str:
        return ", ".join([f"Hello {name}"] * times)


@Agent(durable=True)
class Clerk:
    """Pay what is asked for.

    Secret rules of the clerk.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank


@Agent(durable=True)
class Payer:
    """Pay twice, in two steps."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, first: int, second: int) -> AsyncGenerator[AgentYield[list[Receipt]], None]:
        one = await self.bank.pay(first)
        await step("rest", lambda: None)
        two = await self.bank.pay(second)
        yield Final([one, two])


@Agent(durable=True)
class Waiter:
    """Wait for the gate of the bank."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self) -> str:
        return await self.bank.slow()


@Agent
class Packer:
    """Count the parts of an item."""

    async def execute(self, item: Item) -> int:
        return 1 + len(item.parts or [])


@Agent
class Teller:
    """Tell about a customer."""

    async def execute(self) -> Customer:
        return Customer("Ada", "ada@example.org")


@Agent
class Breaker:
    """Break."""

    async def execute(self) -> str:
        raise RuntimeError("password=hunter2")


AGENTS = (Greeter, Clerk, Payer, Waiter, Packer, Teller, Breaker)


def shop(*pods: Any, model: ScriptedModel | None = None, store: MemoryStore | None = None) -> Application:
    """The application, with a store in memory."""
    app = Application("shop").load_plugins(include=["agent", "runtime"])
    kept = store or MemoryStore()
    return app.add(Bank, *AGENTS, *exported_tools(Bank), model or ScriptedModel([]), *kept.ports, *pods)


@asynccontextmanager
async def connected(
    app: Application,
    mode: str = MODERN,
    *,
    principal: Principal = LOCAL,
    exports: McpExports | None = None,
    tasks: bool = False,
    answers: Any = None,
    **options: Any,
) -> AsyncGenerator[Client]:
    """The client of the SDK, in memory."""
    server = mcp_server(app, exports, principal=principal)
    extensions = [advertise(TASKS, {})] if tasks else None
    async with Client(
        server, mode=mode, elicitation_callback=answers, extensions=extensions, cache=None, **options
    ) as client:
        yield client


def filled(**content: Any) -> types.ElicitResult:
    """A form that was filled in."""
    return types.ElicitResult(action="accept", content=content)


def text_of(result: types.CallToolResult) -> str:
    """The text of a result."""
    return "".join(each.text for each in result.content if isinstance(each, types.TextContent))


def keyed(key: str) -> Any:
    """The `_meta` of a call with an idempotency key."""
    return {KEY: key}


def run_id_of(result: types.CallToolResult) -> str:
    """The run of a result."""
    meta: Mapping[str, Any] = result.meta or {}
    return str(meta["io.pilotage/run"]["id"])
