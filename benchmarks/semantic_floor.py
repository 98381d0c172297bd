"""The semantic floor: a run as one straight function that makes the values and events of ours, and nothing else.

No admission, no limits, no journal, no exposure: what is left of a run of ours when all that it does with its values is
taken away. Its models and its tool are those of the agents that are measured.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from benchmarks.agents import Asking, Declared, Talking
from benchmarks.floor import INSTRUCTIONS

from pilotage import AgentEvent, ModelMessage, ModelRequest, RunAgentInput
from pilotage.agent import (
    AgentEventAttribution,
    AgentSituation,
    AgentState,
    AgentStatus,
    MessageDeltaEvent,
    ModelUsage,
    RunFinishedEvent,
    RunResult,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.model_request import ToolCallingSpec
from pilotage.jsonvalue import canonical_json

_model, _speaker, _agent = Asking(), Talking(), Declared()
_calling = ToolCallingSpec.from_tools([_agent.look_up])
_LEAD = ModelMessage.system(INSTRUCTIONS)


async def events(given: RunAgentInput) -> AsyncGenerator[AgentEvent, None]:
    """Yield the events of a run; the last thing that is made is its result."""
    run_id = given.state_id
    by = AgentEventAttribution("declared", run_id, run_id)
    state = AgentState(run_id, "declared", AgentStatus.ACTIVE)
    messages = [ModelMessage.user(given.instruction)]
    yield RunStartedEvent(by)
    steps = calls_made = 0
    answer = ""
    while True:
        steps += 1
        step, message_id = f"model-{steps}", f"{run_id}:run/model#{steps}"
        yield StepStartedEvent(by, step)
        reply = None
        async for event in _model.stream(ModelRequest((_LEAD, *messages), tool_calling=_calling)):
            if event.token_delta:
                yield MessageDeltaEvent(by, message_id, event.token_delta)
            elif event.tool_call is not None:
                call = event.tool_call
                yield ToolCallStartEvent(by, call.call_id or "", call.name, message_id)
                yield ToolCallArgsDeltaEvent(by, call.call_id or "", canonical_json(call.arguments))
                yield ToolCallEndEvent(by, call.call_id or "")
            reply = event.response or reply
        assert reply is not None
        yield StepFinishedEvent(by, step)
        messages.append(ModelMessage.assistant(reply.content, reply.tool_calls))
        if not reply.tool_calls:
            answer = reply.content
            break
        for call in reply.tool_calls:
            found = await _agent.look_up(**call.arguments)  # type: ignore[arg-type]
            calls_made += 1
            messages.append(ModelMessage.tool(call.call_id or "", found))
            yield ToolCallResultEvent(by, call.call_id or "", call.name, message_id, found)
    state = state.moved_to(AgentSituation.COMPLETED)
    yield RunFinishedEvent(by, None, {"output": answer, "model_steps": steps, "tool_calls": calls_made})
    RunResult(state=state, output=answer, usage=ModelUsage(0, 0, 0), turns=steps)


async def talk(count: int) -> AsyncGenerator[AgentEvent, None]:
    """Yield so many deltas, from a model that says a word at a time."""
    by = AgentEventAttribution("speaker", "talk", "talk")
    async for event in _speaker.stream(ModelRequest((_LEAD, ModelMessage.user(str(count))))):
        if event.token_delta:
            yield MessageDeltaEvent(by, "talk:message", event.token_delta)
