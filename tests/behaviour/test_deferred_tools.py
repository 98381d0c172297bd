"""Tools that the caller of a run carries out: the run waits for what came of a call, and goes on with it."""

from __future__ import annotations

from typing import cast

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentRecoveryRequest,
    JsonSchemaConstraint,
    ModelToolSpec,
    RecoveryDecision,
    RunAgentInput,
)
from pilotage.errors import AgentDefinitionError, CallerError, PilotageError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


def tool(name: str, **properties: JsonObject) -> ModelToolSpec:
    return ModelToolSpec(
        name, JsonSchemaConstraint({"type": "object", "properties": properties}), f"The {name}."
    )


PICK, PLACE = tool("pick", of={"type": "string"}), tool("place")


@Pod
class Walls:
    """The outside world."""

    def __init__(self) -> None:
        self.painted: list[str] = []

    @agent_tool(effects=ToolEffects.write_state())
    async def paint(self, color: str) -> str:
        """Paint the wall."""
        self.painted.append(color)
        return "painted"


@Agent(spec=DURABLE)
class Painter:
    """Paint the wall in the color that the user picks."""

    def __init__(self, walls: Walls) -> None:
        self.walls = walls


@Agent
class Passerby:
    """Talks; its runs are not kept."""


@Agent
class PasserbyByHand:
    """Has a loop of its own; its runs are not kept."""

    async def execute(self, task: str) -> str:
        return task


def painting() -> ScriptedModel:
    return ScriptedModel([calls("pick", of="walls"), calls("paint", color="red"), says("It is red.")])


def application(store: MemoryStore, walls: Walls, model: ScriptedModel) -> Application:
    return (
        Application("yard").add(Painter, Passerby, PasserbyByHand, walls, model, *store.ports).load_plugins()
    )


def given(*tools: ModelToolSpec) -> RunAgentInput:
    return RunAgentInput("mine", "Paint the wall", deferred_tools=tools or (PICK,))


async def questions(runs: AgentRuns, run_id: str) -> tuple[AgentRecoveryRequest, ...]:
    return cast("tuple[AgentRecoveryRequest, ...]", await runs.questions(run_id))


async def test_a_run_waits_for_its_caller_and_goes_on_in_another_process() -> None:
    store, walls, model = MemoryStore(), Walls(), painting()
    async with application(store, walls, model) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given())
        state = (await run.result()).state
        (question,) = await questions(runs, run.id)
    assert (state.status, state.transition) == (AgentStatus.INTERRUPTED, "waiting_approval")
    assert question.action_name == "pick"
    assert question.arguments == {"view": {"of": "walls"}}
    assert question.allowed_decisions == (RecoveryDecision.DONE, RecoveryDecision.CANCEL)
    assert question.deferred_call
    model = model.restarted()
    async with application(store, walls, model) as app:
        runs = app.get(AgentRuns)
        await runs.answer(run.id, question.id, RecoveryDecision.DONE, result={"color": "red"})
        await (await runs.resume(run.id)).result()
        said = model.requests[-1].messages[-1].text
        # What the caller said is untrusted: what a model decides after it has read it needs a person.
        (approval,) = await runs.questions(run.id)
        assert "untrusted content" in str(approval.metadata)
        await runs.approve(approval.id)
        result = await (await runs.resume(run.id)).result()
        assert await runs.verify(run.id) > 0
    assert said == '{"color":"red"}'
    assert (result.status, walls.painted) == (AgentStatus.COMPLETED, ["red"])


async def test_all_calls_of_a_reply_are_asked_for_at_once_and_may_be_answered_one_by_one() -> None:
    store, model = MemoryStore(), ScriptedModel([[calls("pick", of="a"), calls("place")], says("Done.")])
    async with application(store, Walls(), model) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given(PICK, PLACE))
        await run.result()
        first, second = await questions(runs, run.id)
        await runs.answer(run.id, second.id, RecoveryDecision.DONE, result="here")
        waiting = await (await runs.resume(run.id)).result()
        await runs.answer(run.id, first.id, RecoveryDecision.DONE, result="red")
        result = await (await runs.resume(run.id)).result()
    assert [first.action_name, second.action_name] == ["pick", "place"]
    assert waiting.status is AgentStatus.INTERRUPTED
    assert result.output == "Done."
    assert [message.text for message in model.requests[-1].messages[-2:]] == ["red", "here"]


@pytest.mark.parametrize("decision", [RecoveryDecision.RETRY, RecoveryDecision.FAIL])
async def test_other_answers_are_refused_and_the_run_goes_on_waiting(decision: RecoveryDecision) -> None:
    async with application(MemoryStore(), Walls(), painting()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given())
        await run.result()
        (question,) = await questions(runs, run.id)
        with pytest.raises(CallerError, match="stays open"):
            await runs.answer(run.id, question.id, decision)
        assert await questions(runs, run.id) == (question,)


async def test_a_caller_who_gives_up_cancels_the_run() -> None:
    async with application(MemoryStore(), Walls(), painting()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given())
        await run.result()
        (question,) = await questions(runs, run.id)
        await runs.answer(run.id, question.id, RecoveryDecision.CANCEL)
        result = await (await runs.resume(run.id)).result()
    assert result.status is AgentStatus.CANCELLED


@pytest.mark.parametrize(
    ("agent", "tools", "words"),
    [
        (Passerby, (PICK,), "cannot wait for tools that its caller carries out"),
        (PasserbyByHand, (PICK,), "cannot wait for tools that its caller carries out"),
        (Painter, (tool("paint"),), "there is one of that name already. Rename it."),
        (Painter, (PICK, PICK), "there is one of that name already. Rename it."),
        (Painter, (ModelToolSpec("pick", JsonSchemaConstraint({"type": "array"})),), "describes an object"),
        (Painter, (tool("pick", runtime_context={}),), "which the runtime fills"),
    ],
)
async def test_tools_that_cannot_be_are_refused_before_a_run_begins(
    agent: type[object], tools: tuple[ModelToolSpec, ...], words: str
) -> None:
    async with application(MemoryStore(), Walls(), painting()) as app:
        runs = app.get(AgentRuns)
        with pytest.raises((CallerError, AgentDefinitionError), match=words):
            await runs.start(agent, given(*tools))
        assert (await runs.list()).runs == ()


async def test_the_same_name_with_other_tools_is_another_input() -> None:
    async with application(MemoryStore(), Walls(), painting()) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Painter, given(), id="mine")
        again = await runs.start(Painter, given(), id="mine")
        assert again.id == run.id
        with pytest.raises(PilotageError, match="with another agent or input"):
            await runs.start(Painter, given(PLACE), id="mine")


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
