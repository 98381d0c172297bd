"""The agents of the golden runs. Their programs, names and instructions stay as they are: stored runs replay them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, TypeVar

from pilotage import (
    PII,
    Agent,
    AgentEvent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentYield,
    Evidence,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    RecoveryStrategy,
    SensitiveField,
    Token,
    get_run_context,
)
from pilotage.agent import (
    AgentDelegateTarget,
    AgentRef,
    AgentSession,
    AgentSignal,
    AgentTeammate,
    BudgetPeriod,
    BudgetWindow,
    ContextTokenBudget,
    DelegationBudget,
    DelegationContextSlice,
    DelegationPacket,
    Dependencies,
    FailurePolicy,
    IAgentBudget,
    IAgentDelegate,
    ITenantSpending,
    MemoryUse,
    ModelToolCall,
    RejectionPolicy,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
    on_signal,
)
from pilotage.architectures import PlanAndExecute, Router, SelfRefine, Supervisor
from pilotage.context import SummariseOldTurns
from pilotage.errors import ToolError
from pilotage.runtime import MemoryTools, TenantBudget, next_signal, now, random, step, uid
from tests.golden.outside import Crates, Hands, Papers, Weather

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
EVENT, MESSAGE = AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.USER_MESSAGE
STEERING = AgentSignalKind.STEERING_INSTRUCTION
T = TypeVar("T")


@Agent(spec=AgentExecutionSpec(name="worker", recovery=DURABLE, accepted_signals=[EVENT]))
class Worker:
    """Calls tools and building blocks one after the other, by their names."""

    def __init__(
        self, model: IAgentModel, hands: Hands, papers: Papers, crates: Crates, weather: Weather
    ) -> None:
        self.model, self.weather = model, weather
        self.hands, self.papers, self.crates = hands, papers, crates

    async def execute(self, case: str, calls: list[str]) -> AsyncGenerator[AgentYield[list[str]], None]:
        results: list[str] = []
        for number, call in enumerate(calls):
            if call == "talk":
                text = ""
                async for event in self.model.stream(ModelRequest([ModelMessage.user(f"[{case}] Talk.")])):
                    if event.is_text_delta:
                        text += event.text
                        yield Token(event.text)
                results.append(text)
            elif call == "tell":
                yield Progress("half way", current_step="one")
                yield Evidence({"seen": case})
            else:
                results.append(await self._called(call, f"{case} {number} {call}"))
        yield Final(results)

    async def _called(self, call: str, what: str) -> str:
        blocks: dict[str, Callable[[], Awaitable[object]]] = {
            "now": lambda: _kind_of(now()),
            "uid": lambda: _kind_of(uid()),
            "random": lambda: _kind_of(random()),
            "step": partial(step, "measure", partial(_measured, what), idempotency=Idempotency.IDEMPOTENT),
            "wait": self._event,
            "letter": self._letter,
            "changeable": lambda: self.hands.look("another thing" if self.weather.changed else "a thing"),
            "caught": self._caught,
            "pack": partial(self.crates.pack, what),
            "together": partial(self._together, what),
        }
        if call in blocks:
            return str(await blocks[call]())
        return str(await getattr(self.hands, call)(what))

    async def _together(self, what: str) -> list[str]:
        """Tasks of asyncio, each a branch of its own."""
        calls = (self.hands.ask(f"{what} a"), self.hands.write(f"{what} b"), self.hands.ask(f"{what} c"))
        return list(await asyncio.gather(*calls))

    async def _event(self) -> str:
        return f"heard {(await next_signal(EVENT)).payload['text']}"

    async def _letter(self) -> str:
        letter = await self.papers.letter("ada")
        return f"{len(letter.text)} {letter.account}"

    async def _caught(self) -> str:
        try:
            return await self.hands.fail("luck")
        except ToolError as error:
            return str(error)


async def _kind_of(given: Awaitable[object]) -> str:
    return type(await given).__name__


async def _measured(what: str) -> str:
    return f"measured {what}"


@Agent(spec=AgentExecutionSpec(name="listener", recovery=DURABLE, accepted_signals=[EVENT, MESSAGE]))
class Listener:
    """Notes events from outside in a handler, and does what is allowed."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    async def execute(self, case: str) -> list[str]:
        # The first wait gives the signal time to come; the handler runs before the second.
        return [await self.hands.ask(f"{case} first"), await self.hands.ask(f"{case} second")]

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress(f"heard {signal.payload['text']}")
        yield Evidence(await self.hands.note(f"{signal.payload['text']} noted"))


@Agent(spec=AgentExecutionSpec(name="rower", recovery=DURABLE, accepted_signals=[STEERING]))
class Rower:
    """Does nothing before it is steered."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    async def execute(self, case: str) -> str:
        steered = (await next_signal(STEERING)).payload["text"]
        return await self.hands.note(f"{case} {steered}")


@Agent(spec=AgentExecutionSpec(name="banker", recovery=DURABLE))
class Banker:
    """Is given an account that only its caller may see."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    async def execute(self, account: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]) -> str:
        return f"{account}: {await self.hands.ask('sealed-input ask')}"


@Agent(spec=AgentExecutionSpec(name="delegator", recovery=DURABLE, delegation_allowed=True))
class Delegator:
    """Delegates a packet to the worker."""

    def __init__(self, delegate: IAgentDelegate) -> None:
        self.delegate = delegate

    async def execute(self, case: str, calls: list[str]) -> object:
        packet = DelegationPacket(
            f"{case}-1",
            get_run_context().run_id,
            AgentDelegateTarget("worker"),
            {"case": case, "calls": list(calls)},
            DelegationContextSlice(summary="What is known."),
            ("be quick",),
            budget=DelegationBudget(max_steps=5),
        )
        result = await self.delegate.delegate_tool_result(packet)
        return result.summary


class Played:
    """An architecture of these tests: what the prompt names is played."""

    name = "played"
    version = 1

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        yield deps.progress("begun")
        session.output = await PLAYS[prompt](deps)
        yield deps.progress("played")

    def declared_workers(self) -> Mapping[str, AgentRef]:
        return {}


async def _tool(deps: Dependencies, tool: str, what: str) -> str:
    outcome = await deps.tools.call(ModelToolCall(tool, {"what": what}, f"{tool} {what}"))
    return outcome.error or str(outcome.result)


async def _branches(deps: Dependencies) -> object:
    async def branch(number: int) -> str:
        return await _tool(deps, "write" if number == 0 else "ask", f"branches {number}")

    return list(await deps.runtime.gather("sides", [partial(branch, number) for number in range(3)]))


async def _folded(deps: Dependencies) -> object:
    async def branch(number: int) -> str:
        if number == 2:
            raise ToolError("no luck")
        return await _tool(deps, "write", f"folded {number}")

    sides = [partial(branch, number) for number in range(3)]
    done = await deps.runtime.gather("sides", sides, policy=FailurePolicy.COLLECT, limit=2)
    return [*map(str, done[:2]), await _tool(deps, "ask", "folded ask")]


async def _loop(deps: Dependencies) -> object:
    async def turn(state: dict[str, int]) -> dict[str, int] | None:
        number = state["number"]
        if number == 4:
            return None
        await _tool(deps, "ask" if number == 3 else "write", f"loop {number}")
        return {"number": number + 1}

    return await deps.runtime.loop("rounds", {"number": 0}, turn)


async def _child(case: str, *calls: str, deps: Dependencies) -> object:
    return await deps.runtime.spawn_child("kid", "worker", {"case": case, "calls": list(calls)})


async def _child_finished(deps: Dependencies) -> object:
    return [
        await _child("child-finished", "write", deps=deps),
        await _tool(deps, "ask", "child-finished ask"),
        await deps.runtime.uid() != "",
    ]


async def _children_in_branches(deps: Dependencies) -> object:
    branches = [partial(_child, f"child-{n}", "note", "ask", deps=deps) for n in range(2)]
    return list(await deps.runtime.gather("kids", branches))


PLAYS: Mapping[str, Callable[[Dependencies], Awaitable[object]]] = {
    "branches": _branches,
    "folded": _folded,
    "loop": _loop,
    "child-finished": _child_finished,
    "child-waiting": lambda deps: _child("child-waiting", "write", "ask", deps=deps),
    "child-torn": lambda deps: _child("child-torn", "write", deps=deps),
    "children-in-branches": _children_in_branches,
}


@Agent(spec=AgentExecutionSpec(name="player", recovery=DURABLE, architecture=Played()))
class Player:
    """Plays what its prompt names."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands


def _speaker(name: str, **spec: object) -> type[object]:
    """A declarative agent with all tools, known to the model by its instructions."""

    @Agent(
        name=name,
        spec=AgentExecutionSpec(
            **{"name": name, "recovery": DURABLE, "instructions": f"You are the {name}.", **spec}  # type: ignore[arg-type]
        ),
    )
    class Speaker:
        def __init__(self, hands: Hands) -> None:
            self.hands = hands

    return Speaker


Clerk = _speaker("clerk", on_rejection=RejectionPolicy.TELL_MODEL, accepted_signals=[MESSAGE, EVENT])
Teller = _speaker(
    "teller",
    redaction=StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[BADGE]")]),
)
Bounded = _speaker("bounded", limits=AgentExecutionLimits(max_steps=1))
Witness = _speaker("witness", prompt_snapshots=True)
Typist = _speaker("typist", output_type=dict[str, int])
Planner = _speaker("planner", architecture=PlanAndExecute(max_replans=1, max_steps=3))
Research, Writing = _speaker("research"), _speaker("writing")
Chief = _speaker("chief", architecture=Supervisor(workers={"research": Research, "writing": Writing}))
Desk = _speaker("desk", architecture=Router(routes={"research": Research, "writing": Writing}))
Refiner = _speaker("refiner", architecture=SelfRefine(max_rounds=1))
Editor = _speaker("editor", delegation_allowed=True, teammates=[AgentTeammate("colleague", pod=Writing)])


@Agent(
    spec=AgentExecutionSpec(
        name="butler", recovery=DURABLE, instructions="You are the butler.", memory=MemoryUse(most=3)
    )
)
class Butler:
    """Remembers people."""

    def __init__(self, tools: MemoryTools, hands: Hands) -> None:
        self.tools, self.hands = tools, hands


@Agent(
    spec=AgentExecutionSpec(
        name="reader",
        recovery=DURABLE,
        instructions="You are the reader.",
        context_budget=ContextTokenBudget(max_tokens=900, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Reads pages of strangers."""

    def __init__(self, papers: Papers, hands: Hands) -> None:
        self.papers, self.hands = papers, hands


@Pod
def tenant_budget(spending: ITenantSpending) -> IAgentBudget:
    """A budget for all runs of a tenant, larger than anything here."""
    return TenantBudget(spending, [BudgetWindow(BudgetPeriod.MONTH, max_steps=1_000, max_tokens=1_000_000)])


AGENTS: tuple[object, ...] = (
    *(
        Worker,
        Listener,
        Rower,
        Banker,
        Delegator,
        Player,
        Clerk,
        Teller,
        Bounded,
        Reader,
        Witness,
        Typist,
        Butler,
    ),
    *(Planner, Research, Writing, Chief, Desk, Refiner, Editor),
)
