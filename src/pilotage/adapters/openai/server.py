"""Interface of a server, and the parsing of its descriptions of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from pilotage.adapters.openai.decoding import parsed_object
from pilotage.adapters.openai.errors import ModelFailure, failed
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject


class ServerStream(ABC):
    """The streamed body of a response."""

    @property
    @abstractmethod
    def is_event_stream(self) -> bool:
        """Whether the server streams; some send a whole reply although a stream was requested."""

    @abstractmethod
    async def read(self, within: float) -> bytes:
        """Return the next bytes, empty at the end.

        Raises:
            ModelServerError: nothing came within so many seconds, or the stream broke off.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, which stops the generation."""


class ModelServer(ABC):
    """A server over HTTP. It raises no error but `ModelServerError`."""

    @abstractmethod
    async def get(self, url: str) -> bytes:
        """Return the body of a page.

        Raises:
            ModelServerError: there is no such page, or no server.
        """

    @abstractmethod
    async def post(self, url: str, body: bytes) -> bytes:
        """Return the whole response to a request.

        Raises:
            ModelServerError: the request failed.
        """

    @abstractmethod
    async def open(self, url: str, body: bytes) -> ServerStream:
        """Return the response to a request as soon as it begins.

        Raises:
            ModelServerError: the request failed.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""


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
