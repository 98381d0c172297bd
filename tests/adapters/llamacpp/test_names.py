"""Models by name, over a real server."""

from __future__ import annotations

import pytest

from pilotage import Agent, run
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.wires import Wire
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings
from tests.adapters.llamacpp.rig import LlamaServer


@Agent
class Greeter:
    """Greet people."""


@pytest.mark.parametrize("provider", ["anthropic", "chat", "openai", "vllm"])
async def test_an_agent_runs_with_the_name_of_a_model(provider: str, llama: LlamaServer) -> None:
    result = await run(Greeter, "Greet Ada.", model=f"{provider}:tiny@{llama.root_url}/v1")
    assert result.output == "Good day, Countess."


async def test_a_server_of_three_wires_says_so(llama: LlamaServer) -> None:
    base_url = f"{llama.root_url}/v1"
    chat = OpenAICompatibleModel(OpenAICompatibleSettings(base_url, "tiny"))
    messages = AnthropicModel(AnthropicSettings("tiny", base_url=base_url))
    for model in (chat, messages):
        assert await model.spoken_wires() == [*Wire]
        await model.aclose()
