"""The requests of a loop begin with the same bytes, so that a provider's cache reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import pytest

from pilotage import Agent, AgentExecutionSpec, AgentStatus, IAgentModel, ToolEffects, agent_tool
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.server import ServerStream
from pilotage.adapters.openai import (
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.agent import ContextTokenBudget
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest, ToolCallingSpec
from pilotage.agent.ports.observability import NoTelemetry, TelemetryValue
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.context.prefix import prefix_share
from tests.adapters.model_http.strict_servers import StrictChat, StrictMessages, StrictResponses, StrictServer
from tests.adapters.openai.byte_server import ByteStream
from tests.behaviour.bureau import DURABLE, Bureau, started

TURNS = 50
PLACE = OpenAICompatibleSettings("http://h/v1", "m", checks_at_start=False)


MARK = b', "cache_control": {"type": "ephemeral"}'
TEXT = {"type": "text", "text": "Sand and stones everywhere."}
SUMMARY = {
    "content": [TEXT],
    "stop_reason": "end_turn",
    "status": "completed",
    "output": [{"type": "message", "content": [TEXT]}],
    "choices": [{"message": {"content": TEXT["text"]}, "finish_reason": "stop"}],
}
"""A whole reply on each of the wires."""


class Loop:
    """Mixin of a server: calls a tool in so many turns, whatever it is shown of them; summarises when it is asked to."""

    turns: int
    reply: Callable[[int], Sequence[bytes]]
    loops: list[bytes]

    async def post(self, url: str, body: bytes) -> bytes:
        return json.dumps(SUMMARY).encode()

    async def open(self, url: str, body: bytes) -> ServerStream:
        self.loops.append(body.replace(MARK, b""))  # marks move, and are no part of the prompt
        return ByteStream(self.reply(len(self.loops)))


class LoopOfMessages(Loop, StrictMessages): ...


class LoopOfChat(Loop, StrictChat): ...


class LoopOfResponses(Loop, StrictResponses): ...


class Meter(NoTelemetry):
    """Keeps the shares."""

    def __init__(self) -> None:
        self.shares: list[float] = []

    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        if name == "agent.model.prefix_share":
            self.shares.append(value)


@Agent(
    spec=AgentExecutionSpec(
        name="looker", recovery=DURABLE, context_budget=ContextTokenBudget(max_tokens=9000)
    ),
    max_steps=60,
)
class Looker:
    """Look everywhere, and tell what is there in a few words. Never look twice at the same place."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, at: int, where: JsonValue) -> str:
        """Look at a place."""
        return f"At {at} there is: " + "sand and stones, " * 40


WIRES: dict[str, tuple[type[StrictServer], Callable[[StrictServer], IAgentModel]]] = {
    "messages": (
        LoopOfMessages,
        lambda server: AnthropicModel(
            AnthropicSettings("m", base_url="http://h/v1", checks_at_start=False), server=server
        ),
    ),
    "responses": (LoopOfResponses, lambda server: OpenAIResponsesModel(PLACE, server=server)),
    "chat": (LoopOfChat, lambda server: OpenAICompatibleModel(PLACE, server=server)),
}


def common(before: bytes, after: bytes) -> int:
    """The number of bytes with which both begin."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_loop_of_fifty_turns_with_compaction_repeats_95_percent_of_its_bytes(wire: str) -> None:
    make, model = WIRES[wire]
    server, meter = make(TURNS), Meter()
    loops: list[bytes] = []
    server.loops = loops  # type: ignore[attr-defined]
    async with Bureau().process(Looker, None, meter, model=model(server)) as runs:
        result = await started(runs, Looker, "go")
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done."), result.error
    assert len(loops) == TURNS + 1
    compactions = sum(len(after) < len(before) for before, after in pairwise(loops))
    assert compactions >= 1
    equal = [(common(before, after), len(before)) for before, after in pairwise(loops)]
    assert sum(each for each, _ in equal) / sum(size for _, size in equal) > 0.95, equal
    assert sum(meter.shares) / len(meter.shares) > 0.95


def said(*texts: str, tools: ToolCallingSpec | None = None) -> ModelRequest:
    return ModelRequest([ModelMessage.user(text) for text in texts], tools=tools)


def test_the_share_is_that_of_the_bytes_before_the_first_difference() -> None:
    assert prefix_share(said("a", "b"), said("a", "b", "c")) == 1.0
    assert prefix_share(said("a", "b"), said("a", "x", "b")) == 0.5
    assert prefix_share(said("a", "b"), said("b", "a")) == 0.0
    assert prefix_share(said("a", "b"), said("a")) == 0.5


def test_other_tools_share_nothing() -> None:
    @agent_tool
    async def look(at: int) -> str:
        """Look."""
        return str(at)

    tools = ToolCallingSpec.from_tools([look])
    assert prefix_share(said("a"), said("a", tools=tools)) == 0.0
    assert prefix_share(said("a", tools=tools), said("a", "b", tools=tools)) == 1.0
