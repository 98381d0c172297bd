"""The model kit against a real server, which binds a model of random weights to the texts the kit expects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.live.vllm.conftest import ModelMaker
from tests.live.vllm.cutting_proxy import cutting
from tests.live.vllm.rig import VllmServer

from pilotage.adapters.openai import VllmAgentModel
from pilotage.testing.conformance.model import ModelConformance


def bound_to(text: str) -> dict[str, Any]:
    return {"structured_outputs": {"choice": [text]}}


PORTS = {
    "type": "object",
    "properties": {"key": {"type": "string", "enum": ["ports"]}},
    "required": ["key"],
    "additionalProperties": False,
}
LOOKUP = {"type": "function", "function": {"name": "lookup", "strict": True, "parameters": PORTS}}


class TestVllmAgentModel(ModelConformance):
    @pytest.fixture
    def talking_model(self, make_model: ModelMaker) -> VllmAgentModel:
        return make_model(**bound_to("Good day, Countess."))

    @pytest.fixture
    def calling_model(self, make_model: ModelMaker) -> VllmAgentModel:
        return make_model(tools=[LOOKUP], tool_choice="required", parallel_tool_calls=False)

    @pytest.fixture
    def answering_model(self, make_model: ModelMaker) -> VllmAgentModel:
        return make_model(**bound_to('{"city": "Oslo", "days": 3}'))

    @pytest.fixture
    def failing_model(self, make_model: ModelMaker) -> VllmAgentModel:
        return make_model(model="somebody else")

    @pytest.fixture
    async def breaking_model(
        self, server: VllmServer, make_model: ModelMaker
    ) -> AsyncIterator[VllmAgentModel]:
        async with cutting(server.port, before=b'"finish_reason":"stop"') as root_url:
            model = make_model(base_url=root_url, **bound_to("Good day"))
            yield model
            await model.aclose()
