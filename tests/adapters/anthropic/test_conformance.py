"""The model kit for `AnthropicModel`, over HTTP against a server of known answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.server import ModelRetries
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_request import ModelRequest
from pilotage.testing.conformance.model import ModelConformance
from tests.adapters.anthropic.answers import answered, broken_off, refused
from tests.adapters.openai.replay_server import Answer, Handler, replaying


class TestAnthropicModel(ModelConformance):
    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    def model(self, stack: AsyncExitStack, handler: Handler) -> AnthropicModel:
        server = stack.enter_context(replaying(handler))
        settings = AnthropicSettings("tiny", "k", server.base_url, retries=ModelRetries(most=0))
        model = AnthropicModel(settings)
        stack.push_async_callback(model.aclose)
        return model

    @pytest.fixture
    async def talking_model(self, stack: AsyncExitStack) -> AnthropicModel:
        return self.model(stack, answered({"type": "text", "text": "Good day, Countess."}))

    @pytest.fixture
    async def calling_model(self, stack: AsyncExitStack) -> AnthropicModel:
        call = {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"key": "ports"}}
        return self.model(stack, answered(call, reason="tool_use"))

    @pytest.fixture
    async def answering_model(self, stack: AsyncExitStack) -> AnthropicModel:
        return self.model(stack, answered({"type": "text", "text": '{"city": "Oslo", "days": 3}'}))

    @pytest.fixture
    async def failing_model(self, stack: AsyncExitStack) -> AnthropicModel:
        return self.model(stack, refused(529, "overloaded_error", "Overloaded"))

    @pytest.fixture
    async def breaking_model(self, stack: AsyncExitStack) -> AnthropicModel:
        return self.model(stack, broken_off("Good day"))


async def test_the_key_the_version_and_the_path_are_those_of_the_wire() -> None:
    with replaying(answered({"type": "text", "text": "Hi"})) as server:
        model = AnthropicModel(AnthropicSettings("tiny", "k3y", f"{server.base_url}?beta=1"))
        assert (await model.complete(ModelRequest([ModelMessage.user("x")]))).content == "Hi"
        await model.aclose()
    (seen,) = server.seen
    assert seen.path == "/v1/messages?beta=1"
    assert (seen.headers["x-api-key"], seen.headers["anthropic-version"]) == ("k3y", "2023-06-01")
    assert "authorization" not in seen.headers


async def test_the_server_counts_tokens() -> None:
    with replaying(lambda _: Answer([b'{"input_tokens": 14}'])) as server:
        model = AnthropicModel(AnthropicSettings("tiny", "k", server.base_url))
        assert await model.count_tokens(ModelRequest([ModelMessage.user("x")])) == 14
        await model.aclose()
    (seen,) = server.seen
    assert seen.path == "/v1/messages/count_tokens"
    assert set(seen.json) == {"model", "messages"}


async def test_a_key_that_is_not_accepted_is_in_no_error() -> None:
    with replaying(refused(401, "authentication_error", "invalid x-api-key k3y")) as server:
        model = AnthropicModel(AnthropicSettings("tiny", "k3y", server.base_url))
        with pytest.raises(ModelServerError) as failed:
            await model.complete(ModelRequest([ModelMessage.user("x")]))
        await model.aclose()
    assert failed.value.failure is ModelFailure.UNAUTHORIZED
    assert "k3y" not in str(failed.value)
