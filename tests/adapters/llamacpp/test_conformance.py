"""The model kit on three wires of a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.openai import (
    ModelContextExceededError,
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason
from pilotage.agent.model_request import ModelRequest, SamplingOptions, ToolCallingSpec
from pilotage.agent.ports.model import IAgentModel
from pilotage.testing.conformance.model import ModelConformance, lookup
from tests.adapters.llamacpp.rig import LlamaServer
from tests.live.vllm.cutting_proxy import cutting

Model = AnthropicModel | OpenAICompatibleModel
ONCE = ModelRetries(most=0)


def chat(url: str) -> Model:
    return OpenAICompatibleModel(OpenAICompatibleSettings(f"{url}/v1", "tiny", retries=ONCE))


def responses(url: str) -> Model:
    return OpenAIResponsesModel(OpenAICompatibleSettings(f"{url}/v1", "tiny", retries=ONCE))


def messages(url: str) -> Model:
    return AnthropicModel(AnthropicSettings("tiny", base_url=f"{url}/v1", retries=ONCE))


WIRES = {"chat": chat, "responses": responses, "messages": messages}


class _OnLlama(ModelConformance):
    made: Callable[[str], Model]
    last_words: bytes

    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    def model(self, stack: AsyncExitStack, url: str) -> Model:
        model = type(self).made(url)
        stack.push_async_callback(model.aclose)
        return model

    @pytest.fixture
    async def talking_model(self, stack: AsyncExitStack, llama: LlamaServer) -> IAgentModel:
        return self.model(stack, llama.root_url)

    @pytest.fixture
    async def calling_model(self, stack: AsyncExitStack, llama: LlamaServer) -> IAgentModel:
        return self.model(stack, llama.root_url)

    @pytest.fixture
    async def answering_model(self, stack: AsyncExitStack, llama: LlamaServer) -> IAgentModel:
        return self.model(stack, llama.root_url)

    @pytest.fixture
    async def failing_model(self, stack: AsyncExitStack, llama: LlamaServer) -> IAgentModel:
        return self.model(stack, f"{llama.root_url}/nowhere")

    @pytest.fixture
    async def breaking_model(self, stack: AsyncExitStack, llama: LlamaServer) -> IAgentModel:
        url = await stack.enter_async_context(cutting(llama.port, before=self.last_words))
        return self.model(stack, url)


class TestChat(_OnLlama):
    made = staticmethod(chat)
    last_words = b'"content":", Countess'


class TestResponses(_OnLlama):
    made = staticmethod(responses)
    last_words = b'"delta":", Countess'


class TestMessages(_OnLlama):
    made = staticmethod(messages)
    last_words = b'"text":", Countess'


@pytest.fixture(params=WIRES.values(), ids=WIRES)
async def model(request: pytest.FixtureRequest, llama: LlamaServer) -> AsyncIterator[Model]:
    made: Model = request.param(llama.root_url)
    yield made
    await made.aclose()


async def test_thoughts_are_reasoning_and_no_text(model: Model) -> None:
    asked = ModelRequest([ModelMessage.user("Think.")])
    whole = await model.complete(asked)
    streamed = [event async for event in model.stream(asked)][-1].response
    assert streamed is not None
    for reply in (whole, streamed):
        assert (reply.reasoning.strip(), reply.content) == ("Let me see.", "So be it.")


async def test_thoughts_before_a_call_go_back_with_it(model: Model) -> None:
    """The template of the model answers otherwise where it does not get them."""
    tools, asked = ToolCallingSpec.from_tools([lookup]), ModelMessage.user("Muse.")
    request = ModelRequest([asked], tools=tools)
    whole = await model.complete(request)
    streamed = [event async for event in model.stream(request)][-1].response
    assert streamed is not None
    for reply in (whole, streamed):
        assert reply.reasoning.strip() == "Which ports?"
        (call,) = reply.tool_calls
        assert (call.name, call.arguments) == ("lookup", {"key": "ports"})
        assert call.call_id is not None
        back = [asked, reply.message, ModelMessage.tool(call.call_id, "found")]
        assert (await model.complete(ModelRequest(back, tools=tools))).content == "As I thought."


async def test_a_reply_is_cut_at_its_limit_and_counted(model: Model) -> None:
    asked = ModelRequest([ModelMessage.user("Count.")], sampling=SamplingOptions(max_tokens=7))
    reply = await model.complete(asked)
    assert reply.content.strip() == "one two three one two three one"
    assert reply.usage.output_tokens == 7
    assert reply.usage.input_tokens is not None
    # The Responses API of this server says that a cut reply is complete.
    is_cut = not isinstance(model, OpenAIResponsesModel)
    assert reply.finish_reason is (ModelFinishReason.LENGTH if is_cut else ModelFinishReason.STOP)


async def test_a_prompt_that_is_too_long_is_told_by_its_kind(model: Model) -> None:
    asked = ModelRequest([ModelMessage.user("word " * 5000)])
    with pytest.raises(ModelContextExceededError):
        await model.complete(asked)


async def test_the_server_counts_the_tokens_of_a_request(llama: LlamaServer) -> None:
    model = AnthropicModel(AnthropicSettings("tiny", base_url=f"{llama.root_url}/v1"))
    asked = ModelRequest([ModelMessage.user("How many?")])
    counted = await model.count_tokens(asked)
    assert counted == (await model.complete(asked)).usage.input_tokens
    await model.aclose()
