"""The plugin, and what a model learns from its server when the application starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.adapters.openai.answers import refused, said
from tests.adapters.openai.byte_server import PLAIN
from tests.adapters.openai.replay_server import Answer, Seen, replaying

from pilotage.adapters.openai import (
    ModelRetries,
    ModelServerError,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    VllmAgentModel,
    VllmOptions,
    VllmSettings,
)
from pilotage.adapters.openai_plugin import initialize
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError
from pilotage.testing import ScriptedModel

NOWHERE = OpenAICompatibleSettings("http://127.0.0.1:9/v1", "tiny")
ANSWER = ModelRequest([ModelMessage.user("x")], output=StructuredOutputSpec.from_type(int))


def with_plugin(app: Application) -> Application:
    initialize(app)
    return app


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PILOTAGE_MODEL_BASE_URL", "PILOTAGE_MODEL_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_without_settings_there_is_no_model() -> None:
    assert not with_plugin(Application("shop")).contains(IAgentModel)


@pytest.mark.parametrize(
    ("settings", "model"), [(NOWHERE, OpenAICompatibleModel), (VllmSettings(NOWHERE), VllmAgentModel)]
)
async def test_settings_of_the_application_make_a_model(settings: object, model: type[IAgentModel]) -> None:
    async with with_plugin(Application("shop").add(settings)) as app:
        assert type(app.get(IAgentModel)) is model


async def test_settings_in_the_environment_make_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_MODEL_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PILOTAGE_MODEL_NAME", "tiny")
    async with with_plugin(Application("shop")) as app:
        assert app.get(IAgentModel).capability.model == "tiny"


async def test_a_model_of_the_application_is_left_alone() -> None:
    own = ScriptedModel([])
    async with with_plugin(Application("shop").add(own, NOWHERE)) as app:
        assert app.get(IAgentModel) is own


async def test_a_server_that_is_not_there_yet_is_no_reason_not_to_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with with_plugin(Application("shop").add(NOWHERE)):
        assert "nothing learned from its server (unreachable)" in caplog.text


async def test_a_model_knows_its_context_from_the_server() -> None:
    with replaying(said("hello")) as server:
        settings = OpenAICompatibleSettings(server.base_url, "tiny")
        async with with_plugin(Application("shop").add(settings)) as app:
            assert app.get(IAgentModel).capability == ModelCapability("tiny", 2048, provider="openai")


async def test_what_was_declared_counts_more_than_what_the_server_says() -> None:
    with replaying(said("hello")) as server:
        declared = ModelCapability("tiny", 1024, tools=False)
        settings = OpenAICompatibleSettings(server.base_url, "tiny", capability=declared)
        async with with_plugin(Application("shop").add(settings)) as app:
            assert app.get(IAgentModel).capability == replace(declared, provider="openai")


async def test_a_model_that_is_not_served_keeps_the_application_from_starting() -> None:
    with replaying(said("hello")) as server:
        settings = OpenAICompatibleSettings(server.base_url, "huge")
        with pytest.raises(AgentDefinitionError, match="does not serve 'huge', but 'tiny'"):
            await with_plugin(Application("shop").add(settings)).start()


async def test_a_wrong_key_keeps_the_application_from_starting() -> None:
    with replaying(Answer([b'{"error":"Unauthorized"}'], 401)) as server:
        settings = OpenAICompatibleSettings(server.base_url, "tiny", "wrong")
        with pytest.raises(AgentDefinitionError, match="PILOTAGE_MODEL_API_KEY"):
            await with_plugin(Application("shop").add(settings)).start()


async def test_nothing_is_asked_at_start_where_the_settings_say_so() -> None:
    with replaying(said("hello")) as server:
        settings = OpenAICompatibleSettings(server.base_url, "huge", checks_at_start=False)
        async with with_plugin(Application("shop").add(settings)):
            assert not server.seen


async def test_an_application_lets_go_of_its_connections() -> None:
    with replaying(said("hello")) as server:
        settings = OpenAICompatibleSettings(server.base_url, "tiny")
        async with with_plugin(Application("shop").add(settings)) as app:
            model = app.get(IAgentModel)
            assert (await model.complete(PLAIN)).content == "hello"


def version(text: str) -> Callable[[Seen], Answer]:
    def handler(seen: Seen) -> Answer:
        return Answer([f'{{"version":"{text}"}}'.encode()]) if seen.path == "/version" else said("3")(seen)

    return handler


@pytest.mark.parametrize(("told", "parameter"), [("0.32.0", "structured_outputs"), ("0.10.2", "guided_json")])
async def test_vllm_is_asked_for_its_version_once(told: str, parameter: str) -> None:
    with replaying(version(told)) as server:
        model = VllmAgentModel(VllmSettings(OpenAICompatibleSettings(server.base_url, "tiny")))
        for _ in range(2):
            assert (await model.complete(ANSWER)).output == 3
        assert all(parameter in body for body in server.chats)
        assert sum(seen.path == "/version" for seen in server.seen) == 1
        await model.aclose()


async def test_a_server_that_came_back_is_asked_again() -> None:
    with replaying(version("0.10.2")) as server:
        settings = OpenAICompatibleSettings(server.base_url, "tiny", retries=ModelRetries(most=0))
        model = VllmAgentModel(VllmSettings(settings))
        await model.complete(ANSWER)
        assert "guided_json" in server.chats[-1]
        server.handler = lambda _: Answer([], closes_silently=True)
        with pytest.raises(ModelServerError):
            await model.complete(ANSWER)
        server.handler = version("0.32.0")
        await model.complete(ANSWER)
        assert "structured_outputs" in server.chats[-1]
        await model.aclose()


async def test_a_server_without_a_version_is_asked_in_the_way_all_understand() -> None:
    def handler(seen: Seen) -> Answer:
        return Answer([b"{}"], 404) if seen.path == "/version" else said("3")(seen)

    with replaying(handler) as server:
        model = VllmAgentModel(VllmSettings(OpenAICompatibleSettings(server.base_url, "tiny"), VllmOptions()))
        assert await model.version() is None
        await model.complete(ANSWER)
        assert "response_format" in server.chats[0]
        assert await model.is_healthy()
        await model.aclose()


async def test_health_is_what_the_server_says() -> None:
    with replaying(Answer([b""], 503)) as server:
        model = VllmAgentModel(VllmSettings(OpenAICompatibleSettings(server.base_url, "tiny")))
        assert not await model.is_healthy()
        await model.aclose()


async def test_models_that_cannot_be_listed_are_no_reason_not_to_start() -> None:
    with replaying(refused(500, "no list")) as server:
        model = OpenAICompatibleModel(OpenAICompatibleSettings(server.base_url, "tiny"))
        server.handler = lambda _: Answer([b'{"data": 7}'])
        with pytest.raises(ModelServerError, match="without models"):
            await model.served_models()
        await model.start()
        await model.aclose()
