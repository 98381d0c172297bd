"""The descriptions that a server gives of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from pilotage.adapters.model_http.decoding import parsed_object
from pilotage.adapters.model_http.errors import failed
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject

ServedModels: TypeAlias = Mapping[str, int | None]
"""The models of a server by name, with the length of their context if it is reported."""

_LENGTHS = ("max_model_len", "context_length", "context_window", "max_context_length")


def read_models(body: bytes) -> ServedModels:
    """Return the answer of `/v1/models`.

    Raises:
        ModelServerError: it is no list of models.
    """
    listed = parsed_object(body).get("data")
    if not isinstance(listed, list):
        raise failed(ModelFailure.UNREADABLE, "a list of models without models")
    models = [each for each in listed if isinstance(each, dict)]
    return {str(each.get("id")): _length(each) for each in models}


def read_version(body: bytes) -> str | None:
    """Return the answer of vLLM's `/version`."""
    version = parsed_object(body).get("version")
    return version if isinstance(version, str) else None


def capability_with(capability: ModelCapability, models: ServedModels) -> ModelCapability:
    """Return the capability completed by the server's report; declared values take precedence.

    Raises:
        AgentDefinitionError: the server serves other models.
    """
    if capability.model not in models:
        served = ", ".join(map(repr, models)) or "none"
        raise AgentDefinitionError(
            f"the model's server does not serve {capability.model!r}, but {served}. "
            "Name one of them in PILOTAGE_MODEL_NAME or OpenAICompatibleSettings.model."
        )
    length = models[capability.model]
    return (
        capability if capability.context_tokens or not length else replace(capability, context_tokens=length)
    )


def _length(model: JsonObject) -> int | None:
    found = (model.get(name) for name in _LENGTHS)
    return next((each for each in found if isinstance(each, int) and each > 0), None)
