"""Settings, from code and from the environment."""

from __future__ import annotations

from typing import Any

import pytest

from pilotage.adapters.anthropic import AnthropicSettings
from pilotage.adapters.openai import (
    EvidenceRole,
    ModelRetries,
    ModelTimeouts,
    OpenAICompatibleSettings,
    VllmOptions,
    VllmSettings,
    settings_from_environment,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.errors import AgentDefinitionError

SERVER = {"PILOTAGE_MODEL_BASE_URL": "http://127.0.0.1:8000/v1", "PILOTAGE_MODEL_NAME": "tiny"}


@pytest.mark.parametrize(
    ("given", "base", "root"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("https://host/proxy/openai/v1", "https://host/proxy/openai/v1", "https://host/proxy/openai"),
        ("https://host/api", "https://host/api", "https://host/api"),
    ],
)
def test_an_address_may_be_written_in_several_ways(given: str, base: str, root: str) -> None:
    settings = OpenAICompatibleSettings(given, "tiny")
    assert (settings.base_url, settings.root("/health")) == (base, f"{root}/health")


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://host/v1", "http://", "/v1"])
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(AgentDefinitionError, match="http://127.0.0.1:8000/v1"):
        OpenAICompatibleSettings(address, "tiny")


@pytest.mark.parametrize("page", ["/chat/completions", "/responses", "/messages", "/messages/"])
def test_the_address_of_one_page_is_refused_with_the_right_one(page: str) -> None:
    with pytest.raises(AgentDefinitionError, match=r"OpenAICompatibleSettings.base_url.*'http://host/v1'"):
        OpenAICompatibleSettings(f"http://host/v1{page}", "tiny")
    with pytest.raises(AgentDefinitionError, match=r"AnthropicSettings.base_url.*'http://host/v1'"):
        AnthropicSettings("tiny", base_url=f"http://host/v1{page}")


def test_the_address_of_another_wire_may_be_written_in_several_ways_too() -> None:
    for given in ("https://host", "https://host/", "https://host/v1/", " https://host/v1 "):
        assert AnthropicSettings("tiny", base_url=given).url("/messages") == "https://host/v1/messages"


@pytest.mark.parametrize("key", ["sk-a\n", " sk-a", "sk-a\r\nx: y", "sk-\u00e4", "sk-\u201ca\u201d", "a\0"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(AgentDefinitionError, match="'api_key', which has") as refused:
        OpenAICompatibleSettings("http://host", "tiny", key)
    assert key.strip() not in str(refused.value)
    with pytest.raises(AgentDefinitionError, match="'api_key', which has"):
        AnthropicSettings("tiny", key)
    with pytest.raises(AgentDefinitionError, match="'x-team', which has"):
        OpenAICompatibleSettings("http://host", "tiny", headers={"x-team": key})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: OpenAICompatibleSettings("http://host", " "),
        lambda: OpenAICompatibleSettings("http://host", "tiny", ""),
        lambda: OpenAICompatibleSettings("http://host", "tiny", concurrency=0),
        lambda: ModelTimeouts(idle=0),
        lambda: ModelRetries(most=-1),
        lambda: VllmOptions(thinking_token_budget=0),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(AgentDefinitionError):
        wrong()


@pytest.mark.parametrize("environ", [{}, {"PILOTAGE_MODEL_BASE_URL": " "}, {"PILOTAGE_MODEL_NAME": "tiny"}])
def test_an_environment_without_an_address_gives_no_settings(environ: dict[str, str]) -> None:
    assert settings_from_environment(environ) is None


def test_an_address_and_a_name_are_enough() -> None:
    assert settings_from_environment(SERVER) == OpenAICompatibleSettings("http://127.0.0.1:8000/v1", "tiny")


def test_an_address_without_a_name_says_what_is_missing() -> None:
    with pytest.raises(AgentDefinitionError, match="PILOTAGE_MODEL_NAME is not"):
        settings_from_environment({"PILOTAGE_MODEL_BASE_URL": "http://host"})


def test_everything_can_be_said_in_the_environment() -> None:
    environ = {
        **SERVER,
        "PILOTAGE_MODEL_API_KEY": "sk-1",
        "PILOTAGE_MODEL_CONNECT_TIMEOUT": "1",
        "PILOTAGE_MODEL_FIRST_TOKEN_TIMEOUT": "2.5",
        "PILOTAGE_MODEL_IDLE_TIMEOUT": "3",
        "PILOTAGE_MODEL_REQUEST_TIMEOUT": "4",
        "PILOTAGE_MODEL_RETRIES": "0",
        "PILOTAGE_MODEL_CONCURRENCY": "8",
        "PILOTAGE_MODEL_CONTEXT_TOKENS": "4096",
        "PILOTAGE_MODEL_MEDIA_TYPES": "image/*, audio/wav",
        "PILOTAGE_MODEL_EVIDENCE_ROLE": "user",
        "PILOTAGE_MODEL_MAX_TOKENS_FIELD": "max_completion_tokens",
        "PILOTAGE_MODEL_EXTRA_BODY": '{"seed": 7}',
        "PILOTAGE_MODEL_CHECK_AT_START": "false",
    }
    assert settings_from_environment(environ) == OpenAICompatibleSettings(
        "http://127.0.0.1:8000/v1",
        "tiny",
        "sk-1",
        ModelTimeouts(1, 2.5, 3, 4),
        ModelRetries(0),
        8,
        ModelCapability("tiny", 4096, media_types=frozenset({"image/*", "audio/wav"})),
        EvidenceRole.USER,
        "max_completion_tokens",
        extra_body={"seed": 7},
        checks_at_start=False,
    )


def test_variables_of_vllm_mean_a_vllm_server() -> None:
    environ = {
        **SERVER,
        "PILOTAGE_VLLM_CHAT_TEMPLATE_KWARGS": '{"enable_thinking": false}',
        "PILOTAGE_VLLM_REASONING_EFFORT": "low",
        "PILOTAGE_VLLM_THINKING_TOKEN_BUDGET": "64",
        "PILOTAGE_VLLM_INCLUDE_REASONING": "no",
        "PILOTAGE_VLLM_REASONING_IS_ANSWER": "1",
    }
    options = VllmOptions(
        {"enable_thinking": False}, "low", 64, include_reasoning=False, reasoning_is_answer=True
    )
    server = OpenAICompatibleSettings("http://127.0.0.1:8000/v1", "tiny")
    assert settings_from_environment(environ) == VllmSettings(server, options)


def test_a_vllm_server_can_be_named_without_any_of_its_variables() -> None:
    assert isinstance(settings_from_environment({**SERVER, "PILOTAGE_MODEL_SERVER": "vllm"}), VllmSettings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PILOTAGE_MODEL_IDLE_TIMEOUT", "soon"),
        ("PILOTAGE_MODEL_RETRIES", "2.5"),
        ("PILOTAGE_MODEL_EVIDENCE_ROLE", "prophet"),
        ("PILOTAGE_MODEL_EXTRA_BODY", "[1]"),
        ("PILOTAGE_MODEL_EXTRA_BODY", "{"),
        ("PILOTAGE_MODEL_CHECK_AT_START", "perhaps"),
        ("PILOTAGE_MODEL_SERVER", "oracle"),
        ("PILOTAGE_VLLM_THINKING_TOKEN_BUDGET", "many"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(name: str, text: str) -> None:
    with pytest.raises(AgentDefinitionError, match=name):
        settings_from_environment({**SERVER, name: text})


def test_a_model_of_text_says_so() -> None:
    settings = settings_from_environment({**SERVER, "PILOTAGE_MODEL_MEDIA_TYPES": "none"})
    assert isinstance(settings, OpenAICompatibleSettings)
    assert settings.capability == ModelCapability("tiny", media_types=frozenset())


def test_media_types_are_mime_types() -> None:
    with pytest.raises(AgentDefinitionError, match="media_types has 'pictures'"):
        settings_from_environment({**SERVER, "PILOTAGE_MODEL_MEDIA_TYPES": "pictures"})
