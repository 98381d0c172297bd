"""The wires that a server speaks, as the server itself answers, and the provider that a key looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.server import ModelServer
from pilotage.agent.model_failure import ModelFailure
from pilotage.errors import AgentDefinitionError


class Wire(StrEnum):
    """The protocols of model servers."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"

    @property
    def path(self) -> str:
        """The page that requests are sent to."""
        return "/chat/completions" if self is Wire.CHAT else f"/{self.value}"


MODELS: Mapping[Wire, str] = {
    Wire.CHAT: "OpenAICompatibleModel",
    Wire.RESPONSES: "OpenAIResponsesModel",
    Wire.MESSAGES: "AnthropicModel",
}
"""The classes that speak them."""

_NO_ANSWER = (
    ModelFailure.UNREACHABLE,
    ModelFailure.TIMEOUT,
    ModelFailure.UNAUTHORIZED,
    ModelFailure.OVERLOADED,
    ModelFailure.RATE_LIMITED,
)
_NOT_IMPLEMENTED = 501
# The longest beginning that fits counts.
_KEYS: Mapping[str, str] = {
    "sk-ant-": "Anthropic",
    "sk-or-": "OpenRouter",
    "sk-proj-": "OpenAI",
    "sk-svcacct-": "OpenAI",
    "gsk_": "Groq",
    "AIza": "Google",
    "xai-": "xAI",
    "hf_": "Hugging Face",
    "nvapi-": "NVIDIA",
    "pplx-": "Perplexity",
}
_HOSTS: Mapping[str, str] = {
    "anthropic.com": "Anthropic",
    "openai.com": "OpenAI",
    "openrouter.ai": "OpenRouter",
    "groq.com": "Groq",
    "googleapis.com": "Google",
    "x.ai": "xAI",
    "huggingface.co": "Hugging Face",
    "nvidia.com": "NVIDIA",
    "perplexity.ai": "Perplexity",
}


async def spoken_wires(server: ModelServer, url: Callable[[str], str]) -> Sequence[Wire]:
    """Return the wires of a server: those whose page refuses an empty request instead of being unknown.

    Nothing is generated, so nothing is paid.

    Raises:
        ModelServerError: the server cannot be reached, is busy, or does not accept the key.
    """
    return [wire for wire in Wire if await is_spoken(wire, server, url)]


async def is_spoken(wire: Wire, server: ModelServer, url: Callable[[str], str]) -> bool:
    """Return whether a server speaks a wire.

    Raises:
        ModelServerError: the server cannot be reached, is busy, or does not accept the key.
    """
    try:
        await server.post(url(wire.path), b"{}")
    except ModelServerError as error:
        if error.failure in _NO_ANSWER:
            raise
        return error.failure is not ModelFailure.NOT_FOUND and error.status != _NOT_IMPLEMENTED
    return True


async def expect_wire(wire: Wire, server: ModelServer, url: Callable[[str], str]) -> None:
    """Refuse a server that speaks other wires only.

    Raises:
        AgentDefinitionError: it does.
        ModelServerError: the server cannot be reached, is busy, or does not accept the key.
    """
    if await is_spoken(wire, server, url):
        return
    others = [each for each in Wire if each is not wire and await is_spoken(each, server, url)]
    if others:
        words = ", ".join(f"{each.value} ({MODELS[each]})" for each in others)
        raise AgentDefinitionError(
            f"the server does not speak {wire.value}: there is no {url(wire.path)}. It speaks {words}."
        )


def wrong_provider(key: str | None, host: str | None) -> str | None:
    """Return what is wrong with a key if it looks like one of another provider than the host's; else None."""
    begins = max((each for each in _KEYS if (key or "").startswith(each)), key=len, default=None)
    of_host = next((name for end, name in _HOSTS.items() if f".{host}".endswith(f".{end}")), None)
    if begins is None or of_host is None or _KEYS[begins] == of_host:
        return None
    return f"the key begins with {begins!r}, as those of {_KEYS[begins]} do, and {host} is of {of_host}"
