"""Pydantic AI with a fake model."""

from __future__ import annotations

from collections.abc import AsyncIterator

from benchmarks.floor import INSTRUCTIONS, WORDS, look_up
from benchmarks.peers.measuring import tell
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

UNBOUNDED = UsageLimits(request_limit=None)


async def ask(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    asked = len(messages) // 2
    if asked < _asked_for(messages):
        return ModelResponse([ToolCallPart("look_up", {"page": asked}, f"call-{asked}")])
    return ModelResponse([TextPart("done")])


async def _speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    for number in range(_asked_for(messages)):
        yield WORDS[number % 8]


def _asked_for(messages: list[ModelMessage]) -> int:
    return int(next(part.content for part in messages[0].parts if part.part_kind == "user-prompt"))


_asking = Agent(FunctionModel(ask), instructions=INSTRUCTIONS, tools=[look_up])
_talking = Agent(FunctionModel(stream_function=_speak), instructions=INSTRUCTIONS, tools=[look_up])


async def run(turns: int) -> None:
    """A run to its end."""
    await _asking.run(str(turns), usage_limits=UNBOUNDED)


async def talk(deltas: int) -> None:
    """A run, read as a stream of deltas."""
    async with _talking.run_stream(str(deltas)) as result:
        async for _ in result.stream_text(delta=True, debounce_by=None):
            pass


if __name__ == "__main__":
    tell("pydantic-ai-slim", run, talk)
