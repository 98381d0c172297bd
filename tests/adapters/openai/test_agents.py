"""Agents over HTTP: the loop of a declarative agent, tools with dots in their names, a run that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.adapters.openai.answers import about_server, chunk, streamed
from tests.adapters.openai.replay_server import Answer, ReplayServer, Seen, events, replaying

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.openai import OpenAICompatibleSettings
from pilotage.agent import AgentStatus, MessageDeltaEvent, ReasoningDeltaEvent
from pilotage.errors import AgentModelConfigurationError
from pilotage.runtime import AgentRuns
from pilotage.testing import FaultyJournal, MemoryStore, ProcessStopped, StopAfter

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@Pod
class Directory:
    @agent_tool(schema_name="directory.nickname", effects=ToolEffects.read_only())
    async def nickname(self, name: str) -> str:
        """How a person likes to be called."""
        return {"Ada": "Countess"}.get(name, name)


@Agent(spec=DURABLE)
class Greeter:
    """Greet people by name."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory


@dataclass(frozen=True)
class Greeting:
    words: str


@Agent(spec=AgentExecutionSpec(output_type=Greeting))
class TypedGreeter:
    """Greet people by name."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory


def talking(seen: Seen) -> Answer:
    """Thinks, asks for the nickname of everybody in the question, then greets with what it was told."""
    if (facts := about_server(seen)) is not None:
        return facts
    told = [message["content"] for message in seen.json["messages"] if message["role"] == "tool"]
    if not told:
        calls = [called(index, name) for index, name in enumerate(("Ada", "Bob"))]
        return streamed({"reasoning": "Who is that?"}, *calls, finish_reason="tool_calls")
    words = f"Good day, {' and '.join(told)}."
    is_typed = "response_format" in seen.json
    return streamed({"content": f'{{"words": "{words}"}}' if is_typed else words})


def called(index: int, name: str) -> dict[str, Any]:
    function = {"name": "directory__nickname", "arguments": f'{{"name": "{name}"}}'}
    return {"tool_calls": [{"index": index, "id": f"call-{index}", "function": function}]}


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    with replaying(talking) as replay:
        yield replay


def application(server: ReplayServer, *more: object) -> Application:
    settings = OpenAICompatibleSettings(server.base_url, "tiny")
    return Application("hello").add(Directory, Greeter, TypedGreeter, settings, *more).load_plugins()


async def test_a_declarative_agent_goes_through_its_loop(server: ReplayServer) -> None:
    async with application(server, *MemoryStore().ports) as app:
        run = await app.get(AgentRuns).start(Greeter, "greet Ada and Bob")
        told = [event async for event in run.events()]
        result = await run.result()
    assert result.output == "Good day, Countess and Bob."
    assert result.usage.total_tokens == 24
    assert "".join(event.delta for event in told if isinstance(event, ReasoningDeltaEvent)) == "Who is that?"
    assert "".join(event.delta for event in told if isinstance(event, MessageDeltaEvent)) == result.output
    first, second = server.chats
    assert [tool["function"]["name"] for tool in first["tools"]] == ["directory__nickname"]
    assert [message["role"] for message in second["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    asked, *answers = second["messages"][2:]
    assert [call["id"] for call in asked["tool_calls"]] == [each["tool_call_id"] for each in answers]


async def test_an_answer_of_a_type_is_asked_for_and_read(server: ReplayServer) -> None:
    async with application(server, *MemoryStore().ports) as app:
        result = await (await app.get(AgentRuns).start(TypedGreeter, "greet Ada and Bob")).result()
    assert result.output == Greeting("Good day, Countess and Bob.")


@pytest.mark.parametrize("commits", [1, 2])
async def test_wherever_the_process_dies_at_most_one_reply_is_asked_for_again(
    server: ReplayServer, commits: int
) -> None:
    journal, *ports = MemoryStore().ports
    with pytest.raises(ProcessStopped):
        async with application(server, FaultyJournal(journal, StopAfter(commits)), *ports) as app:
            await (await app.get(AgentRuns).start(Greeter, "greet Ada and Bob", id="greeting")).result()
    async with application(server, journal, *ports) as app:
        runs = app.get(AgentRuns)
        (begun,) = (await runs.list()).runs
        result = await (await runs.resume(begun.id)).result()
    assert result.output == "Good day, Countess and Bob."
    assert len(server.chats) in (2, 3)


async def test_cancelling_a_run_closes_the_connection_of_its_model_call() -> None:
    held = events(chunk({"content": "Good"}), done=False)
    held.is_held = True
    with replaying(lambda seen: about_server(seen) or held) as server:
        async with application(server, *MemoryStore().ports) as app:
            runs = app.get(AgentRuns)
            run = await runs.start(Greeter, "greet Ada")
            assert await asyncio.to_thread(server.asked.wait, 5)
            await runs.cancel(run.id)
            assert (await run.result()).status is AgentStatus.CANCELLED
            assert await asyncio.to_thread(server.left.wait, 5)


async def test_an_application_without_a_model_is_told_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PILOTAGE_MODEL_BASE_URL", raising=False)

    class Asking:
        def __init__(self, model: IAgentModel) -> None: ...

    with pytest.raises(AgentModelConfigurationError, match="name its server in PILOTAGE_MODEL_BASE_URL"):
        await Application("hello").add(Asking).load_plugins().start()
