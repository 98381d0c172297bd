"""Models of vLLM and every other OpenAI-compatible server: `pip install "pilotage[openai]"`."""

from pilotage.adapters.openai.environment import settings_from_environment
from pilotage.adapters.openai.errors import (
    ModelContextExceededError,
    ModelFailure,
    ModelReplyError,
    ModelRequestError,
    ModelServerError,
    ModelUnavailableError,
)
from pilotage.adapters.openai.model import OpenAICompatibleModel
from pilotage.adapters.openai.plugin import openai_compatible_model, vllm_agent_model
from pilotage.adapters.openai.settings import (
    EvidenceRole,
    ModelRetries,
    ModelTimeouts,
    OpenAICompatibleSettings,
)
from pilotage.adapters.openai.vllm import VllmAgentModel
from pilotage.adapters.openai.vllm_settings import VllmOptions, VllmSettings

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
    "VllmAgentModel",
    "VllmOptions",
    "VllmSettings",
    "openai_compatible_model",
    "settings_from_environment",
    "vllm_agent_model",
]
