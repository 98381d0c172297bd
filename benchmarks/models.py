"""What the OpenAI-compatible adapter costs per token, against the plainest reader and against the official client.

The server is in memory and sends each token in a piece of its own, as a real one does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import httpx2
from benchmarks.timing import FULL, Effort, medians, repeated
from openai import AsyncOpenAI

from pilotage.adapters.model_http.http_server import HttpServer
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.ids import SystemClock

URL = "http://server/v1"
ADDRESS = f"{URL}/chat/completions"
REQUEST = ModelRequest([ModelMessage.user("count")])
HEADERS = {"content-type": "text/event-stream; charset=utf-8"}
DONE = "[DONE]"


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Tokens per second, and the ratios that matter."""
    return asyncio.run(_measure(effort, pieces_of(effort.deltas)))


def pieces_of(tokens: int) -> list[bytes]:
    """A reply of so many tokens, as vLLM streams it."""
    said = [chunk({"role": "assistant", "content": ""})]
    said += [chunk({"content": f" word{number}"}) for number in range(tokens)]
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": tokens + 9}
    said += [chunk({}, "stop"), {**chunk({}), "choices": [], "usage": usage}]
    return [b"data: %s\n\n" % text.encode() for text in (*map(json.dumps, said), DONE)]


def chunk(delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
    """One chunk, with everything that a real server puts into it."""
    choice = {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish_reason,
        "token_ids": None,
    }
    return {
        "id": "chatcmpl-8ad8f4827e823a74",
        "object": "chat.completion.chunk",
        "created": 1794713367,
        "model": "tiny",
        "choices": [choice],
    }


async def _measure(effort: Effort, pieces: list[bytes]) -> dict[str, float]:
    acts = {"floor": _lines(pieces), "ours": _adapter(pieces), "client": _client(pieces)}
    for act in acts.values():
        assert await act() == effort.deltas
    times = {name: repeated(act, effort.times(5)) for name, act in acts.items()}
    seconds = await medians(times, effort.rounds)
    floor, ours, client = seconds["floor"], seconds["ours"], seconds["client"]
    return {
        "tokens through the adapter, k/s": effort.deltas / ours / 1000,
        "the adapter / httpx lines, decoded": ours / floor,
        "the adapter / the openai client": ours / client,
        "the openai client / httpx lines, decoded": client / floor,
    }


Act = Callable[[], Coroutine[Any, Any, int]]


def _lines(pieces: list[bytes]) -> Act:
    client = httpx.AsyncClient(transport=httpx.MockTransport(_handler(httpx, pieces)))

    async def act() -> int:
        tokens = 0
        async with client.stream("POST", ADDRESS, content=b"{}") as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    choices = json.loads(line[6:])["choices"]
                    tokens += bool(choices and choices[0]["delta"].get("content"))
        return tokens

    return act


def _adapter(pieces: list[bytes]) -> Act:
    settings = OpenAICompatibleSettings(URL, "tiny")
    transport = httpx.MockTransport(_handler(httpx, pieces))
    model = OpenAICompatibleModel(settings, server=HttpServer(settings.access, SystemClock(), transport))

    async def act() -> int:
        tokens = 0
        async for event in model.stream(REQUEST):
            tokens += event.is_text_delta
        return tokens

    return act


def _client(pieces: list[bytes]) -> Act:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(_handler(httpx2, pieces)))
    client = AsyncOpenAI(base_url=URL, api_key="none", http_client=http)
    messages: Any = [{"role": "user", "content": "count"}]

    async def act() -> int:
        tokens = 0
        stream = await client.chat.completions.create(model="tiny", messages=messages, stream=True)
        async for part in stream:
            tokens += bool(part.choices and part.choices[0].delta.content)
        return tokens

    return act


def _handler(library: Any, pieces: list[bytes]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """Answers every request with the pieces, in the words of one of the two HTTP libraries."""

    class Pieces(library.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

    async def handler(_: Any) -> Any:
        return library.Response(200, headers=HEADERS, stream=Pieces())

    return handler
