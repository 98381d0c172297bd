"""The promises of the model port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.tools.declare import agent_tool
from pilotage.errors import ModelCallError
from pilotage.jsonvalue import to_json_value
from pilotage.testing.conformance.kit import Kit

Kind = ModelStreamEventKind


@dataclass(frozen=True)
class Journey:
    """The structured answer that the kit asks for."""

    city: str
    days: int


@agent_tool
async def lookup(key: str) -> str:
    """Look a word up."""
    return f"found {key}"


TALK = ModelRequest([ModelMessage.system("Be brief."), ModelMessage.user("Greet Ada.")])
CALL = ModelRequest([ModelMessage.user("What are ports?")], tools=ToolCallingSpec.from_tools([lookup]))
ASK = ModelRequest([ModelMessage.user("Plan a journey.")], output=StructuredOutputSpec.from_type(Journey))


async def events_of(model: IAgentModel, request: ModelRequest) -> Sequence[ModelStreamEvent]:
    """Return all events of a stream."""
    return [event async for event in model.stream(request)]


class ModelConformance(Kit):
    """Conformance tests of every model adapter, with a server (or a recording of one) that answers as declared.

    Fixtures to give, each an adapter:

    - `talking_model`: answers with the text `Good day, Countess.`
    - `calling_model`: calls the tool `lookup` with `{"key": "ports"}`
    - `answering_model`: answers with the JSON `{"city": "Oslo", "days": 3}`
    - `failing_model`: its server fails before it says anything
    - `breaking_model`: its server breaks off after the text `Good day`
    """

    text = "Good day, Countess."

    async def test_a_reply_has_its_text_and_the_reason_it_ended(self, talking_model: IAgentModel) -> None:
        response = await talking_model.complete(TALK)
        assert response.content == self.text
        assert response.finish_reason is ModelFinishReason.STOP
        assert response.tool_calls == ()

    async def test_a_stream_ends_with_one_event_that_carries_the_whole_response(
        self, talking_model: IAgentModel
    ) -> None:
        events = await events_of(talking_model, TALK)
        assert [event.is_done for event in events] == [False] * (len(events) - 1) + [True]
        assert events[-1].is_final
        assert events[-1].response is not None
        assert events[-1].response.content == self.text

    async def test_the_pieces_of_a_text_add_up_to_it(self, talking_model: IAgentModel) -> None:
        events = await events_of(talking_model, TALK)
        assert "".join(event.text for event in events if event.is_text_delta) == self.text

    async def test_the_request_is_not_changed(self, talking_model: IAgentModel) -> None:
        before = to_json_value(TALK.messages)
        await events_of(talking_model, TALK)
        assert to_json_value(TALK.messages) == before

    async def test_a_whole_reply_has_its_tool_calls(self, calling_model: IAgentModel) -> None:
        response = await calling_model.complete(CALL)
        (call,) = response.tool_calls
        assert (call.name, call.arguments) == ("lookup", {"key": "ports"})
        assert call.call_id
        assert response.finish_reason is ModelFinishReason.TOOL_CALLS

    async def test_a_streamed_tool_call_is_announced_then_whole_and_ready_to_invoke(
        self, calling_model: IAgentModel
    ) -> None:
        events = await events_of(calling_model, CALL)
        about_calls = [event for event in events if event.tool_call is not None]
        assert about_calls[0].kind is Kind.TOOL_CALL_START
        assert [event.kind for event in about_calls[-2:]] == [Kind.TOOL_CALL_END, Kind.TOOL_CALL_CANDIDATE]
        assert len({event.call_id for event in about_calls}) == 1
        assert events[-1].response is not None
        assert events[-1].response.tool_calls == (about_calls[-1].tool_call,)
        assert await about_calls[-1].invoke_tool() == "found ports"

    async def test_the_end_of_a_reply_with_calls_is_not_the_final_one(
        self, calling_model: IAgentModel
    ) -> None:
        *before, last = await events_of(calling_model, CALL)
        assert last.is_done
        assert not any(event.is_final for event in (*before, last))

    async def test_the_pieces_of_the_arguments_add_up_to_them(self, calling_model: IAgentModel) -> None:
        events = await events_of(calling_model, CALL)
        pieces = [event.tool_call_args_delta for event in events if event.kind is Kind.TOOL_CALL_ARGS_DELTA]
        assert json.loads("".join(piece or "" for piece in pieces)) == {"key": "ports"}

    async def test_a_structured_answer_is_decoded(self, answering_model: IAgentModel) -> None:
        response = await answering_model.complete(ASK)
        assert response.output == Journey("Oslo", 3)
        assert response.structured_output == {"city": "Oslo", "days": 3}

    async def test_a_structured_answer_is_decoded_at_the_end_of_a_stream(
        self, answering_model: IAgentModel
    ) -> None:
        events = await events_of(answering_model, ASK)
        assert events[-1].output == Journey("Oslo", 3)

    async def test_a_failure_is_a_model_call_error(self, failing_model: IAgentModel) -> None:
        with pytest.raises(ModelCallError):
            await failing_model.complete(TALK)

    async def test_a_failure_of_a_stream_is_a_model_call_error(self, failing_model: IAgentModel) -> None:
        with pytest.raises(ModelCallError):
            await events_of(failing_model, TALK)

    async def test_a_stream_that_breaks_off_does_not_look_like_success(
        self, breaking_model: IAgentModel
    ) -> None:
        seen: list[ModelStreamEvent] = []

        async def read() -> None:
            async for event in breaking_model.stream(TALK):
                seen.append(event)  # noqa: PERF401 - a comprehension would lose them with the failure

        with pytest.raises(ModelCallError):
            await read()
        assert "".join(event.text for event in seen) == "Good day"
        assert not any(event.is_done for event in seen)

    async def test_a_stream_that_is_left_early_leaves_no_task(self, talking_model: IAgentModel) -> None:
        tasks = asyncio.all_tasks()
        stream = cast("AsyncGenerator[ModelStreamEvent, None]", talking_model.stream(TALK))
        await anext(stream)
        await stream.aclose()
        assert await anext(stream, None) is None
        assert asyncio.all_tasks() <= tasks

    async def test_a_model_says_what_it_can_do(self, talking_model: IAgentModel) -> None:
        assert talking_model.capability.model.strip()
        assert talking_model.capability_for(None) == talking_model.capability
        talking_model.validate_request(TALK)
