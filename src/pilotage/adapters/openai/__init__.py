"""Models of vLLM and every other OpenAI-compatible server: `pip install "pilotage[openai]"`."""

from pilotage.adapters.model_http.errors import (
    ModelContextExceededError,
    ModelReplyError,
    ModelRequestError,
    ModelServerError,
    ModelUnavailableError,
)
from pilotage.adapters.model_http.server import ModelRetries, ModelTimeouts
from pilotage.adapters.openai.model import OpenAICompatibleModel, VllmAgentModel
from pilotage.adapters.openai.plugin import openai_compatible_model, vllm_agent_model
from pilotage.adapters.openai.responses_model import OpenAIResponsesModel
from pilotage.adapters.openai.settings import (
    EvidenceRole,
    OpenAICompatibleSettings,
    VllmOptions,
    VllmSettings,
    settings_from_environment,
)
from pilotage.agent.model_failure import ModelFailure

__all__ = [
    "EvidenceRole",
    "ModelContextExceededError",
    "ModelFailure",
    "ModelReplyError",
    "ModelRequestError",
    "ModelRetries",
    "ModelServerError",
    "ModelTimeouts",
    "ModelUnavailableError",
    "OpenAICompatibleModel",
    "OpenAICompatibleSettings",
    "OpenAIResponsesModel",
    "VllmAgentModel",
    "VllmOptions",
    "VllmSettings",
    "openai_compatible_model",
    "settings_from_environment",
    "vllm_agent_model",
]
