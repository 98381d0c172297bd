"""Loops against servers with the rules of providers, live and after every crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pilotage import Agent, AgentExecutionSpec, AgentStatus, IAgentModel, Pod, ToolEffects, agent_tool
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.testing import crash_matrix
from tests.adapters.model_http.strict_servers import StrictChat, StrictMessages, StrictResponses, StrictServer
from tests.behaviour.bureau import DURABLE, Bureau, started

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

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, at: int) -> str:
        """Look at a place."""
        return f"seen {at}"


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
    model: type[IAgentModel], make: type[StrictServer]
) -> None:
    _Shared.server = server = make(20)
    try:
        report = await crash_matrix(Looker, "go", add=[model], second_stops=(1,))
    finally:
        _Shared.server = None
    assert report.points > 5
    assert report.reference.output == "Done."
    report.assert_no_repeated_effects()
    assert len(set(server.bodies)) == 21
