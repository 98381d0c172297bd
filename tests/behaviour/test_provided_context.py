"""Provided context in every way of running: by hand, ephemeral, in branches, in children, after a fork."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.behaviour.test_context_health import DURABLE, EVIDENCE, Answers, Search, given, looking
from tests.behaviour.test_context_health import KIND as ACTION
from tests.behaviour.test_context_health import Clerk as DurableClerk

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    run,
)
from pilotage.agent import (
    AgentContext,
    AgentStatus,
    ContextPack,
    IAgentContextProvider,
    RunAgentInput,
    get_run_context,
)
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, says


class Notes(IAgentContextProvider):
    """Keeps what it was asked with."""

    def __init__(self) -> None:
        self.inputs: list[tuple[RunAgentInput, int, str | None]] = []

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        self.inputs.append((run_input, model_step, get_run_context().run_id))
        return AgentContext([ContextPack("note", "A note.", "notes", EVIDENCE)])


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, refresh_context_each_step=True))
class ByHand:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, name: str, age: int = 3) -> AsyncGenerator[AgentYield[str], None]:
        for _ in range(2):
            reply = await self.model.complete(ModelRequest([ModelMessage.user(name)]))
        yield Final(reply.content)


@Agent
class Ephemeral:
    """Answer."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, refresh_context_each_step=True))
class Branching:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, name: str) -> str:
        async def ask(word: str) -> str:
            return (await self.model.complete(ModelRequest([ModelMessage.user(word)]))).content

        return " ".join(await asyncio.gather(ask("a"), ask("b")))


async def finished(agent: type, question: object, model: ScriptedModel, *ports: object) -> Any:
    app = Application("office").add(agent, model, *ports, *MemoryStore().ports)
    initialize(app)
    async with app:
        return await (await app.get(AgentRuns).start(agent, question)).result()


async def test_the_provider_of_a_hand_written_agent_gets_its_arguments_as_json() -> None:
    notes, model = Notes(), ScriptedModel([says("one"), says("two")])
    result = await finished(ByHand, {"name": "Ada", "age": 4}, model, notes)
    assert result.output == "two"
    assert [step for _, step, _ in notes.inputs] == [1, 2]
    asked, _, run_id = notes.inputs[0]
    assert asked.instruction == '{"age":4,"name":"Ada"}'
    assert asked.state_id == result.state.id == run_id
    assert all("| A note." in request.messages[0].text for request in model.requests)


async def test_the_provider_gets_the_packs_that_the_caller_gave() -> None:
    notes = Notes()
    await finished(DurableClerk, given(ContextPack("mine", "Mine.", "me", EVIDENCE)), looking(0), notes)
    assert [pack.id for pack in notes.inputs[0][0].context.packs] == ["mine"]


async def test_an_ephemeral_run_gets_provided_context_and_fails_without_it() -> None:
    model = ScriptedModel([says("Done.")])
    assert (await run(Ephemeral, "Hello.", model=model, add=[Notes()])).output == "Done."
    assert "| A note." in model.requests[0].messages[1].text
    failed = await run(Ephemeral, "Hello.", model=ScriptedModel([]), add=[Search(failures=1)])
    assert failed.status is AgentStatus.FAILED
    assert "no context for the model call" in str(failed.error)
    assert "no search today" not in str(failed.error)


@pytest.mark.parametrize("kind", list(ACTION))
async def test_an_ephemeral_run_survives_every_action(kind: Any) -> None:
    stale = given(ContextPack("a", "Same.", "crm", EVIDENCE), ContextPack("b", "Same.", "crm", EVIDENCE))
    ports = [Answers(kind), Notes()]
    assert (await run(Ephemeral, stale, model=ScriptedModel([says("Done.")]), add=ports)).output == "Done."


async def test_every_branch_of_a_run_counts_its_own_model_steps() -> None:
    notes = Notes()
    result = await finished(Branching, "x", ScriptedModel([says("one"), says("two")]), notes)
    assert result.status is AgentStatus.COMPLETED
    assert [step for _, step, _ in notes.inputs] == [1, 1]
