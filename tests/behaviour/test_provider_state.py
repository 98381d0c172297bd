"""What a provider wants back with its replies comes back unchanged: in a loop, after a pause, after every crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.behaviour.bureau import DURABLE, Bureau, resumed, started

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    RunAgentInput,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    ModelFinishReason,
    ModelMessage,
    ModelMessageRole,
    ModelToolCall,
    ModelUsage,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    TextPart,
    ToolApprovalRequirement,
)
from pilotage.agent.events import ReasoningDeltaEvent
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey, SealedRecord
from pilotage.errors import ModelCallError
from pilotage.models.streaming import deltas_of, final_events
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import ScriptedModel, StopAfter, StopBefore, crash_matrix, says

TURNS = 6


def state(number: int) -> ProviderState:
    return ProviderState(
        "vendor", "strict", "signature", {"signature": f"sealed-{number}", "list": [1, None]}
    )


def reply(number: int) -> ModelResponse:
    """The reply of a turn: reasoning and calls with signatures, and a block that only the provider reads."""
    usage = ModelUsage(10, 5, 15, 4, 2, 3, {"audio": 1})
    thought = ReasoningPart(f"Turn {number}.", state=state(number))
    if number == TURNS:
        return ModelResponse.of(
            [thought, TextPart("All "), TextPart("done.")], usage=usage, finish_reason=ModelFinishReason.STOP
        )
    call = ModelToolCall("look", {"at": number}, f"c{number}", state=state(number + 100))
    return ModelResponse.of([thought, TextPart("Hm: "), call, OpaquePart(state(number + 200))], usage=usage)


@Pod
class StrictModel(IAgentModel):
    """Refuses a transcript whose replies are not those that it gave, states and order included."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        said = [each for each in request.messages if each.role is ModelMessageRole.ASSISTANT]
        for number, message in enumerate(said, start=1):
            if message.parts != reply(number).parts:
                raise ModelCallError(f"turn {number} came back as {message.parts}")
        return reply(len(said) + 1)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        made = await self.complete(request)
        for event in deltas_of(made.content, made.tool_calls, made.reasoning, request):
            yield event
        for event in final_events(made, request):
            yield event


class Looks:
    """What the model looks at."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, at: int) -> str:
        """Look at a place."""
        return f"seen {at}"


@Agent(spec=AgentExecutionSpec(name="looker", recovery=DURABLE))
class Looker(Looks):
    """Look everywhere."""


@Agent(spec=AgentExecutionSpec(name="glancer"))
class Glancer(Looks):
    """Look everywhere, and forget it."""


@Agent(
    spec=AgentExecutionSpec(
        name="hider",
        recovery=DURABLE,
        redaction=StreamingRedactionPolicy([StreamingSensitivePattern("turn", r"Turn \d", "[TURN]")]),
    )
)
class Hider(Looks):
    """Look everywhere, and show little."""


async def test_a_loop_gives_every_reply_back_as_it_was() -> None:
    for agent in (Looker, Glancer, Hider):
        async with Bureau().process(agent, model=StrictModel()) as runs:
            result = await started(runs, agent, "go")
            assert (result.status, result.output) == (AgentStatus.COMPLETED, "All done."), result.error
            assert result.usage == ModelUsage(60, 30, 90, 24, 12, 18, {"audio": 6})


async def test_so_it_is_after_every_crash() -> None:
    report = await crash_matrix(Looker, "go", add=[StrictModel], second_stops=(1,))
    assert report.points > TURNS
    assert report.reference.output == "All done."
    report.assert_no_repeated_effects()


async def rows_of(bureau: Bureau, run_id: str) -> list[JournalRow]:
    """The rows of a run as they are stored."""
    return [row async for row in bureau.store.journal.read(RunKey("default", run_id))]


async def test_the_rows_of_replies_with_states_are_sealed_and_their_views_have_none() -> None:
    bureau = Bureau()
    async with bureau.process(Looker, model=StrictModel()) as runs:
        result = await started(runs, Looker, "go")
        await runs.verify(result.state.id)
        rows = await rows_of(bureau, result.state.id)
        seen = [await runs.evidence(result.state.id)]
    replies = [row for row in rows if row.kind == "model_call" and row.stage is JournalStage.AFTER]
    assert len(replies) == TURNS
    assert all(isinstance(row.record, SealedRecord) for row in replies)
    assert "sealed-" not in str([rows, seen])
    assert "{'kind': 'opaque'}" in str(replies[0].view)


async def test_without_a_key_replies_with_states_are_in_no_row() -> None:
    bureau = Bureau()
    async with bureau.process(Looker, model=StrictModel(), has_sealer=False) as runs:
        result = await started(runs, Looker, "go")
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "All done.")
        assert "sealed-" not in str(await rows_of(bureau, result.state.id))


class Asking(Looks):
    """Looks, and asks a person."""

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.REQUIRED,
        reads_untrusted=False,
    )
    async def pay(self) -> str:
        """Pay."""
        return "paid"


@Agent(spec=AgentExecutionSpec(name="payer", recovery=DURABLE))
class Payer(Asking):
    """Look everywhere, and pay."""


class PayingModel(StrictModel):
    """Pays in the third turn."""

    def __init__(self) -> None:
        self.asked = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.asked += 1
        said = [each for each in request.messages if each.role is ModelMessageRole.ASSISTANT]
        if len(said) == 2:
            pay = ModelToolCall("pay", {}, "c3", state=state(103))
            return ModelResponse.of([ReasoningPart("Turn 3.", state=state(3)), pay])
        return reply(len(said) + 1)


async def test_without_a_key_a_resumed_run_asks_for_its_replies_again() -> None:
    """No row is written twice for them, readers get no text twice, and only what came later is new."""
    bureau, model = Bureau(), PayingModel()
    async with bureau.process(Payer, model=model, has_sealer=False) as runs:
        run_id = (await started(runs, Payer, "go")).state.id
        before = [event async for event in runs.events(run_id, follow=False)]
        assert model.asked == 3
    async with bureau.process(Payer, model=model, has_sealer=False) as runs:
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id, resume=False)
        result = await resumed(runs, run_id)
        assert (result.status, result.output, result.spent.steps) == (AgentStatus.COMPLETED, "All done.", 6)
        events = [event async for event in runs.events(run_id, follow=False)]
        await runs.verify(run_id)
    assert model.asked == 3 + 6
    assert events[: len(before)] == before
    assert "superseded" not in str(events)
    thoughts = "".join(event.delta for event in events if isinstance(event, ReasoningDeltaEvent))
    assert [thoughts.count(f"Turn {number}.") for number in range(1, TURNS + 1)] == [1] * TURNS
    assert "sealed-" not in str(await rows_of(bureau, run_id))


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_without_a_key_a_run_goes_on_after_a_crash_at_any_commit(
    fault: type[StopBefore | StopAfter],
) -> None:
    for commit in range(2, 20):
        bureau = Bureau()
        async with bureau.process(Looker, model=StrictModel(), fault=fault(commit), has_sealer=False) as runs:
            handle = await runs.start(Looker, "go")
            (ended,) = await asyncio.gather(handle.result(), return_exceptions=True)
        bureau.clock.advance(60)
        async with bureau.process(Looker, model=StrictModel(), has_sealer=False) as runs:
            result = await resumed(runs, handle.id)
            assert (result.status, result.output) == (AgentStatus.COMPLETED, "All done."), result.error
        if not isinstance(ended, BaseException):
            return
    raise AssertionError("the run has more commits")


async def test_the_history_of_a_caller_is_recorded_without_states() -> None:
    bureau = Bureau()
    given = RunAgentInput(
        "r", "go", message_history=[ModelMessage.user("Hi"), ModelMessage.of(reply(1).parts)]
    )
    model = ScriptedModel([says("Well.")])
    async with bureau.process(Looker, model=model) as runs:
        result = await started(runs, Looker, given)
        assert "sealed-" not in str(await rows_of(bureau, result.state.id))
    (request,) = model.requests
    assert request.messages[-2] == ModelMessage.assistant("Hm: ", [ModelToolCall("look", {"at": 1}, "c1")])
