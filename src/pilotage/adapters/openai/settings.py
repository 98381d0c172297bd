"""Settings of a server and its model, from code or from environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.server import ModelRetries, ModelTimeouts, ServerAccess
from pilotage.adapters.model_http.wires import VERSION, reject_unsendable, server_address
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.agent.ports.model import ModelCapability
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, empty_object, parsed
from pilotage.values import shared, value

NAME = "PILOTAGE_MODEL_NAME"
API_KEY = "PILOTAGE_MODEL_API_KEY"
SERVER = "PILOTAGE_MODEL_SERVER"
VLLM = "PILOTAGE_VLLM_"
T = TypeVar("T")


class EvidenceRole(StrEnum):
    """Role of evidence messages on the wire, which has none for evidence.

    USER is for chat templates that take a system message only in the first place.
    """

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"


def _no_headers() -> Mapping[str, str]:
    return {}


@value
class OpenAICompatibleSettings:
    """A model of a server.

    `base_url` ends where `/chat/completions` begins; an address without a path means `/v1`. `capability` is
    that of the model; the server's report (the length of the context) fills what is left open. `extra_body`
    goes into every request, for parameters that this adapter has no name for. `sends_trace` lets a server that you
    trust with it join the trace of the run, by the header `traceparent`.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeouts: ModelTimeouts = field(default_factory=shared(ModelTimeouts))
    retries: ModelRetries = field(default_factory=shared(ModelRetries))
    concurrency: int = 64
    capability: ModelCapability | None = None
    evidence_role: EvidenceRole = EvidenceRole.SYSTEM
    max_tokens_field: str = "max_tokens"
    headers: Mapping[str, str] = field(default_factory=_no_headers, repr=False)
    extra_body: JsonObject = field(default_factory=empty_object)
    checks_at_start: bool = True
    sends_trace: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, model=self.model, api_key=self.api_key, max_tokens_field=self.max_tokens_field)
        reject_not_positive(self, concurrency=self.concurrency)
        object.__setattr__(self, "base_url", server_address(self, self.base_url))
        reject_unsendable(self, self.api_key, self.headers)

    @property
    def provider(self) -> Provider:
        """The provider whose state the model wants back: this wire at its host."""
        return Provider(f"openai.chat@{urlsplit(self.base_url).hostname}", self.model)

    @property
    def access(self) -> ServerAccess:
        """The connection to the server."""
        headers = {"content-type": "application/json", **self.headers}
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key}"
        return ServerAccess(
            headers, self.timeouts, self.concurrency, self.api_key, sends_trace=self.sends_trace
        )

    def url(self, path: str) -> str:
        """Return the address of a page of the API, with the query of the base URL."""
        base, mark, query = self.base_url.partition("?")
        return f"{base}{path}{mark}{query}"

    def root(self, path: str) -> str:
        """Return the address of one of the server's own pages, such as `/health`."""
        base, mark, query = self.base_url.partition("?")
        return f"{base.removesuffix(VERSION)}{path}{mark}{query}"


@value
class VllmOptions:
    """Parameters of every request; None leaves one to the server.

    `chat_template_kwargs` go to the model's chat template, for example `{"enable_thinking": false}`. A reasoning
    parser takes the whole answer of a model that did not think for reasoning; with `reasoning_is_answer` it
    becomes the answer where there is no other.
    """

    chat_template_kwargs: JsonObject = field(default_factory=empty_object)
    reasoning_effort: str | None = None
    thinking_token_budget: int | None = None
    include_reasoning: bool | None = None
    reasoning_is_answer: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, reasoning_effort=self.reasoning_effort)
        reject_not_positive(self, thinking_token_budget=self.thinking_token_budget)


@value
class VllmSettings:
    """A model of a vLLM server."""

    server: OpenAICompatibleSettings
    options: VllmOptions = field(default_factory=shared(VllmOptions))


class ServerKind(StrEnum):
    """Kinds of servers."""

    OPENAI = "openai"
    VLLM = "vllm"


def settings_from_environment(
    environ: Mapping[str, str] = os.environ,
) -> OpenAICompatibleSettings | VllmSettings | None:
    """Return the settings of `PILOTAGE_MODEL_*` and, for a vLLM server, `PILOTAGE_VLLM_*`; None without an address.

    Raises:
        AgentDefinitionError: a variable has a value that cannot be, or the model's name is missing.
    """
    read = _Reader(environ)
    base_url = read.text(BASE_URL)
    if not base_url:
        return None
    settings = _compatible(read, base_url)
    if read.as_(ServerKind, SERVER) is ServerKind.VLLM or any(map(read.is_vllm, environ)):
        return VllmSettings(settings, _vllm_options(read))
    return settings


def _compatible(read: _Reader, base_url: str) -> OpenAICompatibleSettings:
    name = read.text(NAME)
    if name is None:
        raise AgentDefinitionError(
            f"{BASE_URL} is set and {NAME} is not. Name the model that the server serves."
        )
    declared = _given(
        context_tokens=read.as_(int, "PILOTAGE_MODEL_CONTEXT_TOKENS"),
        media_types=read.as_(_media_types, "PILOTAGE_MODEL_MEDIA_TYPES"),
    )
    return OpenAICompatibleSettings(
        base_url,
        name,
        **_given(
            api_key=read.text(API_KEY),
            timeouts=ModelTimeouts(
                **_given(
                    connect=read.as_(float, "PILOTAGE_MODEL_CONNECT_TIMEOUT"),
                    first_token=read.as_(float, "PILOTAGE_MODEL_FIRST_TOKEN_TIMEOUT"),
                    idle=read.as_(float, "PILOTAGE_MODEL_IDLE_TIMEOUT"),
                    request=read.as_(float, "PILOTAGE_MODEL_REQUEST_TIMEOUT"),
                )
            ),
            retries=ModelRetries(**_given(most=read.as_(int, "PILOTAGE_MODEL_RETRIES"))),
            concurrency=read.as_(int, "PILOTAGE_MODEL_CONCURRENCY"),
            capability=ModelCapability(name, **declared) if declared else None,
            evidence_role=read.as_(EvidenceRole, "PILOTAGE_MODEL_EVIDENCE_ROLE"),
            max_tokens_field=read.text("PILOTAGE_MODEL_MAX_TOKENS_FIELD"),
            extra_body=read.as_(_json_object, "PILOTAGE_MODEL_EXTRA_BODY"),
            checks_at_start=read.as_(_switch, "PILOTAGE_MODEL_CHECK_AT_START"),
        ),
    )


def vllm_options_from_environment(environ: Mapping[str, str]) -> VllmOptions:
    """Return the options of `PILOTAGE_VLLM_*`.

    Raises:
        AgentDefinitionError: a variable has a value that cannot be.
    """
    return _vllm_options(_Reader(environ))


def _vllm_options(read: _Reader) -> VllmOptions:
    return VllmOptions(
        **_given(
            chat_template_kwargs=read.as_(_json_object, f"{VLLM}CHAT_TEMPLATE_KWARGS"),
            reasoning_effort=read.text(f"{VLLM}REASONING_EFFORT"),
            thinking_token_budget=read.as_(int, f"{VLLM}THINKING_TOKEN_BUDGET"),
            include_reasoning=read.as_(_switch, f"{VLLM}INCLUDE_REASONING"),
            reasoning_is_answer=read.as_(_switch, f"{VLLM}REASONING_IS_ANSWER"),
        )
    )


class _Reader:
    """Reads variables; an empty one counts as not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str) -> str | None:
        return self._environ.get(name, "").strip() or None

    def as_(self, read: Callable[[str], T], name: str) -> T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            raise AgentDefinitionError(f"{name} is {text!r}: {error}.") from error

    def is_vllm(self, name: str) -> bool:
        return name.startswith(VLLM) and self.text(name) is not None


def _given(**fields: Any) -> dict[str, Any]:
    return {name: each for name, each in fields.items() if each is not None}


def _switch(text: str) -> bool:
    values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in values:
        raise ValueError("write true or false")
    return values[text.lower()]


def _media_types(text: str) -> frozenset[str]:
    """Read MIME types; the word `none` stands for a model that takes text only."""
    types = [each.strip() for each in text.split(",") if each.strip()]
    return frozenset() if types == ["none"] else frozenset(types)


def _json_object(text: str) -> JsonObject:
    found = parsed(text)
    if not isinstance(found, dict):
        raise ValueError("write a JSON object")  # noqa: TRY004 - the text is wrong, not a type of ours
    return found
