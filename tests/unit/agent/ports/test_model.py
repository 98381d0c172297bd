"""The model port's own behaviour."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest, ModelSelection, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.errors import AgentDefinitionError


class Mute(IAgentModel):
    """A model that can do nothing special."""

    def __init__(self, capability: ModelCapability | None = None) -> None:
        self._capability = capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse("")

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        raise NotImplementedError

    @property
    def capability(self) -> ModelCapability:
        return self._capability or super().capability


PLAIN = ModelRequest([ModelMessage.user("x")])
DEMANDING = ModelRequest(
    [ModelMessage.user("x")], tools=ToolCallingSpec(()), output=StructuredOutputSpec.from_type(int)
)


def test_a_model_promises_what_a_chat_model_can_unless_it_says_otherwise() -> None:
    assert Mute().capability == ModelCapability("Mute")
    assert Mute().capability_for(ModelSelection("other")) == ModelCapability("Mute")
    Mute().validate_request(DEMANDING)


def test_a_request_beyond_the_capability_is_refused_before_anything_is_sent() -> None:
    model = Mute(ModelCapability("tiny", tools=False, structured_output=False))
    model.validate_request(PLAIN)
    with pytest.raises(AgentDefinitionError) as caught:
        model.validate_request(DEMANDING)
    assert str(caught.value) == (
        "'tiny' does not support tools and structured output, which the request asks for. "
        "Use a model that does, or leave it out."
    )
