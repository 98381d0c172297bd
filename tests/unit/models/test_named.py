"""Models by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pilotage.adapters.anthropic import AnthropicModel
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAIResponsesModel, VllmAgentModel
from pilotage.agent.ports.model import IAgentModel
from pilotage.errors import AgentDefinitionError
from pilotage.models import named_model
from pilotage.models.named import model_of

PLACE = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("anthropic:large", AnthropicModel),
        ("openai:large", OpenAIResponsesModel),
        ("chat:large", OpenAICompatibleModel),
        ("vllm:large", VllmAgentModel),
        ("vllm:some/large:latest@v2", VllmAgentModel),
    ],
)
def test_a_name_is_a_model_of_its_wire_at_its_address(name: str, kind: type[IAgentModel]) -> None:
    model = named_model(f"{name}@{PLACE}")
    assert type(model) is kind
    assert isinstance(model, OpenAICompatibleModel | AnthropicModel)
    assert (model.settings.model, model.settings.base_url) == (name.partition(":")[2], PLACE)


@pytest.mark.parametrize("name", ["large", "", "anthropic:", "openai:  ", "nobody:large", ":large", "openai"])
def test_what_is_no_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(AgentDefinitionError, match="anthropic:NAME, chat:NAME, openai:NAME, vllm:NAME"):
        named_model(name)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="no address of a server"):
        named_model("vllm:large@http:nowhere")


def test_a_missing_extra_is_named() -> None:
    missing = EntryPoint("vllm", "pilotage.adapters.nowhere:model", "pilotage.models")
    with pytest.raises(AgentDefinitionError, match=r"pip install \"pilotage\[openai\]\""):
        model_of("vllm:large", [missing])
