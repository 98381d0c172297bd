"""Durable runs over a real server that is killed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from pilotage import Agent, AgentExecutionSpec, ToolEffects, agent_tool
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.agent.events import AgentEventKind
from pilotage.agent.state import AgentSituation
from pilotage.runtime import ModelRetrySettings
from tests.adapters.llamacpp.rig import LlamaServer
from tests.behaviour.bureau import CANCELLED, COMPLETED, DURABLE, Bureau, resumed, triple
from tests.behaviour.office import UNGATED

ONCE, MOST, LONG = ModelRetries(most=0), 300, 1900
AT_ONCE = ModelRetrySettings(tries_in_process=0)
WAITING = AgentSituation.MODEL_UNAVAILABLE.value
Model = AnthropicModel | OpenAICompatibleModel


def chat(url: str, most: int = MOST) -> Model:
    limit = {"max_tokens": most}
    return OpenAICompatibleModel(OpenAICompatibleSettings(url, "tiny", retries=ONCE, extra_body=limit))


def responses(url: str, most: int = MOST) -> Model:
    limit = {"max_output_tokens": most}
    return OpenAIResponsesModel(OpenAICompatibleSettings(url, "tiny", retries=ONCE, extra_body=limit))


def messages(url: str, most: int = MOST) -> Model:
    return AnthropicModel(AnthropicSettings("tiny", base_url=f"{url}/v1", retries=ONCE, max_tokens=most))


@pytest.fixture
def server(gguf: Path) -> Iterator[LlamaServer]:
    made = LlamaServer(gguf)
    made.start()
    yield made
    made.kill()


@pytest.fixture(params=[chat, responses, messages], ids=lambda each: each.__name__)
async def model(request: pytest.FixtureRequest, server: LlamaServer) -> AsyncIterator[Model]:
    make: Callable[[str], Model] = request.param
    made = make(server.root_url)
    yield made
    await made.aclose()


@Agent(spec=AgentExecutionSpec(name="teller", recovery=DURABLE))
class Teller:
    """Count."""


async def test_a_server_that_is_killed_in_the_middle_of_a_reply_costs_only_time(
    server: LlamaServer, model: Model
) -> None:
    bureau, kills = Bureau(), [server.kill]
    async with bureau.process(Teller, None, AT_ONCE, model=model) as runs:
        handle = await runs.start(Teller, "Count.")
        async for event in handle.events():
            if event.kind is AgentEventKind.MESSAGE_DELTA and kills:
                kills.pop()()
        waiting = await handle.result()
        assert triple(waiting.state) == WAITING
        server.start()
        result = await resumed(runs, handle.id)
    assert triple(result.state) == COMPLETED, result.error
    assert not kills
    # At the limit of a reply the run asks the model to go on, which greets then.
    assert str(result.output).strip().startswith(" ".join(["one", "two", "three"] * (MOST // 3)))


@pytest.mark.parametrize("make", [chat, responses, messages])
async def test_a_run_that_is_cancelled_in_the_middle_of_a_reply_stops_its_server(
    server: LlamaServer, make: Callable[[str, int], Model]
) -> None:
    bureau, model = Bureau(), make(server.root_url, LONG)
    async with bureau.process(Teller, None, AT_ONCE, model=model) as runs:
        handle = await runs.start(Teller, "Count.")
        async for event in handle.events():
            if event.kind is AgentEventKind.MESSAGE_DELTA:
                assert server.is_busy()
                await runs.cancel(handle.id)
                break
        result = await handle.result()
    assert triple(result.state) == CANCELLED, result.error
    until = time.monotonic() + 120
    while server.is_busy():
        assert time.monotonic() < until
    await model.aclose()


async def test_a_server_that_is_killed_between_two_turns_costs_only_time(
    server: LlamaServer, model: Model
) -> None:
    bureau, seen = Bureau(), list[str]()

    @Agent(spec=AgentExecutionSpec(name="librarian", recovery=DURABLE))
    class Librarian:
        """Look words up."""

        @agent_tool(approval=UNGATED, effects=ToolEffects.write_state())
        async def lookup(self, key: str) -> str:
            """Look a word up; the model's server dies meanwhile."""
            seen.append(key)
            server.kill()
            return f"{key}: openings"

    async with bureau.process(Librarian, None, AT_ONCE, model=model) as runs:
        handle = await runs.start(Librarian, "What are ports?")
        waiting = await handle.result()
        assert triple(waiting.state) == WAITING
    server.start()
    async with bureau.process(Librarian, None, AT_ONCE, model=model) as runs:
        result = await resumed(runs, handle.id)
    assert (triple(result.state), result.output) == (COMPLETED, "The ports are found.")
    assert seen == ["ports"]
