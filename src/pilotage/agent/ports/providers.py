"""Which extra provides which port, so that a missing one is reported with the way out."""

from __future__ import annotations

from pilotage.container.pod import provided_by
from pilotage.errors import AgentModelConfigurationError, AgentPersistenceConfigurationError

persistence_port = provided_by("pilotage[sqlalchemy]", family=AgentPersistenceConfigurationError)
model_port = provided_by(
    "pilotage[openai]",
    family=AgentModelConfigurationError,
    setup="name its server in PILOTAGE_MODEL_BASE_URL and PILOTAGE_MODEL_NAME",
)
