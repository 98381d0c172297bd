"""Changes of agents: prompts, tools, limits, architectures, names and places of classes, teammates, folds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.events import AgentEvent
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.architectures import PlanAndExecute, React
from pilotage.testing import calls, says, when
from tests.replay.changes.calls import bought
from tests.replay.changes.tools import APPLE, ORDER, ORDERED, order
from tests.replay.kit import Process, Shop
from tests.replay.releases import DURABLE, Diverges, Fails, GoesOn, Refused, Release, change, written

GIVEN = ("sell",)
PAYS = (calls("pay", item="apple"), calls("ship", item="apple"), says("done"))


def declared(*pods: object, **spec: Any) -> Release:
    """Return a release with an agent that its model drives."""
    made = {"name": "clerk", "recovery": DURABLE, "instructions": "Sell.", **spec}

    @Agent(name="clerk", spec=AgentExecutionSpec(**made))
    class Clerk:
        """Sells."""

        def __init__(self, shop: Shop) -> None:
            self.shop = shop

    return Release((Clerk,), (Shop, *pods), replies=PAYS, given=GIVEN)


DECLARED = declared()
DONE = GoesOn("done", APPLE)
change("instructions are changed", DECLARED, declared(instructions="Sell dearly."), *[DONE] * 6)
change("the version of an agent is raised", DECLARED, declared(version=2), *[DONE] * 6)


@Pod
class Clock:
    @agent_tool(effects=ToolEffects.read_only())
    async def clock(self) -> str:
        """Tell the time."""
        return "noon"


@Agent(name="clerk", spec=AgentExecutionSpec(name="clerk", recovery=DURABLE, instructions="Sell."))
class ClerkWithClock:
    """Sells, and knows the time."""

    def __init__(self, shop: Shop, clock: Clock) -> None:
        self.shop, self.clock = shop, clock


change(
    "an agent gets a tool",
    DECLARED,
    Release((ClerkWithClock,), (Shop, Clock), replies=PAYS, given=GIVEN),
    *[DONE] * 6,
)


@Agent(name="clerk", spec=AgentExecutionSpec(name="clerk", recovery=DURABLE, instructions="Sell."))
class ClerkWithoutShop:
    """Has lost its tools."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock


MODEL = Diverges("run/model#2")
change(
    "an agent loses the tools it has called",
    DECLARED,
    Release((ClerkWithoutShop,), (Clock,), replies=PAYS, given=GIVEN),
    GoesOn("done", ""),  # the model reads that there is no such tool
    MODEL,
    *[Diverges("run/tool:pay#1")] * 4,
)
# The limits of a run are those it was started with.
FEW_STEPS, FEW_CALLS = AgentExecutionLimits(max_steps=1), AgentExecutionLimits(max_tool_calls=1)
change("the limit of steps is lowered", DECLARED, declared(limits=FEW_STEPS), *[DONE] * 6)
change("the limit of tool calls is lowered", DECLARED, declared(limits=FEW_CALLS), *[DONE] * 6)
change(
    "the architecture allows fewer turns",
    DECLARED,
    declared(architecture=React(max_turns=1)),
    Fails("agent_max_steps_exceeded", "pay apple"),
    Fails("agent_max_steps_exceeded", "pay apple"),
    *[MODEL] * 4,
)
change(
    "the architecture is another one",
    DECLARED,
    declared(architecture=PlanAndExecute()),
    Fails("no usable Plan", ""),  # the first model call is one in both
    *[MODEL] * 5,
)
# A durable run stays one.
change(
    "an agent is not durable any more", ORDER, written(order, recovery=RecoveryStrategy.NONE), *[ORDERED] * 4
)


def moved() -> Release:
    """Return the release in which the class of the agent is in another module and has another name."""
    release = written(order)
    agent = release.agents[0]
    agent.__module__, agent.__qualname__ = "elsewhere.clerks", "Salesman"
    return release


change("the class of an agent is moved and renamed", ORDER, moved(), *[ORDERED] * 4)


@Agent(name="salesman", spec=AgentExecutionSpec(name="salesman", recovery=DURABLE))
class Salesman:
    """The agent under another name."""

    def __init__(self, process: Process) -> None:
        self.shop = Shop(process)

    async def execute(self) -> str:
        return await bought(self.shop)


change("an agent is renamed", ORDER, Release((Salesman,)), *[Refused("clerk")] * 4)
change("a time limit is added", ORDER, written(order, timeout_seconds=60.0), *[ORDERED] * 4)


def teammate(name: str) -> type[object]:
    @Agent(name=name, spec=AgentExecutionSpec(name=name, recovery=DURABLE, instructions=f"I am the {name}."))
    class Mate:
        """Helps."""

        def __init__(self, shop: Shop) -> None:
            self.shop = shop

    return Mate


def team(name: str, asked: str) -> Release:
    """Return a release with an agent that asks a teammate, and pays."""
    mate = teammate(name)

    @Agent(
        name="clerk",
        spec=AgentExecutionSpec(
            name="clerk",
            recovery=DURABLE,
            instructions="I am the clerk.",
            delegation_allowed=True,
            teammates=[AgentTeammate(name, pod=mate)],
        ),
    )
    class Clerk:
        """Asks."""

        def __init__(self, shop: Shop) -> None:
            self.shop = shop

    replies = (
        when("I am the clerk.", calls(asked, task="which?"), calls("pay", item="apple"), says("done")),
        when("I am the", says("apples")),
    )
    return Release((Clerk, mate), (Shop,), replies=replies, given=GIVEN)


change(
    "a teammate is renamed",
    team("grocer", "ask_grocer"),
    team("dealer", "ask_grocer"),
    GoesOn("done", "pay apple"),  # the model reads that there is no such tool
    *[MODEL] * 5,
)


Play = Callable[[Dependencies], Awaitable[object]]


class Script:
    """An architecture that plays what it is given."""

    name = "script"
    version = 1

    def __init__(self, play: Play) -> None:
        self._play = play

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        yield deps.progress("begun")
        session.output = await self._play(deps)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return no workers."""
        return {}


async def use(deps: Dependencies, tool: str, item: str) -> None:
    await deps.tools.call(ModelToolCall(tool, {"item": item}, "call"))


def looping(label: str = "turns", last: int = 3, *, has_more: bool = False) -> Release:
    """Return a release whose agent pays in the turns of a loop."""

    async def play(deps: Dependencies) -> object:
        async def turn(number: int) -> int | None:
            if number >= last:
                return None
            await use(deps, "pay", str(number))
            if has_more:
                await use(deps, "mark", str(number))
            return number + 1

        return await deps.runtime.loop(label, 0, turn)

    return declared(architecture=Script(play))


def branching(*items: str, bug: str | None = None) -> Release:
    """Return a release whose agent pays in branches."""

    async def play(deps: Dependencies) -> object:
        async def branch(item: str) -> str:
            if item == bug:
                raise KeyError("bug")
            await use(deps, "pay", item)
            return item

        return ",".join(await deps.runtime.gather("b", [partial(branch, item) for item in items]))

    return declared(architecture=Script(play))


FOUR = GoesOn("4", "pay 0, pay 1, pay 2, pay 3")
change(
    "a turn of a loop does more",
    looping(),
    looping(has_more=True),
    GoesOn("3", "pay 0, mark 0, pay 1, mark 1, pay 2, mark 2"),
    GoesOn("3", "pay 0, pay 1, mark 1, pay 2, mark 2"),  # finished turns are folded
    GoesOn("3", "pay 0, pay 1, pay 2, mark 2"),
    GoesOn("3", "pay 0, pay 1, pay 2"),
)
change("a loop ends later", looping(), looping(last=4), FOUR, FOUR, FOUR, GoesOn("3", "pay 0, pay 1, pay 2"))
change(
    "a loop ends earlier",
    looping(),
    looping(last=1),
    GoesOn("1", "pay 0"),
    Diverges("run/turns#1/2/tool:pay#1"),
    Diverges("run/turns#1/3/tool:pay#1"),
    GoesOn("3", "pay 0, pay 1, pay 2"),
)
change(
    "a loop is renamed",
    looping(),
    looping("rounds"),
    Diverges("run/turns#1/1/tool:pay#1"),
    Diverges("run/turns#1/2/tool:pay#1"),
    Diverges("run/turns#1/3/tool:pay#1"),
    Diverges("run/turns#1/1"),
)
AB = GoesOn("a,b", "pay a, pay b")
change(
    "a gather of the runtime has one branch more",
    branching("a", "b"),
    branching("a", "b", "c"),
    GoesOn("a,b,c", "pay b, pay c, pay a"),
    GoesOn("a,b,c", "pay a, pay b, pay c"),
    AB,  # a finished gather is folded
)
change(
    "a gather of the runtime has one branch less",
    branching("a", "b"),
    branching("a"),
    Diverges("run/b#1/1"),  # the branch is folded
    Diverges("run/b#1/1/tool:pay#1"),
    Diverges("run/b#1"),
)
change(
    "a gather of the runtime has another order",
    branching("a", "b"),
    branching("b", "a"),
    Diverges("run/b#1/0/tool:pay#1/approval"),
    Diverges("run/b#1/1/tool:pay#1/approval"),
    AB,
)
change(
    "a branch of a gather gets a bug",
    branching("a", "b"),
    branching("a", "b", bug="b"),
    GoesOn("a,b", "pay b, pay a"),  # a finished branch is folded
    Diverges("run/b#1/1/tool:pay#1"),
    AB,
)
