"""The OpenAI Agents SDK with a fake model, its tracing switched off: it would need a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Runner, Usage, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from benchmarks.floor import INSTRUCTIONS, WORDS, look_up
from benchmarks.peers.measuring import tell
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

set_tracing_disabled(True)


def _said(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="message", content=[part], role="assistant", status="completed", type="message"
    )


def _input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What was said so far: the second argument of a model, by place or by name."""
    return kwargs["input"] if "input" in kwargs else args[1]


class Asking(Model):
    """Asks for a page as often as the user says, then answers."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        said = _input(args, kwargs)
        asked = (len(said) - 1) // 2
        if asked < int(said[0]["content"]):
            arguments = f'{{"page": {asked}}}'
            output: Any = ResponseFunctionToolCall(
                arguments=arguments, call_id=f"call-{asked}", name="look_up", type="function_call"
            )
        else:
            output = _said("done")
        return ModelResponse([output], Usage(), None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class Talking(Asking):
    """Says as many words as the user asks for."""

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        count = int(_input(args, kwargs)[0]["content"])
        for number in range(count):
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=WORDS[number % 8],
                item_id="message",
                logprobs=[],
                output_index=0,
                sequence_number=number,
                type="response.output_text.delta",
            )
        whole = Response(
            id="response",
            created_at=0,
            model="talking",
            object="response",
            output=[_said("done")],
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=whole, sequence_number=count, type="response.completed")


_tools = [function_tool(look_up)]
_asking = Agent("asking", instructions=INSTRUCTIONS, model=Asking(), tools=list(_tools))
_talking = Agent("talking", instructions=INSTRUCTIONS, model=Talking(), tools=list(_tools))


async def run(turns: int) -> None:
    """A run to its end."""
    await Runner.run(_asking, [{"role": "user", "content": str(turns)}], max_turns=10_000)


async def talk(deltas: int) -> None:
    """A run, read as a stream of events."""
    result = Runner.run_streamed(_talking, [{"role": "user", "content": str(deltas)}])
    async for _ in result.stream_events():
        pass


if __name__ == "__main__":
    tell("openai-agents", run, talk)
