"""The model kit for `OpenAICompatibleModel` and `VllmAgentModel`, over HTTP against a server of known answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.adapters.openai.answers import broken_off, called, refused, said
from tests.adapters.openai.replay_server import Handler, replaying

from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    VllmAgentModel,
    VllmSettings,
)
from pilotage.testing.conformance.model import ModelConformance


class _OverHttp(ModelConformance):
    def made(self, settings: OpenAICompatibleSettings) -> OpenAICompatibleModel:
        raise NotImplementedError

    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    def model(self, stack: AsyncExitStack, handler: Handler) -> OpenAICompatibleModel:
        server = stack.enter_context(replaying(handler))
        model = self.made(OpenAICompatibleSettings(server.base_url, "tiny", retries=ModelRetries(most=0)))
        stack.push_async_callback(model.aclose)
        return model

    @pytest.fixture
    async def talking_model(self, stack: AsyncExitStack) -> OpenAICompatibleModel:
        return self.model(stack, said("Good", " day", ", Countess", "."))

    @pytest.fixture
    async def calling_model(self, stack: AsyncExitStack) -> OpenAICompatibleModel:
        return self.model(stack, called("lookup", '{"ke', 'y": "po', 'rts"}'))

    @pytest.fixture
    async def answering_model(self, stack: AsyncExitStack) -> OpenAICompatibleModel:
        return self.model(stack, said('{"city": "Os', 'lo", "days"', ": 3}"))

    @pytest.fixture
    async def failing_model(self, stack: AsyncExitStack) -> OpenAICompatibleModel:
        return self.model(stack, refused(500, "out of order"))

    @pytest.fixture
    async def breaking_model(self, stack: AsyncExitStack) -> OpenAICompatibleModel:
        return self.model(stack, broken_off("Good", " day"))


class TestOpenAICompatibleModel(_OverHttp):
    def made(self, settings: OpenAICompatibleSettings) -> OpenAICompatibleModel:
        return OpenAICompatibleModel(settings)


class TestVllmAgentModel(_OverHttp):
    def made(self, settings: OpenAICompatibleSettings) -> OpenAICompatibleModel:
        return VllmAgentModel(VllmSettings(settings))
