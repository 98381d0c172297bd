"""Models by name: `openai:NAME`, `chat:NAME` and `vllm:NAME`."""

from __future__ import annotations

import os

from pilotage.adapters.model_http.named import key_for, text_of
from pilotage.adapters.openai.model import OpenAICompatibleModel, VllmAgentModel
from pilotage.adapters.openai.responses_model import OpenAIResponsesModel
from pilotage.adapters.openai.settings import (
    API_KEY,
    OpenAICompatibleSettings,
    VllmSettings,
    vllm_options_from_environment,
)
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.errors import AgentDefinitionError

_OPENAI, _VLLM = "https://api.openai.com/v1", "http://127.0.0.1:8000/v1"


def openai_model(name: str, address: str | None) -> OpenAIResponsesModel:
    """Return a model of OpenAI, or of a server with `/v1/responses` at an address."""
    url = address or text_of("OPENAI_BASE_URL") or _OPENAI
    return OpenAIResponsesModel(
        OpenAICompatibleSettings(url, name, key_for(url, _OPENAI, "OPENAI_API_KEY", f"openai:{name}"))
    )


def chat_model(name: str, address: str | None) -> OpenAICompatibleModel:
    """Return a model of a server with `/v1/chat/completions`."""
    url = address or text_of(BASE_URL)
    if url is None:
        raise AgentDefinitionError(
            f"the model 'chat:{name}' has no address. Set {BASE_URL}, or write chat:{name}@http://HOST/v1."
        )
    return OpenAICompatibleModel(OpenAICompatibleSettings(url, name, text_of(API_KEY)))


def vllm_model(name: str, address: str | None) -> VllmAgentModel:
    """Return a model of a vLLM server, by default the one on this machine."""
    url = address or text_of(BASE_URL) or _VLLM
    server = OpenAICompatibleSettings(url, name, text_of(API_KEY))
    return VllmAgentModel(VllmSettings(server, vllm_options_from_environment(os.environ)))
