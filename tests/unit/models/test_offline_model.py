"""The offline model as a model: its pace, its bounds, its answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest
from tests.unit.models.offline.shop import CALLING

from pilotage.agent.messages import MediaPart, ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason
from pilotage.agent.model_request import ModelRequest, SamplingOptions, StructuredOutputSpec
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError, ModelCallError
from pilotage.models import OfflineModel
from pilotage.testing import VirtualClock


@dataclass(frozen=True)
class Journey:
    city: str
    days: int


READ_TWO = ModelRequest([ModelMessage.user("read a.txt and read b.txt")], tools=CALLING)
HELLO = ModelRequest([ModelMessage.user("hello")])
PLAN = ModelRequest([ModelMessage.user("plan a journey")], output=StructuredOutputSpec.from_type(Journey))


async def test_the_same_request_gets_the_same_reply() -> None:
    assert await OfflineModel().complete(READ_TWO) == await OfflineModel().complete(READ_TWO)


async def test_it_streams_at_the_pace_that_is_asked_for() -> None:
    clock = VirtualClock()
    stream = OfflineModel(tokens_per_second=4, clock=clock).stream(HELLO)
    first = asyncio.ensure_future(anext(aiter(stream)))
    await asyncio.sleep(0)
    clock.advance(0.2)
    await asyncio.sleep(0)
    assert not first.done()
    clock.advance(0.1)
    assert (await first).reasoning_delta


def test_a_pace_must_be_a_pace() -> None:
    with pytest.raises(AgentDefinitionError, match="tokens_per_second"):
        OfflineModel(tokens_per_second=0)


async def test_a_question_may_have_an_answer_given_in_advance() -> None:
    model = OfflineModel({"plan a journey": {"city": "Oslo", "days": 3}, "Hello": "Ahoy."})
    assert (await model.complete(PLAN)).output == Journey("Oslo", 3)
    assert (await model.complete(HELLO)).content == "Ahoy."


async def test_an_answer_given_in_advance_must_have_the_form_that_is_asked_for() -> None:
    with pytest.raises(AgentStructuredOutputError, match="no .*Journey"):
        await OfflineModel({"plan a journey": "Oslo"}).complete(PLAN)


async def test_what_is_made_up_is_said_in_the_metadata() -> None:
    response = await OfflineModel().complete(PLAN)
    assert response.metadata == {"made_up": ["days"]}


async def test_a_model_that_calls_one_tool_at_a_time_gets_everything_done_all_the_same() -> None:
    model = OfflineModel(capability=ModelCapability("modest", parallel_tool_calls=False))
    messages = list(READ_TWO.messages)
    paths: list[object] = []
    while calls := (reply := await model.complete(ModelRequest(messages, tools=CALLING))).tool_calls:
        (call,) = calls
        paths.append(call.arguments["path"])
        messages += [reply.message, ModelMessage.tool(call.call_id or "", f"text of {paths[-1]}")]
    assert paths == ["a.txt", "b.txt"]
    assert "text of a.txt" in reply.content
    assert "text of b.txt" in reply.content


async def test_a_model_without_reasoning_gives_none() -> None:
    model = OfflineModel(capability=ModelCapability("modest"))
    assert [event async for event in model.stream(HELLO) if event.reasoning_delta] == []


@pytest.mark.parametrize(
    ("capability", "request_", "words"),
    [
        (ModelCapability("modest", tools=False), READ_TWO, "'modest' does not support tools"),
        (
            ModelCapability("modest", structured_output=False),
            PLAN,
            "'modest' does not support structured output",
        ),
        (ModelCapability("modest", context_tokens=20), READ_TWO, "and 'modest' takes 20. Give the agent"),
    ],
)
async def test_what_is_more_than_it_can_is_refused(
    capability: ModelCapability, request_: ModelRequest, words: str
) -> None:
    with pytest.raises(ModelCallError, match=words):
        await OfflineModel(capability=capability).complete(request_)


async def test_a_masked_argument_does_not_make_it_call_again() -> None:
    call = ModelToolCall("pay", {"to": "****", "amount": "3"}, "call-1")
    messages = [
        ModelMessage.user("pay 3 to DE-1"),
        ModelMessage.assistant("", [call]),
        ModelMessage.tool("call-1", "paid"),
    ]
    assert (await OfflineModel().complete(ModelRequest(messages, tools=CALLING))).tool_calls == ()


@pytest.mark.parametrize("request_", [HELLO, READ_TWO, PLAN], ids=["text", "calls", "answer"])
async def test_it_keeps_to_the_tokens_that_it_may_write(request_: ModelRequest) -> None:
    whole = await OfflineModel().complete(request_)
    took = whole.usage.output_tokens or 0
    for most in range(1, took + 2):
        asked = replace(request_, sampling=SamplingOptions(max_tokens=most))
        reply = await OfflineModel().complete(asked)
        assert (reply.usage.output_tokens or 0) <= most
        assert whole.content.startswith(reply.content)
        assert whole.tool_calls[: len(reply.tool_calls)] == reply.tool_calls
        is_cut = most < took
        assert (reply.finish_reason is ModelFinishReason.LENGTH) is is_cut
        if is_cut:
            assert reply.output is None
        else:
            assert reply == whole


async def test_it_streams_no_more_than_it_may_write() -> None:
    asked = replace(READ_TWO, sampling=SamplingOptions(max_tokens=3))
    events = [event async for event in OfflineModel().stream(asked)]
    assert "".join(event.reasoning_delta or "" for event in events)
    assert len("".join((event.reasoning_delta or "") + (event.token_delta or "") for event in events)) <= 12
    assert not any(event.is_tool_call for event in events)
    assert events[-1].response is not None
    assert events[-1].response.finish_reason is ModelFinishReason.LENGTH


async def test_its_longest_reply_counts_too() -> None:
    model = OfflineModel(capability=ModelCapability("short", max_output_tokens=2))
    assert (await model.complete(HELLO)).finish_reason is ModelFinishReason.LENGTH


async def test_it_reads_text_and_no_pictures() -> None:
    picture = MediaPart("image/png", data="aGk=")
    with pytest.raises(
        ModelCallError, match="'offline' does not take media of type 'image/png'. It takes text only"
    ):
        await OfflineModel().complete(ModelRequest([ModelMessage.user([picture])]))
