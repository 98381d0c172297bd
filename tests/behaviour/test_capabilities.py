"""Models that can do less: runs adapt, or the application does not start and says why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    RecoveryStrategy,
    RunAgentInput,
    StructuredOutputSpec,
    ToolEffects,
    agent_tool,
    run,
)
from pilotage.agent import AgentTeammate, ModelCapability, ModelMessage, ModelSelection
from pilotage.agent.context import ContextTokenBudget
from pilotage.container import ILifecycle
from pilotage.context import SummariseOldTurns
from pilotage.errors import AgentModelConfigurationError, ApplicationStartError, CallerError
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRunner, AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says

WORDY = ModelCapability("wordy", structured_output=False)
SINGLE = ModelCapability("single", parallel_tool_calls=False)
MUTE = ModelCapability("mute", tools=False)
JSON = '```json\n{"city": "Oslo", "days": 3}\n```'
DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@dataclass(frozen=True)
class Journey:
    city: str
    days: int


@Pod
class Maps:
    @agent_tool(effects=ToolEffects.read_only())
    async def distance(self, city: str) -> int:
        """How far a city is."""
        return len(city) * 100


@Agent(spec=AgentExecutionSpec(output_type=Journey, recovery=DURABLE))
class Planner:
    """Plan journeys."""

    def __init__(self, maps: Maps) -> None:
        self.maps = maps


@Agent
class Talker:
    """Talk."""


@Agent(spec=AgentExecutionSpec(teammates=[AgentTeammate("talker", pod=Talker)], delegation_allowed=True))
class Boss:
    """Hand work on."""


@Agent
class Form:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: str) -> Journey:
        spec = StructuredOutputSpec.from_type(Journey)
        async for event in self.model.stream(ModelRequest([ModelMessage.user(question)], output=spec)):
            if event.is_final:
                answer: Journey = event.output
        return answer


async def test_a_model_without_structured_output_is_asked_in_words() -> None:
    model = ScriptedModel([calls("distance", city="Oslo"), says(JSON)], capability=WORDY)
    store = MemoryStore()
    async with Application("travel").add(Planner, model, *store.ports).add(Maps).load_plugins() as app:
        runs = app.get(AgentRuns)
        handle = await runs.start(Planner, "plan")
        result = await handle.result()
        await runs.verify(handle.id)
    assert result.output == Journey("Oslo", 3)
    assert all(request.structured_output is None for request in model.requests)
    assert "fits this JSON schema" in model.requests[0].messages[1].text


async def test_an_answer_in_words_that_does_not_fit_is_repaired() -> None:
    model = ScriptedModel([says("Oslo, three days."), says(JSON)], capability=WORDY)
    store = MemoryStore()
    result = await run(Planner, "plan", model=model, add=list(store.ports))
    assert result.output == Journey("Oslo", 3)
    assert "there is no JSON in the answer" in model.requests[1].messages[-1].text


async def test_a_hand_written_agent_gets_its_answer_too() -> None:
    assert (await run(Form, "plan", model=ScriptedModel([says(JSON)], capability=WORDY))).output == Journey(
        "Oslo", 3
    )


async def test_an_answer_in_words_is_the_same_after_every_crash() -> None:
    model = ScriptedModel([calls("distance", city="Oslo"), says(JSON)], capability=WORDY)
    report = await crash_matrix(Planner, "plan", model=model, add=[Maps])
    report.assert_same_result()
    assert report.reference.output == Journey("Oslo", 3)


async def test_a_model_without_parallel_calls_is_never_shown_several_at_once() -> None:
    both = [calls("distance", city="Oslo"), calls("distance", city="Rome")]
    model = ScriptedModel([both, says('{"city": "Oslo", "days": 3}')], capability=SINGLE)
    store = MemoryStore()
    result = await run(Planner, "plan", model=model, add=list(store.ports))
    assert result.status is AgentStatus.COMPLETED
    roles = [(message.role.value, len(message.tool_calls)) for message in model.requests[1].messages]
    assert roles[2:] == [("assistant", 1), ("tool", 0), ("assistant", 1), ("tool", 0)]


async def test_tools_for_a_model_that_cannot_call_any_keep_the_application_from_starting() -> None:
    app = Application("travel").add(Planner, Maps, Boss, Talker, *MemoryStore().ports)
    app.add(OfflineModel(capability=MUTE)).load_plugins()
    with pytest.raises(AgentModelConfigurationError) as caught:
        await app.start()
    assert str(caught.value) == (
        "2 problems in application 'travel':\n"
        "  1. Planner offers 'distance' to 'mute', which cannot call tools.\n"
        "     Bind a model that can: app.bind(IAgentModel, ...), or offer no tools.\n"
        "  2. Boss offers 'ask_talker' to 'mute', which cannot call tools.\n"
        "     Bind a model that can: app.bind(IAgentModel, ...), or offer no tools."
    )


async def test_an_agent_without_tools_gets_along_with_such_a_model() -> None:
    assert (await run(Talker, "greet Ada", model=OfflineModel(capability=MUTE))).output.startswith(
        "Good day, Ada."
    )


async def test_what_a_model_learns_of_itself_when_it_starts_is_known_to_the_check() -> None:
    class Asking(IAgentModel, ILifecycle):
        can = ModelCapability("asking")

        @property
        def capability(self) -> ModelCapability:
            return self.can

        async def start(self) -> None:
            self.can = ModelCapability("asking", tools=False)

        async def complete(self, request: ModelRequest) -> ModelResponse:
            return ModelResponse("")

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
            for event in ():
                yield event

    app = Application("travel").add(Planner, Maps, *MemoryStore().ports).load_plugins().add(Asking)
    with pytest.raises(ApplicationStartError, match="Planner offers 'distance' to 'asking'"):
        await app.start()


async def test_a_model_that_a_caller_brings_or_selects_must_fit_too() -> None:
    mute, good = OfflineModel(capability=MUTE), OfflineModel()
    app = (
        Application("travel")
        .add(Planner, Maps, *MemoryStore().ports, mute)
        .bind(IAgentModel, good)
        .load_plugins()
    )
    async with app:
        runner = AgentRunner.for_agent_instance(app.get(Planner))
        with pytest.raises(AgentModelConfigurationError, match="Planner offers 'distance' to 'mute'"):
            runner.with_model(mute)
        selecting = RunAgentInput("plan-1", "plan", model_selection=ModelSelection("mute"))
        with pytest.raises(CallerError, match="Planner offers 'distance' to 'mute'"):
            await app.get(AgentRuns).start(Planner, selecting)
        assert (await app.get(AgentRuns).list()).runs == ()


async def test_a_context_budget_is_bounded_by_what_the_model_takes() -> None:
    condenses = [SummariseOldTurns(keep_recent=1, max_summary_chars=200)]

    @Agent(
        spec=AgentExecutionSpec(context_budget=ContextTokenBudget(), compaction=condenses, recovery=DURABLE)
    )
    class Reader:
        """Read pages."""

        @agent_tool(effects=ToolEffects.read_only())
        async def page(self, number: int) -> str:
            """Read a page."""
            return f"page {number}: " + "word " * 150

    pages = [calls("page", number=number) for number in (1, 2, 3)]
    short = ModelCapability("short", context_tokens=600)
    model = ScriptedModel([*pages, says("Words."), says("Read.")], capability=short)
    result = await run(Reader, "read", model=model, add=list(MemoryStore().ports))
    assert result.output == "Read."
    model.assert_complete()
    assert any(request.tool_calling is None for request in model.requests)  # one of them asked for a summary


async def test_an_answer_that_leaves_no_room_for_the_question_keeps_the_application_from_starting() -> None:
    @Agent(spec=AgentExecutionSpec(context_budget=ContextTokenBudget(reserved_output_tokens=4_096)))
    class Writer:
        """Write at length."""

    short = OfflineModel(capability=ModelCapability("short", context_tokens=4_096))
    with pytest.raises(
        AgentModelConfigurationError, match="Writer keeps 4096 tokens for the answer, and 'short' takes 4096"
    ):
        await run(Writer, "write", model=short)
