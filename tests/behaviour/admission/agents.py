"""The agents of the scenes, and the programs by which they come to an effect.

Every program makes one harmless call of the same kind first, so that a limit of one is used up, and then arms the
stages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from tests.behaviour.admission.stages import Refusals, Stage

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    RecoveryStrategy,
    SecretField,
    ToolEffects,
    agent_tool,
    get_run_context,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.errors import ModelCallError, ToolError
from pilotage.runtime import next_signal, step, uid
from pilotage.testing import ScriptedModel

UNGATED = ToolApprovalRequirement.NOT_REQUIRED
EVENT = AgentSignalKind.SCHEDULER_WAKE_UP
QUESTION = "Now answer."


@dataclass(frozen=True)
class Account:
    """What a run holds secret data with, once it has read it."""

    name: str
    pin: Annotated[str, SecretField()]


@Pod
class Tools:
    """Tools over the outside world; `refusals` records what was carried out."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self) -> str:
        """Look at something that everybody may know."""
        return "seen"

    @agent_tool(effects=ToolEffects.read_only())
    async def account(self) -> Account:
        """Look an account up, its secret included."""
        return Account("ada", "0000")

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def send(self) -> str:
        """Send something to the outside."""
        self._refusals.carried_out.append("send")
        return "sent"

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def lose(self) -> str:
        """Send something, and lose the answer."""
        await self._refusals.arm()
        raise ConnectionError("no answer")

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def repeat(self) -> str:
        """Send something that changes nothing when it is sent again."""
        self._refusals.carried_out.append("repeat")
        return "sent"


@Agent(spec=AgentExecutionSpec(name="child", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Child:
    """Does one thing for another agent."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    async def execute(self, task: str) -> str:
        self._refusals.carried_out.append("child")
        return task


class SceneModel(IAgentModel):
    """Records the requests that reach it, and arms the stages before the reply that `arms_at` counts."""

    def __init__(self, refusals: Refusals, script: ScriptedModel, arms_at: int = 0) -> None:
        self._refusals = refusals
        self._script = script
        self._arms_at = arms_at
        self._asked = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await self._note(request)
        return await self._script.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        await self._note(request)
        async for event in self._script.stream(request):
            yield event

    async def _note(self, request: ModelRequest) -> None:
        self._asked += 1
        is_answer = request.messages[-1].text == QUESTION
        self._refusals.carried_out.append("model" if is_answer else f"request {self._asked}")
        if self._asked == self._arms_at:
            await self._refusals.arm()


Program: TypeAlias = Callable[["Acting"], Awaitable[object]]


class ProgramOf:
    """The program of an agent, as a pod."""

    def __init__(self, run: Program) -> None:
        self.run = run


class Acting:
    """An agent that does what its program says."""

    def __init__(
        self, model: IAgentModel, tools: Tools, child: Child, refusals: Refusals, program: ProgramOf
    ) -> None:
        self.model, self.tools, self.child = model, tools, child
        self.refusals, self.program = refusals, program

    async def execute(self, order: str) -> object:
        """Run the program; a refusal that it is told of is its answer."""
        try:
            return await self.program.run(self)
        except (ToolError, ModelCallError) as refused:
            return str(refused)

    async def read_first(self) -> None:
        """Use up a limit of one tool call; where the stage of trust refuses, read a secret with it."""
        await (self.tools.account() if Stage.TRUST in self.refusals.stages else self.tools.look())


class Looping:
    """An agent that leaves its loop to ReAct."""

    def __init__(self, model: IAgentModel, tools: Tools) -> None:
        self.model, self.tools = model, tools


def _request(*texts: str) -> ModelRequest:
    return ModelRequest([ModelMessage.user(text) for text in (*texts, QUESTION)])


def _long_request() -> ModelRequest:
    """A transcript that is too large for the context budget."""
    turns = [
        message
        for number in range(4)
        for message in (ModelMessage.user(f"page {number}?"), ModelMessage.assistant("word " * 150))
    ]
    return ModelRequest([*turns, ModelMessage.user(QUESTION)])


async def calls_a_tool(agent: Acting) -> object:
    await agent.read_first()
    await agent.refusals.arm()
    return await agent.tools.send()


async def takes_a_step(agent: Acting) -> object:
    def act() -> None:
        agent.refusals.carried_out.append("step")

    await agent.read_first()
    await agent.refusals.arm()
    return await step("post", act)


async def runs_a_child(agent: Acting) -> object:
    await agent.read_first()
    await agent.refusals.arm()
    return await agent.child.execute("help")


async def asks_the_model(agent: Acting) -> object:
    await agent.read_first()
    await agent.model.complete(ModelRequest([ModelMessage.user("First.")]))
    await agent.refusals.arm()
    return (await agent.model.complete(_request())).content


async def reads_a_stream(agent: Acting) -> object:
    await agent.read_first()
    await agent.model.complete(ModelRequest([ModelMessage.user("First.")]))
    await agent.refusals.arm()
    return [event.text async for event in agent.model.stream(_request())]


async def shows_a_long_context(agent: Acting) -> object:
    await agent.read_first()
    await agent.model.complete(ModelRequest([ModelMessage.user("First.")]))
    return (await agent.model.complete(_long_request())).content


async def gives_an_answer(agent: Acting) -> object:
    await agent.read_first()
    await agent.refusals.arm()
    return "answer"


async def loses_an_outcome(agent: Acting) -> object:
    await agent.read_first()
    return await agent.tools.lose()


async def draws_a_value(agent: Acting) -> object:
    await agent.read_first()
    await agent.refusals.arm()
    drawn = await uid()
    agent.refusals.carried_out.append("value")
    return drawn


async def waits_for_a_signal(agent: Acting) -> object:
    await agent.read_first()
    assert agent.refusals.runs is not None
    await agent.refusals.runs.signal(get_run_context().run_id, EVENT, {"text": "come"})
    await agent.refusals.arm()
    signal = await next_signal(EVENT)
    agent.refusals.carried_out.append("signal")
    return signal.id


async def may_repeat(agent: Acting) -> object:
    await agent.tools.look()
    await agent.refusals.arm()
    return await agent.tools.repeat()


async def may_not_repeat(agent: Acting) -> object:
    await agent.tools.look()
    await agent.refusals.arm()
    return await agent.tools.send()
