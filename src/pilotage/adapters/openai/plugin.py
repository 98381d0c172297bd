"""Registration of the adapter's model in an application that names a server."""

from __future__ import annotations

from pilotage.adapters.openai.model import OpenAICompatibleModel, VllmAgentModel
from pilotage.adapters.openai.settings import (
    OpenAICompatibleSettings,
    VllmSettings,
    settings_from_environment,
)
from pilotage.agent.ports.model import IAgentModel
from pilotage.container.application import Application
from pilotage.container.plugins import is_installed
from pilotage.container.pod import Pod


@Pod
def openai_compatible_model(settings: OpenAICompatibleSettings) -> OpenAICompatibleModel:
    """Return the model of the settings."""
    return OpenAICompatibleModel(settings)


@Pod
def vllm_agent_model(settings: VllmSettings) -> VllmAgentModel:
    """Return the model of the settings."""
    return VllmAgentModel(settings)


def register(app: Application) -> None:
    """Register a model if the extra is installed, a server is named and the application has no model."""
    if app.contains(IAgentModel) or not is_installed("httpx"):
        return
    if app.contains(VllmSettings):
        app.add(vllm_agent_model)
    elif app.contains(OpenAICompatibleSettings):
        app.add(openai_compatible_model)
    elif (settings := settings_from_environment()) is not None:
        is_vllm = isinstance(settings, VllmSettings)
        app.add(settings, vllm_agent_model if is_vllm else openai_compatible_model)
