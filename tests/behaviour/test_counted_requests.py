"""Tokens of requests: as the model counts them where it does, else estimated, and marked as such."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from pilotage import Agent, AgentExecutionLimits, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.http_server import HttpServer
from pilotage.adapters.openai import OpenAICompatibleSettings, VllmAgentModel, VllmSettings
from pilotage.agent import IAgentModel, ModelMessage, ModelRequest, RunKey
from pilotage.errors import ModelCallError
from pilotage.ids import SystemClock
from pilotage.jsonvalue import JsonObject, as_object
from pilotage.models import RateLimitedModel
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, says

QUESTION = ModelRequest([ModelMessage.user("How long is this?")])


class Counting(ScriptedModel):
    """A model that counts its requests, or does something else when it is asked."""

    def __init__(self, count: object) -> None:
        super().__init__([says("one"), says("two")])
        self._count = count
        self.asked = 0

    async def count_tokens(self, request: ModelRequest) -> int | None:
        self.asked += 1
        if isinstance(self._count, Exception):
            raise self._count
        return self._count  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def clerk(**limits: Any) -> type[object]:
    spec = AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY, limits=AgentExecutionLimits(**limits)
    )

    @Agent(spec=spec)
    class Clerk:
        """Answer."""

    return Clerk


@asynccontextmanager
async def office(agent: type[object], model: IAgentModel, store: MemoryStore) -> AsyncGenerator[AgentRuns]:
    async with Application("office").add(agent, model, *store.ports).load_plugins() as app:
        yield app.get(AgentRuns)


async def views(store: MemoryStore, run_id: str) -> dict[str, JsonObject]:
    rows = [row async for row in store.journal.read(RunKey("default", run_id))]
    return {row.action_id: as_object(row.view) for row in rows if row.kind is not None}


async def test_a_hold_is_made_of_the_count_of_the_model() -> None:
    agent, store, model = clerk(max_tokens=1_000), MemoryStore(), Counting(250)
    async with office(agent, model, store) as runs:
        run = await runs.start(agent, "Hello?")
        await run.result()
    found = await views(store, run.id)
    hold = found["run/model#1/hold#1"]
    assert hold["counted"] == "exact"
    assert model.requests[0].sampling.max_tokens == 750
    assert as_object(found["run/model#1"]["manifest"])["counted_tokens"] == 250


@pytest.mark.parametrize(
    "count", [None, -1, True, 10**12, "250", ModelCallError("no counting here"), RuntimeError("broken")]
)
async def test_without_a_count_that_can_be_true_the_request_is_estimated_and_marked(count: object) -> None:
    agent, store, model = clerk(max_tokens=1_000), MemoryStore(), Counting(count)
    async with office(agent, model, store) as runs:
        run = await runs.start(agent, "Hello?")
        assert (await run.result()).output == "one"
    found = await views(store, run.id)
    assert found["run/model#1/hold#1"]["counted"] == "estimated"
    assert "counted_tokens" not in as_object(found["run/model#1"].get("manifest", {}))


async def test_a_run_without_limits_of_tokens_does_not_ask() -> None:
    agent, model = clerk(max_steps=3), Counting(250)
    async with office(agent, model, MemoryStore()) as runs:
        await (await runs.start(agent, "Hello?")).result()
    assert model.asked == 0


def server_of(
    settings: OpenAICompatibleSettings | AnthropicSettings, answers: Mapping[str, object]
) -> HttpServer:
    def answer(request: httpx.Request) -> httpx.Response:
        found = answers.get(request.url.path)
        if callable(found):
            return httpx.Response(200, json=found(json.loads(request.content)))
        return httpx.Response(404) if found is None else httpx.Response(200, json=found)

    return HttpServer(settings.access, SystemClock(), httpx.MockTransport(answer))


async def test_vllm_counts_with_its_tokenizer_and_template() -> None:
    asked: list[JsonObject] = []

    def tokenize(body: JsonObject) -> JsonObject:
        asked.append(body)
        return {"count": 17, "max_model_len": 2048, "tokens": [1] * 17}

    settings = VllmSettings(OpenAICompatibleSettings("http://vllm", "tiny", checks_at_start=False))
    pages = {"/tokenize": tokenize, "/version": {"version": "0.32.0"}}
    model = VllmAgentModel(settings, server=server_of(settings.server, pages))
    assert await RateLimitedModel(model, max_concurrent=1).count_tokens(QUESTION) == 17
    assert asked == [{"model": "tiny", "messages": [{"role": "user", "content": "How long is this?"}]}]
    wrong: list[object] = [{"tokens": []}, {"count": "17"}, None]
    for page in wrong:
        silent = VllmAgentModel(settings, server=server_of(settings.server, {**pages, "/tokenize": page}))
        with pytest.raises(ModelCallError):
            await silent.count_tokens(QUESTION)


async def test_anthropic_counts_over_its_wire() -> None:
    settings = AnthropicSettings("tiny", base_url="http://claude/v1", checks_at_start=False)
    pages = {"/v1/messages/count_tokens": {"input_tokens": 23}}
    assert await AnthropicModel(settings, server=server_of(settings, pages)).count_tokens(QUESTION) == 23


async def test_a_model_that_cannot_count_says_so() -> None:
    assert await ScriptedModel([]).count_tokens(QUESTION) is None
