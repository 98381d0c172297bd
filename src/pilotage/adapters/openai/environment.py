"""Settings from environment variables, with errors that name the variable."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from pilotage.adapters.openai.settings import (
    EvidenceRole,
    ModelRetries,
    ModelTimeouts,
    OpenAICompatibleSettings,
)
from pilotage.adapters.openai.vllm_settings import VllmOptions, VllmSettings
from pilotage.adapters.openai_plugin import BASE_URL
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, parsed

NAME = "PILOTAGE_MODEL_NAME"
API_KEY = "PILOTAGE_MODEL_API_KEY"
SERVER = "PILOTAGE_MODEL_SERVER"
VLLM = "PILOTAGE_VLLM_"
T = TypeVar("T")


class ServerKind(StrEnum):
    """Which kind of server an address is of."""

    OPENAI = "openai"
    VLLM = "vllm"


def settings_from_environment(
    environ: Mapping[str, str] = os.environ,
) -> OpenAICompatibleSettings | VllmSettings | None:
    """The settings in `PILOTAGE_MODEL_*`, with `PILOTAGE_VLLM_*` those of a vLLM server; None without an address.

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
    context_tokens = read.as_(int, "PILOTAGE_MODEL_CONTEXT_TOKENS")
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
            capability=ModelCapability(name, context_tokens) if context_tokens else None,
            evidence_role=read.as_(EvidenceRole, "PILOTAGE_MODEL_EVIDENCE_ROLE"),
            max_tokens_field=read.text("PILOTAGE_MODEL_MAX_TOKENS_FIELD"),
            extra_body=read.as_(_json_object, "PILOTAGE_MODEL_EXTRA_BODY"),
            checks_at_start=read.as_(_switch, "PILOTAGE_MODEL_CHECK_AT_START"),
        ),
    )


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
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise ValueError("write true or false")
    return words[text.lower()]


def _json_object(text: str) -> JsonObject:
    found = parsed(text)
    if not isinstance(found, dict):
        raise ValueError("write a JSON object")  # noqa: TRY004 - the text is wrong, not a type of ours
    return found
