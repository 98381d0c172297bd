"""What only a real server can show: schemas that bind, generation that stops, overload, restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, cast

import pytest
from tests.live.vllm.conftest import ModelMaker
from tests.live.vllm.rig import VllmServer

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.openai import ModelFailure, ModelServerError, VllmAgentModel
from pilotage.agent import (
    AgentStatus,
    AgentYield,
    Final,
    IAgentModel,
    ModelFinishReason,
    ModelMessage,
    ModelRequest,
    ModelStreamEvent,
    ModelToolChoice,
    StructuredOutputSpec,
    Token,
    ToolCallingSpec,
    ToolEffects,
    agent_tool,
)
from pilotage.errors import AgentDefinitionError
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore

HELLO = [ModelMessage.user("hello")]
ENDLESS: dict[str, Any] = {"ignore_eos": True, "max_tokens": 1900}


@dataclass(frozen=True)
class Parcel:
    kind: Literal["letter", "box"]
    grams: int
    is_fragile: bool
    stamps: list[Literal["red", "blue"]]


class Post:
    """Tools with names that the wire does not allow, and with one parameter that may be left out."""

    @agent_tool(schema_name="post.send", effects=ToolEffects.read_only())
    async def send(self, parcel: Parcel, insured: bool = False) -> str:
        """Send a parcel."""
        return f"sent a {parcel.kind} of {parcel.grams} g"

    @agent_tool(schema_name="post.track", effects=ToolEffects.read_only())
    async def track(self, number: int) -> str:
        """Find a parcel."""
        return f"parcel {number} is on its way"

    def offered(self, tool_name: str | None = None) -> ToolCallingSpec:
        tools = [self.send, self.track]
        return ToolCallingSpec.from_tools(tools, choice=ModelToolChoice.REQUIRED, tool_name=tool_name)


async def test_the_server_says_what_it_is(make_model: ModelMaker) -> None:
    model = make_model()
    await model.start()
    assert model.capability.context_tokens == 2048
    assert await model.version() == "0.32.0"
    assert await model.is_healthy()


async def test_a_model_that_is_not_served_keeps_an_application_from_starting(make_model: ModelMaker) -> None:
    with pytest.raises(AgentDefinitionError, match="does not serve 'other', but 'tiny'"):
        await make_model(model="other").start()


@pytest.mark.parametrize("choice", ["required", "named"])
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
async def test_a_random_model_calls_tools_with_arguments_that_fit(
    make_model: ModelMaker, choice: str, is_streamed: bool
) -> None:
    model = make_model(parallel_tool_calls=False)
    tools = Post().offered("post.send" if choice == "named" else None)
    request = ModelRequest(HELLO, tools=tools)
    response = await (whole(model, request) if is_streamed else model.complete(request))
    assert response.finish_reason is ModelFinishReason.TOOL_CALLS
    for call in response.tool_calls:
        assert call.name in ("post.send", "post.track")
        assert isinstance(await tools.invoke(call), str)


async def whole(model: IAgentModel, request: ModelRequest) -> Any:
    events = [event async for event in model.stream(request)]
    return events[-1].response


async def test_a_random_model_answers_in_the_shape_that_was_asked_for(make_model: ModelMaker) -> None:
    request = ModelRequest(HELLO, output=StructuredOutputSpec.from_type(Parcel))
    response = await make_model().complete(request)
    assert isinstance(response.output, Parcel)
    assert response.usage.total_tokens


async def test_closing_a_stream_stops_the_generation(server: VllmServer, make_model: ModelMaker) -> None:
    stream = cast("AsyncGenerator[ModelStreamEvent, None]", make_model(**ENDLESS).stream(ModelRequest(HELLO)))
    async with aclosing(stream):
        await anext(stream)
        assert await asyncio.to_thread(server.requests) == 1
    assert await asyncio.to_thread(server.becomes_idle)


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
async def test_cancelling_a_task_stops_the_generation(
    server: VllmServer, make_model: ModelMaker, is_streamed: bool
) -> None:
    model, request = make_model(**ENDLESS), ModelRequest(HELLO)
    task = asyncio.ensure_future(whole(model, request) if is_streamed else model.complete(request))
    while await asyncio.to_thread(server.requests) == 0:
        assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.becomes_idle)


async def test_a_full_queue_is_an_overload_that_passes(server: VllmServer, make_model: ModelMaker) -> None:
    impatient = make_model(**{**ENDLESS, "max_tokens": 300})
    replies = await asyncio.gather(
        *(impatient.complete(ModelRequest(HELLO)) for _ in range(16)), return_exceptions=True
    )
    failures = [each for each in replies if isinstance(each, BaseException)]
    assert failures
    assert all(isinstance(each, ModelServerError) for each in failures)
    assert {cast(ModelServerError, each).failure for each in failures} == {ModelFailure.OVERLOADED}
    patient = make_model(retries=20, **{**ENDLESS, "max_tokens": 30})
    assert all(await asyncio.gather(*(patient.complete(ModelRequest(HELLO)) for _ in range(16))))
    assert await asyncio.to_thread(server.becomes_idle)


async def test_a_prompt_that_is_too_long_is_said_to_be(make_model: ModelMaker) -> None:
    request = ModelRequest([ModelMessage.user("hello " * 3000)])
    with pytest.raises(ModelServerError) as refused:
        await make_model().complete(request)
    assert refused.value.failure is ModelFailure.CONTEXT_EXCEEDED
    assert not refused.value.retryable


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    """Call a tool three times, then answer in a shape."""

    def __init__(self, model: IAgentModel, post: Post) -> None:
        self.model, self.post = model, post

    async def execute(self, wish: str) -> AsyncGenerator[AgentYield[Parcel], None]:
        tools = self.post.offered()
        messages = [ModelMessage.system("You are a clerk."), ModelMessage.user(wish)]
        for _ in range(3):
            reply = await self.model.complete(ModelRequest(messages, tools=tools))
            messages.append(reply.message)
            messages += [
                ModelMessage.tool(call.call_id or "", await tools.invoke(call)) for call in reply.tool_calls
            ]
        answer = await self.model.complete(
            ModelRequest(messages, output=StructuredOutputSpec.from_type(Parcel))
        )
        yield Final(answer.output)


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Talker:
    """Talk without end."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, wish: str) -> AsyncGenerator[AgentYield[str], None]:
        async for event in self.model.stream(ModelRequest([ModelMessage.user(wish)])):
            if event.is_text_delta:
                yield Token(event.text)
        yield Final("said everything")


def application(model: VllmAgentModel) -> Application:
    return Application("post").add(Clerk, Talker, Post(), model, *MemoryStore().ports).load_plugins()


async def test_an_agent_goes_through_a_loop_of_tool_calls(make_model: ModelMaker) -> None:
    async with application(make_model(parallel_tool_calls=False)) as app:
        result = await (await app.get(AgentRuns).start(Clerk, "a parcel for Ada")).result()
        assert result.status is AgentStatus.COMPLETED
        evidence = await app.get(AgentRuns).evidence(result.state.id)
        assert sum("tool" in str(each.payload) for each in evidence) >= 3


async def test_a_run_that_is_cancelled_in_the_middle_of_a_stream_stops_the_generation(
    server: VllmServer, make_model: ModelMaker
) -> None:
    async with application(make_model(**ENDLESS)) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Talker, "talk")
        while await asyncio.to_thread(server.requests) == 0:
            pass
        await runs.cancel(run.id)
        assert await asyncio.to_thread(server.becomes_idle)
        assert (await run.result()).status is AgentStatus.CANCELLED


async def test_a_model_goes_on_after_its_server_was_restarted(
    server: VllmServer, make_model: ModelMaker
) -> None:
    async with application(make_model(parallel_tool_calls=False)) as app:
        runs = app.get(AgentRuns)
        assert (await (await runs.start(Clerk, "first")).result()).status is AgentStatus.COMPLETED
        await asyncio.to_thread(server.stop)
        model = app.get(VllmAgentModel)
        assert not await model.is_healthy()
        with pytest.raises(ModelServerError) as gone:
            await model.complete(ModelRequest(HELLO))
        assert gone.value.failure is ModelFailure.UNREACHABLE
        assert gone.value.retryable
        await asyncio.to_thread(server.start)
        assert (await (await runs.start(Clerk, "second")).result()).status is AgentStatus.COMPLETED


async def test_a_stream_of_a_server_that_is_stopped_is_no_reply(
    server: VllmServer, make_model: ModelMaker
) -> None:
    stream = cast("AsyncGenerator[ModelStreamEvent, None]", make_model(**ENDLESS).stream(ModelRequest(HELLO)))
    async with aclosing(stream):
        await anext(stream)
        stopping = asyncio.ensure_future(asyncio.to_thread(server.stop))
        with pytest.raises(ModelServerError) as broken:
            [event async for event in stream]
        assert broken.value.failure in (ModelFailure.ABORTED, ModelFailure.BROKEN_STREAM)
        assert broken.value.retryable
        await stopping
