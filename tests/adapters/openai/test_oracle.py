"""The official client reads the same bytes; what it reads is what we read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
from tests.adapters.openai.byte_server import PLAIN
from tests.adapters.openai.replay_server import ReplayServer, Seen, answer_of, replaying
from tests.adapters.openai.traces import REFUSALS, STREAMS, WHOLE, Trace, trace

from pilotage.adapters.openai import ModelRetries, OpenAICompatibleModel, OpenAICompatibleSettings
from pilotage.agent.model_reply import ModelResponse
from pilotage.errors import ModelCallError

MESSAGES: Any = [{"role": "user", "content": "hello"}]


@dataclass
class Read:
    """A reply in words that both readers have."""

    text: str = ""
    reasoning: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    reason: str | None = None
    usage: tuple[int, int, int] | None = None

    @property
    def whole_calls(self) -> list[tuple[str, str, Any]]:
        """The calls whose arguments are complete: the client gives half ones, too."""
        parsed = [(call_id, name, _parsed(text)) for call_id, name, text in self.calls.values()]
        return [call for call in parsed if call[2] is not None]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    """Serves the trace whose name is the key of the client."""

    def handler(seen: Seen) -> Any:
        return answer_of(trace(seen.headers["authorization"].removeprefix("Bearer ")))

    with replaying(handler) as replay:
        yield replay


def client_of(server: ReplayServer, recorded: Trace) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base_url, api_key=recorded.name, max_retries=0)


def read_by_client(server: ReplayServer, recorded: Trace) -> Read:
    read = Read()
    with client_of(server, recorded) as client:
        for chunk in client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True):
            if chunk.usage is not None:
                usage = chunk.usage
                read.usage = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
            for choice in chunk.choices:
                if choice.index == 0:
                    _take(read, choice.delta)
                    read.reason = choice.finish_reason or read.reason
    return read


def _take(read: Read, delta: Any) -> None:
    read.text += delta.content or ""
    read.reasoning += getattr(delta, "reasoning", None) or ""
    for call in delta.tool_calls or ():
        entry = read.calls.setdefault(call.index, [call.id, call.function.name, ""])
        entry[2] += call.function.arguments or ""


def read_by_us(server: ReplayServer, recorded: Trace, *, streams: bool) -> tuple[ModelResponse, str]:
    settings = OpenAICompatibleSettings(server.base_url, "tiny", recorded.name, retries=ModelRetries(most=0))

    async def read() -> tuple[ModelResponse, str]:
        model = OpenAICompatibleModel(settings)
        try:
            if not streams:
                return await model.complete(PLAIN), ""
            events = [event async for event in model.stream(PLAIN)]
            assert events[-1].response is not None
            return events[-1].response, "".join(event.reasoning_delta or "" for event in events)
        finally:
            await model.aclose()

    return asyncio.run(read())


def expected_reason(read: Read) -> str | None:
    return "tool_calls" if read.whole_calls and read.reason != "length" else read.reason


@pytest.mark.parametrize("recorded", STREAMS, ids=lambda each: each.name)
def test_a_stream_reads_as_by_the_official_client(server: ReplayServer, recorded: Trace) -> None:
    try:
        read = read_by_client(server, recorded)
    except Exception:  # noqa: BLE001 - the client lets errors of its HTTP library through
        with pytest.raises(ModelCallError):
            read_by_us(server, recorded, streams=True)
        return
    response, reasoning = read_by_us(server, recorded, streams=True)
    assert (response.content, reasoning) == (read.text, read.reasoning)
    assert [(call.call_id, call.name, call.arguments) for call in response.tool_calls] == read.whole_calls
    assert response.finish_reason == expected_reason(read)
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (read.usage or (None, None, None))


@pytest.mark.parametrize("recorded", WHOLE, ids=lambda each: each.name)
def test_a_whole_reply_reads_as_by_the_official_client(server: ReplayServer, recorded: Trace) -> None:
    with client_of(server, recorded) as client:
        completion = client.chat.completions.create(model="tiny", messages=MESSAGES)
    choice = completion.choices[0]
    read = Read(choice.message.content or "", reason=choice.finish_reason)
    for index, call in enumerate(choice.message.tool_calls or ()):
        assert call.type == "function"
        read.calls[index] = [call.id, call.function.name, call.function.arguments]
    response, _ = read_by_us(server, recorded, streams=False)
    assert response.content == read.text
    assert [(call.call_id, call.name, call.arguments) for call in response.tool_calls] == read.whole_calls
    assert response.finish_reason == expected_reason(read)
    assert completion.usage is not None
    assert response.usage.total_tokens == completion.usage.total_tokens


@pytest.mark.parametrize("recorded", REFUSALS, ids=lambda each: each.name)
def test_a_refusal_is_a_refusal_to_both(server: ReplayServer, recorded: Trace) -> None:
    with client_of(server, recorded) as client, pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(model="tiny", messages=MESSAGES)
    with pytest.raises(ModelCallError) as ours:
        read_by_us(server, recorded, streams=False)
    assert f"HTTP {refused.value.status_code}" in str(ours.value)
