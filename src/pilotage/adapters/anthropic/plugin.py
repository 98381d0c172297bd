"""Registration of the adapter's model in an application that has settings of it."""

from __future__ import annotations

from pilotage.adapters.anthropic.model import AnthropicModel
from pilotage.adapters.anthropic.settings import AnthropicSettings
from pilotage.agent.ports.model import IAgentModel
from pilotage.container.application import Application
from pilotage.container.plugins import is_installed
from pilotage.container.pod import Pod


@Pod
def anthropic_model(settings: AnthropicSettings) -> AnthropicModel:
    """Return the model of the settings."""
    return AnthropicModel(settings)


def register(app: Application) -> None:
    """Register a model if the extra is installed, and the application has settings and no model."""
    if not app.contains(IAgentModel) and is_installed("httpx") and app.contains(AnthropicSettings):
        app.add(anthropic_model)
