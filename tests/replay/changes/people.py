"""Changes of what people, policies and the outside decide: approvals, permissions, hooks, guards, signals."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentToolRuntimeContext,
    AgentYield,
    IAgentModel,
    Idempotency,
    Pod,
    Progress,
    RunContext,
    agent_tool,
)
from pilotage.agent import AgentSignal, HookVerdict, IAgentHooks, ModelToolCall, Proceed, Veto, on_signal
from pilotage.agent.ports.handlers import IAgentOutputGuard
from pilotage.agent.ports.permissions import PermissionRule, PermissionRules, PermissionVerdict
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import next_signal, sleep
from tests.replay.changes.tools import ORDER, ORDERED, order
from tests.replay.kit import OUTSIDE, Process, Shop
from tests.replay.releases import DURABLE, Body, Diverges, Fails, GoesOn, Release, change, next_shop, written

ONCE = Idempotency.NON_IDEMPOTENT
APPLE = "pay apple, ship apple"


@next_shop
class AskingShop(Shop):
    @agent_tool(effects=OUTSIDE, idempotency=ONCE, reads_untrusted=False)
    async def pay(self, item: str, runtime_context: AgentToolRuntimeContext, note: str = "") -> str:
        """Pay for something; a person has to approve it."""
        return self.process.act(f"pay {item}", runtime_context.idempotency_key)


change(
    "a tool needs an approval",
    ORDER,
    written(order, AskingShop),
    GoesOn(ORDERED.output, APPLE, asks="run/tool:pay#1"),
    ORDERED,
    ORDERED,
    ORDERED,
)
change("a tool needs no approval any more", written(order, AskingShop), ORDER, *[ORDERED] * 4)


def rules(verdict: PermissionVerdict) -> PermissionRules:
    return PermissionRules([PermissionRule(verdict, name="ship")], otherwise=PermissionVerdict.ALLOW)


change(
    "a policy denies a tool",
    ORDER,
    written(order, Shop, rules(PermissionVerdict.DENY)),
    Fails("ship", "pay apple"),
    Fails("ship", "pay apple"),
    Fails("ship", "pay apple"),
    ORDERED,
)
SHIP_ASKED = GoesOn(ORDERED.output, APPLE, asks="run/tool:ship#1")
change(
    "a policy asks about a tool",
    ORDER,
    written(order, Shop, rules(PermissionVerdict.ASK)),
    SHIP_ASKED,
    SHIP_ASKED,
    ORDERED,
    ORDERED,
)


@Pod
class Vetoes(IAgentHooks):
    """Vetoes shipping."""

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return Veto("closed") if call.name == "ship" else Proceed()


CLOSED = Fails("closed", "pay apple")
change("a hook vetoes a tool", ORDER, written(order, Shop, Vetoes), CLOSED, CLOSED, CLOSED, ORDERED)


@Pod
class Guard(IAgentOutputGuard):
    """Hides the answer."""

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        return "hidden"


HIDDEN = GoesOn("hidden", APPLE)
change(
    "a guard of answers is added",
    ORDER,
    written(order, Shop, Guard),
    HIDDEN,
    HIDDEN,
    HIDDEN,
    Diverges("run/result#1/approval"),
)

EVENT, WAKE_UP = AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP


def hearing(kind: AgentSignalKind) -> Body:
    async def body(shop: Shop, model: IAgentModel) -> str:
        await shop.pay("apple")
        heard = await next_signal(kind)
        return f"{heard.payload['text']}; {await shop.ship('apple')}"

    return body


def listening(kind: AgentSignalKind) -> Release:
    sent = ((kind, {"text": kind.value}),)
    return written(hearing(kind), accepted_signals=[EVENT, WAKE_UP], untrusted_signals=[EVENT], signals=sent)


WOKEN = GoesOn("scheduler_wake_up; ship apple done", APPLE)
SIGNAL = Diverges("run/signal:scheduler_wake_up#1")
change(
    "a program waits for another signal",
    listening(EVENT),
    listening(WAKE_UP),
    WOKEN,
    WOKEN,  # nothing is recorded of a wait for a signal before the signal is taken in
    SIGNAL,
    SIGNAL,
)


class Sleeper:
    """Pays, sleeps, ships."""

    def __init__(self, model: IAgentModel, process: Process) -> None:
        self.shop = Shop(process)

    async def execute(self) -> str:
        await self.shop.pay("apple")
        await sleep(3600)
        return await self.shop.ship("apple")


SPEC = AgentExecutionSpec(name="clerk", recovery=DURABLE, accepted_signals=[EVENT])


@Agent(name="clerk", spec=SPEC)
class DeafClerk(Sleeper):
    """Takes no signal in."""


@Agent(name="clerk", spec=SPEC)
class HearingClerk(Sleeper):
    """Marks every event."""

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress("heard")
        await self.shop.mark("event")


EVENT_SENT = ((EVENT, {"text": "fire"}),)
DEAF, HEARS = Release((DeafClerk,), signals=EVENT_SENT), Release((HearingClerk,), signals=EVENT_SENT)
BEFORE_SHIP, AT_END = "run/on_signal:tool:ship#1/1/tool:mark#1", "run/on_signal:end#1/1/tool:mark#1"
# What comes from outside is not trusted: a person is asked about what is done behind it.
HEARD = GoesOn("ship apple done", "pay apple, mark event, ship apple", asks=f"{BEFORE_SHIP}, run/tool:ship#1")
HEARD_LATE = GoesOn("ship apple done", f"{APPLE}, mark event", asks=AT_END)
UNHEARD = GoesOn("ship apple done", APPLE)
change("a handler of signals is added", DEAF, HEARS, HEARD, HEARD, HEARD, HEARD_LATE, HEARD_LATE)
change(
    "a handler of signals is removed",
    HEARS,
    DEAF,
    UNHEARD,
    UNHEARD,
    UNHEARD,
    *[Diverges(BEFORE_SHIP)] * 3,
)
