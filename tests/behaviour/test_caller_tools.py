"""Tools of a run's caller in an `execute()` of its own: offered to its model, or called by the program itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from tests.behaviour.test_deferred_tools import PICK, PLACE, Walls, given, questions, tool

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Application,
    Final,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    Token,
    ToolCallingSpec,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import IAgentModel, ModelToolSpec, RecoveryDecision, ToolApprovalRequirement
from pilotage.agent.tools.deferred import OWN_PAGE
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonValue, canonical_json, to_json_value
from pilotage.runtime import AgentRuns, caller_tools
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@Agent(spec=DURABLE)
class Painter:
    """Paints the wall in the color that the user picks, in a loop of its own."""

    def __init__(self, model: IAgentModel, walls: Walls) -> None:
        self.model = model
        self.walls = walls

    async def execute(self, task: str) -> AsyncGenerator[AgentYield[str], None]:
        tools = ToolCallingSpec.from_tools([self.walls.paint, *caller_tools().values()])
        messages = [ModelMessage.user(task)]
        while True:
            results: list[ModelMessage] = []
            async for event in self.model.stream(ModelRequest(messages, tools=tools)):
                if event.is_text_delta:
                    yield Token(str(event.text))
                elif event.is_tool_call:
                    result = canonical_json(to_json_value(await event.invoke_tool()))
                    results.append(ModelMessage.tool(str(event.call_id), result))
                elif event.is_done:
                    messages.append(event.message)
            if not results:
                yield Final(messages[-1].text)
                return
            messages += results


@Agent(spec=DURABLE)
class Decorator:
    """Asks its caller itself, without a model."""

    def __init__(self, walls: Walls) -> None:
        self.walls = walls

    async def execute(self, task: str) -> str:
        picked = await caller_tools()["pick"](of="walls")
        return f"picked {picked}"


def painting() -> ScriptedModel:
    return ScriptedModel([calls("pick", of="walls"), calls("paint", color="red"), says("It is red.")])


def application(store: MemoryStore, walls: Walls, model: ScriptedModel, *more: type[object]) -> Application:
    return Application("yard").add(Painter, walls, model, *more, *store.ports).load_plugins()


async def test_a_program_offers_them_and_goes_on_in_another_process_with_the_result() -> None:
    store, walls, model = MemoryStore(), Walls(), painting()
    async with application(store, walls, model) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given())
        state = (await run.result()).state
        (question,) = await questions(runs, run.id)
    assert state.status is AgentStatus.INTERRUPTED
    assert (question.action_name, question.arguments) == ("pick", {"view": {"of": "walls"}})
    assert question.deferred_call == "call-1"
    model = model.restarted()
    async with application(store, walls, model) as app:
        runs = app.get(AgentRuns)
        await runs.answer(run.id, question.id, RecoveryDecision.DONE, result={"color": "red"})
        await (await runs.resume(run.id)).result()
        # The descriptions and the result are the caller's: what the model decides now needs a person.
        (approval,) = await runs.questions(run.id)
        assert "untrusted content" in str(approval.metadata)
        await runs.approve(approval.id)
        result = await (await runs.resume(run.id)).result()
        assert await runs.verify(run.id) > 0
    assert [each.text for each in model.requests[-1].messages][2] == '{"color":"red"}'
    assert (result.output, walls.painted) == ("It is red.", ["red"])


async def test_a_program_may_call_one_itself() -> None:
    async with application(MemoryStore(), Walls(), painting(), Decorator) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Decorator, given())
        await run.result()
        (question,) = await questions(runs, run.id)
        await runs.answer(run.id, question.id, RecoveryDecision.DONE, result="red")
        result = await (await runs.resume(run.id)).result()
    assert (question.deferred_call, result.output) == ("run/tool:pick#1", "picked red")


@Pod
class Notes:
    def __init__(self) -> None:
        self.taken: list[str] = []

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self, text: str) -> str:
        """Take a note."""
        self.taken.append(text)
        return "noted"


@Agent(spec=DURABLE)
class Noter:
    """Takes a note, before and after it looks at the tools of its caller."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    async def execute(self, task: str) -> str:
        await self.notes.note("before")
        names = ", ".join(caller_tools())
        await self.notes.note(names)
        return names


OWN = replace(PICK, metadata={OWN_PAGE: True})


@pytest.mark.parametrize(
    ("tools", "taken"), [((PICK, PLACE), ["before"]), ((OWN,), ["before", "pick"]), ((), ["before", ""])]
)
async def test_a_run_is_untrusted_once_its_program_has_their_descriptions(
    tools: tuple[ModelToolSpec, ...], taken: list[str]
) -> None:
    notes = Notes()
    app = Application("desk").add(Noter, notes, *MemoryStore().ports)
    async with app.load_plugins():
        runs = app.get(AgentRuns)
        run = await runs.start(Noter, replace(given(), deferred_tools=tools))
        await run.result()
        asked = ["untrusted content" in str(each.metadata) for each in await runs.questions(run.id)]
    assert notes.taken == taken
    assert asked == ([True] if PICK in tools else [])


async def test_a_name_of_its_own_tools_is_refused_before_a_run_begins() -> None:
    async with application(MemoryStore(), Walls(), painting()) as app:
        with pytest.raises(CallerError, match="there is one of that name already. Rename it."):
            await app.get(AgentRuns).start(Painter, given(tool("paint")))


async def test_a_conversation_has_one_run_of_a_program_at_a_time() -> None:
    async with application(MemoryStore(), Walls(), painting()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given(), conversation_id="talk")
        await run.result()
        listed = (await runs.list(conversation_id="talk")).runs
        with pytest.raises(RunConflictError, match="is held by run"):
            await runs.start(Painter, "Another", conversation_id="talk")
        await runs.cancel(run.id)
        again = await runs.start(Painter, "Another", conversation_id="talk")
        assert again.id != run.id
    assert [each.id for each in listed] == [run.id]


async def test_outside_a_run_there_are_none() -> None:
    assert caller_tools() == {}


async def test_nothing_is_lost_or_done_twice_wherever_a_process_dies(second_stops: tuple[int, ...]) -> None:
    answer: JsonValue = {"of": ["walls", None]}
    report = await crash_matrix(
        Painter,
        given(),
        model=painting(),
        add=[Walls()],
        carry_out=lambda request: answer,
        second_stops=second_stops,
    )
    assert report.reference.status is AgentStatus.COMPLETED
    assert report.points > 20
    report.assert_same_result()
    report.assert_no_repeated_effects()
