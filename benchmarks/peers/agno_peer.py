"""Agno, which is made to be fast, with a fake model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from benchmarks.floor import INSTRUCTIONS, WORDS, look_up
from benchmarks.peers.measuring import tell


@dataclass
class Asking(Model):
    """Asks for a page as often as the user says, then answers."""

    id: str = "asking"

    async def ainvoke(self, messages: list[Message], *args: Any, **kwargs: Any) -> ModelResponse:
        asked = sum(message.role == "tool" for message in messages)
        if asked >= _asked_for(messages):
            return ModelResponse(role="assistant", content="done")
        function = {"name": "look_up", "arguments": json.dumps({"page": asked})}
        calls = [{"id": f"call-{asked}", "type": "function", "function": function}]
        return ModelResponse(role="assistant", tool_calls=calls)

    async def ainvoke_stream(
        self, messages: list[Message], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ModelResponse]:
        for number in range(_asked_for(messages)):
            yield ModelResponse(content=WORDS[number % 8])

    def invoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError

    def invoke_stream(self, *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


def _asked_for(messages: list[Message]) -> int:
    return int(next(str(message.content) for message in messages if message.role == "user"))


_agent = Agent(model=Asking(), tools=[look_up], instructions=INSTRUCTIONS, telemetry=False)


async def run(turns: int) -> None:
    """A run to its end."""
    result = await _agent.arun(str(turns))
    assert result.content == "done", result.content


async def talk(deltas: int) -> None:
    """A run, read as a stream of tokens."""
    async for _ in _agent.arun(str(deltas), stream=True):
        pass


if __name__ == "__main__":
    tell("agno", run, talk)
