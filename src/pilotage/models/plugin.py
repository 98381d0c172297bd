"""The plugin `models`: the model that `PILOTAGE_MODEL` names, such as `anthropic:NAME`."""

from __future__ import annotations

import os

from pilotage.agent.ports.model import IAgentModel
from pilotage.container.application import Application
from pilotage.models.named import named_model

MODEL = "PILOTAGE_MODEL"


def initialize(app: Application) -> None:
    """Add the model of the environment, unless the application has one."""
    name = os.environ.get(MODEL, "").strip()
    if name and not app.contains(IAgentModel):
        app.add(named_model(name))
