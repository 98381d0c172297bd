"""Models by name: `anthropic:NAME`."""

from __future__ import annotations

from pilotage.adapters.anthropic.model import AnthropicModel
from pilotage.adapters.anthropic.settings import OWN_URL, AnthropicSettings
from pilotage.adapters.model_http.named import key_for, text_of


def anthropic_model(name: str, address: str | None) -> AnthropicModel:
    """Return a model of Anthropic, or of a server with `/v1/messages` at an address."""
    url = address or _with_version(text_of("ANTHROPIC_BASE_URL")) or OWN_URL
    key = key_for(url, OWN_URL, "ANTHROPIC_API_KEY", f"anthropic:{name}")
    return AnthropicModel(AnthropicSettings(name, key, url))


def _with_version(url: str | None) -> str | None:
    """Return an address as the settings want it: the variable leaves out the version of the wire."""
    return None if url is None else f"{url.rstrip('/').removesuffix('/v1')}/v1"
