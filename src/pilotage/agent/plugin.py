"""The plugin `agent`: what an application needs to hold agents."""

from __future__ import annotations

from pilotage.agent.bootstrap import AgentBootstrapValidationPostProcessor
from pilotage.container.application import Application


def initialize(app: Application) -> None:
    """Register the validation of agents; models and persistence come from their own plugins."""
    app.add(AgentBootstrapValidationPostProcessor)
