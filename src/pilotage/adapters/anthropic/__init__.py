"""Models of Anthropic, and of every server with `/v1/messages`: `pip install "pilotage[anthropic]"`."""

from pilotage.adapters.anthropic.model import AnthropicModel
from pilotage.adapters.anthropic.plugin import anthropic_model
from pilotage.adapters.anthropic.settings import AnthropicSettings

__all__ = ["AnthropicModel", "AnthropicSettings", "anthropic_model"]
