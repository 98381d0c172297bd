"""The provider of a model: which state is sent back to it, and which is left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from pilotage.adapters.model_http.decoding import storable
from pilotage.agent.messages import ModelMessage, ProviderState, state_of
from pilotage.agent.ports.model import ModelCapability
from pilotage.jsonvalue import JsonValue
from pilotage.values import value

STATE_LEFT_OUT = "state_left_out"
"""Metadata key of a reply: the models whose state was in the transcript and was not sent to this one."""


_HOSTS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "api.cohere.com": "cohere",
    "cloud.ibm.com": "ibm.watsonx.ai",
}
"""The providers with a name in OpenTelemetry's conventions, by the end of their hosts."""


def with_provider(capability: ModelCapability, url: str, wire: str) -> ModelCapability:
    """Return a capability with the name of its provider: that of its host, else that of its wire."""
    if capability.provider is not None:
        return capability
    host = urlsplit(url).hostname or ""
    known = (name for end, name in _HOSTS.items() if host == end or host.endswith(f".{end}"))
    return replace(capability, provider=next(known, wire))


@value
class Provider:
    """A wire at a host, and one of its models."""

    name: str
    model: str

    def state(self, kind: str, data: JsonValue) -> ProviderState:
        """Return a state that this provider gave."""
        return ProviderState(self.name, self.model, kind, storable(data))

    def data_of(self, state: ProviderState | None, kind: str) -> JsonValue:
        """Return the data of a state of this kind that this provider and model gave; None for every other one."""
        if state is None or state.kind != kind or not state.is_of(self.name, self.model):
            return None
        return state.data

    def origin(self, field: str) -> str:
        """Return the origin of reasoning that this provider sent in a field."""
        return f"{self.name}/{self.model}#{field}"

    def field_of(self, origin: str | None) -> str | None:
        """Return the field in which this provider sent reasoning of an origin; None for that of every other one."""
        own = self.origin("")
        return origin.removeprefix(own) if origin is not None and origin.startswith(own) else None

    def left_out(self, messages: Iterable[ModelMessage]) -> list[str]:
        """Return the models whose states are in messages and are not sent to this one."""
        states = (
            state_of(part)
            for message in messages
            for part in (message.tool_calls if message.ordered is None else message.ordered)
        )
        others = {
            f"{each.provider}/{each.model}" for each in states if each is not None and not self._gave(each)
        }
        return sorted(others)

    def _gave(self, state: ProviderState) -> bool:
        return state.is_of(self.name, self.model)
