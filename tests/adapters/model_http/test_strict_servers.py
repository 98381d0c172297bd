"""Loops against servers with the rules of providers, live and after every crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import Field

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    IAgentModel,
    Idempotency,
    Pod,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.jsonvalue import JsonValue
from pilotage.testing import Fault, StopAfter, StopBefore, crash_matrix
from tests.adapters.model_http.strict_servers import StrictChat, StrictMessages, StrictResponses, StrictServer
from tests.behaviour.bureau import DURABLE, Bureau, started
from tests.behaviour.office import UNGATED

ONCE = ModelRetries(most=0)


@dataclass
class Wire:
    """A strict server and the model that speaks its wire."""

    server: Callable[[int], StrictServer]
    model: Callable[[StrictServer], IAgentModel]


WIRES = {
    "messages": Wire(
        StrictMessages,
        lambda server: AnthropicModel(
            AnthropicSettings("m", base_url="http://h/v1", retries=ONCE), server=server
        ),
    ),
    "responses": Wire(
        StrictResponses,
        lambda server: OpenAIResponsesModel(
            OpenAICompatibleSettings("http://h/v1", "m", retries=ONCE, checks_at_start=False), server=server
        ),
    ),
    "chat": Wire(
        StrictChat,
        lambda server: OpenAICompatibleModel(
            OpenAICompatibleSettings("http://h/v1", "m", retries=ONCE, checks_at_start=False), server=server
        ),
    ),
}


@Agent(spec=AgentExecutionSpec(name="looker", recovery=DURABLE))
class Looker:
    """Look everywhere."""

    @agent_tool(effects=ToolEffects.write_state(), approval=UNGATED, idempotency=Idempotency.IDEMPOTENT)
    async def look(self, at: int, where: JsonValue) -> str:
        """Look at a place."""
        return f"seen {at}"

    @agent_tool(effects=ToolEffects.read_only())
    async def measure(
        self, by: Annotated[Decimal, Field(gt=0)], tags: set[str], on: date | None = None
    ) -> str:
        """Measure a place: a tool that is never called and whose schema must be taken."""
        return f"{by}"


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
async def test_a_loop_of_twenty_turns_gives_everything_back(wire: Wire) -> None:
    server = wire.server(20)
    async with Bureau().process(Looker, model=wire.model(server)) as runs:
        result = await started(runs, Looker, "go")
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done."), result.error
        await runs.verify(result.state.id)
    assert len(server.bodies) == 21


@Pod
class MessagesModel(AnthropicModel):
    """The model of a strict server, made anew in every process."""

    def __init__(self) -> None:
        settings = AnthropicSettings("m", base_url="http://h/v1", retries=ONCE)
        super().__init__(settings, server=_Shared.server or StrictMessages(20))


@Pod
class ChatModel(OpenAICompatibleModel):
    """The same on the chat wire."""

    def __init__(self) -> None:
        settings = OpenAICompatibleSettings("http://h/v1", "m", retries=ONCE, checks_at_start=False)
        super().__init__(settings, server=_Shared.server or StrictChat(20))


@Pod
class ResponsesModel(OpenAIResponsesModel):
    """The same on the wire of responses."""

    def __init__(self) -> None:
        settings = OpenAICompatibleSettings("http://h/v1", "m", retries=ONCE, checks_at_start=False)
        super().__init__(settings, server=_Shared.server or StrictResponses(20))


class _Shared:
    server: StrictServer | None = None


@pytest.mark.parametrize(
    ("model", "make"),
    [(MessagesModel, StrictMessages), (ChatModel, StrictChat), (ResponsesModel, StrictResponses)],
    ids=["messages", "chat", "responses"],
)
async def test_after_every_crash_the_requests_are_the_same_bytes(
    model: type[IAgentModel], make: type[StrictServer], request: pytest.FixtureRequest
) -> None:
    """Every turn commits twice: before its tool acts, and behind it."""
    is_exhaustive = request.config.getoption("--exhaustive")
    turns = 20 if is_exhaustive else 3
    _Shared.server = server = make(turns)
    try:
        second_stops = (1,) if is_exhaustive else ()
        report = await crash_matrix(Looker, "go", add=[model], second_stops=second_stops)
    finally:
        _Shared.server = None
    assert report.points >= 6 * turns
    assert report.reference.output == "Done."
    report.assert_no_repeated_effects()
    assert len(set(server.bodies)) == turns + 1


@pytest.mark.parametrize(
    ("wire", "fault"),
    [("messages", StopAfter(3)), ("responses", StopBefore(4)), ("chat", StopAfter(3))],
    ids=["messages", "responses", "chat"],
)
async def test_a_loop_whose_processes_die_at_every_commit_completes(wire: str, fault: Fault) -> None:
    """Each process claims the run, begins its call again, gets one commit further and is gone."""
    server, bureau, processes = WIRES[wire].server(20), Bureau(), 0
    run_id: str | None = None
    while run_id is None or not (await bureau.store.states.get(run_id)).is_terminal:
        processes += 1
        model = WIRES[wire].model(server)
        async with bureau.process(Looker, model=model, fault=fault) as runs:
            handle = await (runs.start(Looker, "go") if run_id is None else runs.resume(run_id))
            run_id = handle.id
            await asyncio.gather(handle.result(), return_exceptions=True)
    async with bureau.process(Looker, model=WIRES[wire].model(server)) as runs:
        result = await runs.result(run_id)
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done."), result.error
        await runs.verify(run_id)
    assert processes > 20
    assert len(set(server.bodies)) == 21
