"""What a program writes as text is the same text after a crash: objects come live in the order of their record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    StructuredOutputSpec,
    ToolEffects,
    agent_tool,
    get_run_context,
    step,
)
from pilotage.agent import (
    AgentDelegateTarget,
    DelegationPacket,
    DelegationReturnPolicy,
    IAgentDelegate,
    ModelToolCall,
    ProviderState,
    ReasoningPart,
)
from pilotage.jsonvalue import JsonValue, in_record_order
from pilotage.models.streaming import deltas_of, final_events
from pilotage.testing import crash_matrix
from tests.behaviour.bureau import DURABLE
from tests.behaviour.office import UNGATED

UNORDERED: dict[str, Any] = {"z": 1, "a": [{"y": 1.0, "b": None}], "m": {"2": True, "10": "x"}}
AGAIN = Idempotency.IDEMPOTENT


@Pod
class Model(IAgentModel):
    """Answers with objects in no order, in every place of a reply that has one."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if request.structured_output is not None:
            return ModelResponse("{}", structured_output={"z": 1, "a": 2})
        state = ProviderState("vendor", "m", "item", UNORDERED)
        call = ModelToolCall("look", UNORDERED, "c1", UNORDERED, state)
        return ModelResponse.of([ReasoningPart("Hm.", None, state), call], metadata=UNORDERED)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        made = await self.complete(request)
        for event in deltas_of(made.content, made.tool_calls, made.reasoning, request):
            yield event
        for event in final_events(made, request):
            yield event


class Notes:
    """Writes texts down, and gives objects in no order."""

    @agent_tool(effects=ToolEffects.write_state(), approval=UNGATED, idempotency=AGAIN)
    async def note(self, text: str) -> str:
        """Note a text."""
        return text

    @agent_tool(effects=ToolEffects.read_only())
    async def typed(self) -> dict[str, int]:
        """Return an object of a declared type."""
        return {"z": 1, "a": 2}

    @agent_tool(effects=ToolEffects.read_only())
    async def anything(self) -> JsonValue:
        """Return any JSON."""
        return UNORDERED


async def unordered() -> Any:
    """Return an object in no order."""
    return UNORDERED


@Agent(spec=AgentExecutionSpec(name="typed", recovery=DURABLE))
class OfATool(Notes):
    """Note what tools and a step give."""

    async def execute(self, text: str) -> str:
        await self.note(json.dumps(await self.typed()))
        await self.note(json.dumps(await self.anything()))
        await self.note(json.dumps(await step("unordered", unordered)))
        return await self.note(text)


@Agent(spec=AgentExecutionSpec(name="given", recovery=DURABLE))
class OfTheInput(Notes):
    """Note the input."""

    async def execute(self, given: dict[str, JsonValue]) -> str:
        await self.note(json.dumps(given))
        return await self.note("done")


@Agent(spec=AgentExecutionSpec(name="asking", recovery=DURABLE))
class OfAModel(Notes):
    """Note everything of replies."""

    def __init__(self, model: IAgentModel) -> None:
        self._model = model

    async def execute(self, text: str) -> str:
        asked = [ModelMessage.user(text)]
        reply = await self._model.complete(ModelRequest(asked))
        call, state = reply.tool_calls[0], reply.parts[0].state  # type: ignore[union-attr]
        assert state is not None
        assert call.state is not None
        for each in (call.arguments, call.metadata, call.state.data, reply.metadata, state.data):
            await self.note(json.dumps(each))
        spec = StructuredOutputSpec.from_type(dict[str, int])
        answer = await self._model.complete(ModelRequest(asked, output=spec))
        await self.note(json.dumps([answer.structured_output, answer.output]))
        async for event in self._model.stream(ModelRequest(asked)):
            if event.kind is ModelStreamEventKind.TOOL_CALL_CANDIDATE and event.tool_call is not None:
                await self.note(json.dumps(event.tool_call.arguments))
        return await self.note("done")


@Agent(spec=AgentExecutionSpec(name="helper", recovery=DURABLE))
class Helper:
    """Answers with an object."""

    async def execute(self, task: str) -> dict[str, JsonValue]:
        return UNORDERED


@Agent(spec=AgentExecutionSpec(name="delegating", recovery=DURABLE, delegation_allowed=True))
class OfAChild(Notes):
    """Note what a child gives."""

    def __init__(self, delegate: IAgentDelegate) -> None:
        self._delegate = delegate

    async def execute(self, text: str) -> str:
        packet = DelegationPacket(
            id="help",
            parent_agent_state_id=get_run_context().run_id or "",
            target=AgentDelegateTarget("Helper"),
            task={"task": text},
            return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
        )
        result = await self._delegate.delegate_tool_result(packet)
        await self.note(json.dumps(result.output))
        return await self.note("done")


CASES = [(OfATool, "go"), (OfTheInput, UNORDERED), (OfAModel, "go"), (OfAChild, "go")]


@pytest.mark.parametrize(("agent", "given"), CASES)
async def test_a_program_that_writes_objects_as_text_does_not_diverge(agent: type, given: Any) -> None:
    report = await crash_matrix(agent, given, add=[Model, Helper], second_stops=())
    report.assert_no_repeated_effects()
    assert report.points > 6


def test_an_object_in_order_stays_the_same_object() -> None:
    ordered = in_record_order(UNORDERED)
    assert json.dumps(ordered) == json.dumps(UNORDERED, sort_keys=True)
    assert in_record_order(ordered) is ordered
    for plain in (None, True, 1.5, "z", [], {}, (1, 2), [{"a": 1}]):
        assert in_record_order(plain) is plain
