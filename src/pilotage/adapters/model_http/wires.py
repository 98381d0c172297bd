"""The wires that a server speaks, as the server itself answers; addresses of servers, and what keys look like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from urllib.parse import urlsplit

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

VERSION = "/v1"
"""The path of an address that has none."""
_OF_A_HEADER = re.compile(r"([!-~]([ -~\t]*[!-~])?)?")
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


def server_address(settings: object, text: str) -> str:
    """Return the address of a server without a slash at the end of its path; without a path, that of its first version.

    Raises:
        AgentDefinitionError: it is no address of an HTTP server, or one of a single page.
    """
    name = f"{type(settings).__name__}.base_url"
    address, mark, query = text.strip().partition("?")
    address = address.rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise AgentDefinitionError(
            f"{name} is {text!r}, which is no address of a server. Write it like 'http://127.0.0.1:8000/v1'."
        )
    page = next((each.path for each in Wire if address.endswith(each.path)), None)
    if page is not None:
        raise AgentDefinitionError(f"{name} is {text!r}. Leave {page!r} out: {address.removesuffix(page)!r}.")
    return f"{address if parts.path else f'{address}{VERSION}'}{mark}{query}"


def reject_unsendable(settings: object, key: str | None, headers: Mapping[str, str]) -> None:
    """Refuse a key and headers that HTTP cannot carry, without showing them.

    Raises:
        AgentDefinitionError: one has a line break, a character outside of ASCII, or blanks around it.
    """
    for name, text in {"api_key": key or "", **headers}.items():
        if not _OF_A_HEADER.fullmatch(text):
            raise AgentDefinitionError(
                f"{type(settings).__name__}: no request can carry {name!r}, which has a line break, a character "
                "outside of ASCII, or blanks around it. Write it without them."
            )


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
