"""The wires of a server are asked for, with requests that generate nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.server import ModelServer, ServerStream
from pilotage.adapters.model_http.wires import Wire, spoken_wires, wrong_provider
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings, OpenAIResponsesModel
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.ports.model import IAgentModel
from pilotage.container.lifecycle import ILifecycle
from pilotage.errors import AgentDefinitionError


class Speaking(ModelServer):
    """Has some pages, which refuse an empty request with a status."""

    def __init__(self, **statuses: int) -> None:
        self._statuses = {Wire(name).path: status for name, status in statuses.items()}
        self.is_closed = False

    async def get(self, url: str) -> bytes:
        raise server_error(404, b"{}")

    async def post(self, url: str, body: bytes) -> bytes:
        assert body == b"{}"
        status = self._statuses.get(url.removeprefix("http://h/v1"), 404)
        if status == 200:
            return b"{}"
        raise server_error(status, b"{}") if status else failed(ModelFailure.UNREACHABLE)

    async def open(self, url: str, body: bytes) -> ServerStream:
        raise server_error(404, b"{}")

    async def close(self) -> None:
        self.is_closed = True


def url(path: str) -> str:
    return f"http://h/v1{path}"


@pytest.mark.parametrize("refusal", [200, 400, 415, 422, 500])
async def test_a_page_that_refuses_an_empty_request_is_there(refusal: int) -> None:
    assert await spoken_wires(Speaking(chat=refusal, messages=refusal), url) == [Wire.CHAT, Wire.MESSAGES]


@pytest.mark.parametrize("missing", [404, 405, 501])
async def test_a_page_that_is_unknown_is_not(missing: int) -> None:
    assert await spoken_wires(Speaking(chat=missing, responses=400), url) == [Wire.RESPONSES]


@pytest.mark.parametrize("status", [0, 401, 403, 429, 503])
async def test_a_server_that_does_not_say_is_not_guessed_about(status: int) -> None:
    with pytest.raises(ModelServerError):
        await spoken_wires(Speaking(chat=400, responses=status), url)


def openai_settings() -> OpenAICompatibleSettings:
    return OpenAICompatibleSettings("http://h/v1", "m")


MODELS: dict[Wire, Callable[[ModelServer], IAgentModel]] = {
    Wire.CHAT: lambda server: OpenAICompatibleModel(openai_settings(), server=server),
    Wire.RESPONSES: lambda server: OpenAIResponsesModel(openai_settings(), server=server),
    Wire.MESSAGES: lambda server: AnthropicModel(
        AnthropicSettings("m", base_url="http://h/v1"), server=server
    ),
}


@pytest.mark.parametrize("wire", MODELS)
async def test_a_server_of_another_wire_keeps_an_application_from_starting(wire: Wire) -> None:
    other = next(each for each in Wire if each is not wire)
    server = Speaking(**{other.value: 400})
    model = MODELS[wire](server)
    assert isinstance(model, ILifecycle)
    with pytest.raises(AgentDefinitionError, match=f"does not speak {wire.value}.*It speaks {other.value}"):
        await model.start()
    assert server.is_closed


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("status", [0, 400, 404, 503])
async def test_a_server_that_is_away_or_silent_does_not(wire: Wire, status: int) -> None:
    model = MODELS[wire](Speaking(**{each.value: status for each in Wire}))
    assert isinstance(model, ILifecycle)
    await model.start()


@pytest.mark.parametrize("wire", [Wire.RESPONSES, Wire.MESSAGES])
async def test_a_server_that_refuses_the_key_does(wire: Wire) -> None:
    model = MODELS[wire](Speaking(**{each.value: 401 for each in Wire}))
    assert isinstance(model, ILifecycle)
    with pytest.raises(AgentDefinitionError, match="does not accept the key"):
        await model.start()


@pytest.mark.parametrize(
    ("key", "host", "words"),
    [
        (
            "sk-ant-api03-x",
            "api.openai.com",
            "'sk-ant-', as those of Anthropic do, and api.openai.com is of OpenAI",
        ),
        ("sk-proj-x", "api.anthropic.com", "'sk-proj-', as those of OpenAI do"),
        ("gsk_x", "openrouter.ai", "'gsk_', as those of Groq do"),
        ("sk-ant-x", "api.anthropic.com", None),
        ("sk-old-style", "api.anthropic.com", None),
        ("sk-ant-x", "gateway.example", None),
        ("sk-ant-x", "notopenai.com", None),
        (None, "api.openai.com", None),
    ],
)
def test_a_key_of_another_provider_is_known_by_its_beginning(
    key: str | None, host: str, words: str | None
) -> None:
    found = wrong_provider(key, host)
    assert found is None if words is None else words in (found or "")
