"""Servers that answer anything: mutated recordings of three wires end in a reply that can be stored, or in a typed error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest

from pilotage import IAgentModel, ModelMessage, ModelRequest, ModelResponse, ModelStreamEvent, agent_tool
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.server import ModelRetries
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings, OpenAIResponsesModel
from pilotage.agent import StructuredOutputSpec, ToolCallingSpec
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.budget.limits import believable
from pilotage.runtime.journal.records import decode_response, encode_response
from tests.adapters.model_http.recordings import recordings
from tests.adapters.openai.byte_server import ByteServer
from tests.attack.tally import BROKEN, TRIED

pytestmark = pytest.mark.attack("model servers")

ADDRESS, ONCE = "http://127.0.0.1:1/v1", ModelRetries(most=0)
KEY = "sk-the-key-of-the-application"
WIRES: dict[str, tuple[str, Callable[[ByteServer], IAgentModel]]] = {
    "messages": (
        "/v1/messages",
        lambda server: AnthropicModel(AnthropicSettings("m", KEY, ADDRESS, retries=ONCE), server=server),
    ),
    "responses": (
        "/v1/responses",
        lambda server: OpenAIResponsesModel(
            OpenAICompatibleSettings(ADDRESS, "m", KEY, retries=ONCE), server=server
        ),
    ),
    "chat": (
        "/v1/chat/completions",
        lambda server: OpenAICompatibleModel(
            OpenAICompatibleSettings(ADDRESS, "m", KEY, retries=ONCE), server=server
        ),
    ),
}


@agent_tool()
def look(city: str, zoom: int = 3) -> str:
    """Look at a place."""
    return f"{city} {zoom}"


ASKED = [ModelMessage.user("x")]
REQUESTS = (
    ModelRequest(ASKED),
    ModelRequest(ASKED, tools=ToolCallingSpec.from_tools([look], strict=True)),
    ModelRequest(ASKED, output=StructuredOutputSpec.from_type(dict[str, int])),
)
NESTED: list[Any] = []
for _ in range(300):
    NESTED = [NESTED]
OTHERS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 10**30, -(10**30), 1.5, float("nan"), float("inf"), "", "x", "A" * 5_000),
    *("\ud83d", "\ude00", "\x00", [], {}, [None], {"a": None}, {"type": "text"}, {"type": "tool_use"}),
    *({"type": "function_call"}, {"type": "reasoning"}, {"text": "\ud83d"}, {"index": 0}, ["x"], NESTED),
)


@cache
def streams(wire: str) -> list[list[Any]]:
    """The events of the recorded streams of a wire, of long ones the begin and the end."""
    path, _ = WIRES[wire]
    found = [each for each in recordings(wire) if each.path == path and each.status == 200 and each.is_stream]
    return [_shortened([*_frames(each.body)]) for each in found]


def _frames(body: bytes) -> Iterator[Any]:
    for line in body.splitlines():
        if line.startswith(b"data:"):
            text = line.removeprefix(b"data:").strip()
            yield text.decode() if text == b"[DONE]" else json.loads(text)


def _shortened(frames: list[Any]) -> list[Any]:
    return frames if len(frames) <= 60 else [*frames[:30], *frames[-30:]]


def mutated(frames: Sequence[Any], random: Random) -> list[Any]:
    """Return events of which some are left out, doubled, or have another value somewhere."""
    changed = list(frames)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(changed))
        match random.randrange(10):
            case 0 if len(changed) > 1:
                del changed[at]
            case 1:
                changed.insert(random.randrange(len(changed) + 1), changed[at])
            case _:
                path = random.choice([*_paths(changed[at])])
                changed[at] = _replaced(changed[at], path, random.choice(OTHERS))
    return changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, each in entries:
        yield from _paths(each, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    key, *rest = path
    copy = value.copy()
    copy[key] = _replaced(value[key], tuple(rest), other)
    return copy


def body_of(frames: Sequence[Any]) -> bytes:
    lines = (each if each == "[DONE]" else json.dumps(each) for each in frames)
    return b"".join(b"data: %s\n\n" % line.encode() for line in lines)


async def read(model: IAgentModel, request: ModelRequest) -> None:
    """Read a stream, and store all of it that is stored.

    Raises:
        ModelCallError, AgentStructuredOutputError: there is no reply.
    """
    events: list[ModelStreamEvent] = [event async for event in model.stream(request)]
    deltas = [(event.token_delta, event.reasoning_delta, event.tool_call_args_delta) for event in events]
    canonical_json([list(each) for each in deltas]).encode()
    response = events[-1].response
    assert isinstance(response, ModelResponse)
    stored = canonical_json(encode_response(response)).encode()
    decode_response(json.loads(stored), None)
    counts = believable(response.usage)
    assert all(count is None or count >= 0 for count in (counts.total_tokens, counts.cached_tokens))


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
@pytest.mark.parametrize("wire", WIRES)
async def test_whatever_a_server_sends_is_a_reply_or_a_typed_error(
    wire: str, share: int, exhaustive: bool, record_property: Callable[[str, object], None]
) -> None:
    seed = Random().getrandbits(32)  # noqa: S311 - examples of a test
    random, broken = Random(seed), list[str]()  # noqa: S311
    tries = 1_000 if exhaustive else 20
    for number in range(tries):
        frames = mutated(random.choice(streams(wire)), random)
        try:
            await read(WIRES[wire][1](ByteServer([body_of(frames)])), random.choice(REQUESTS))
        except (ModelCallError, AgentStructuredOutputError) as error:
            str(error).encode()
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            broken.append(f"{number}: {type(error).__name__}: {error}: {frames}"[:2_000])
    record_property(TRIED, tries)
    record_property(BROKEN, len(broken))
    assert broken == [], f"seed {seed}"


HALVES = ("\ud83d", "\ude00 ok")
"""A character that is cut into two pieces, as servers send it that stream by bytes."""
CUT: dict[str, list[Any]] = {
    "messages": [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in HALVES
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "responses": [
        *({"type": "response.output_text.delta", "output_index": 0, "delta": piece} for piece in HALVES),
        {
            "type": "response.completed",
            "response": {
                "status": "completed",
                "output": [
                    {"type": "message", "content": [{"type": "output_text", "text": "".join(HALVES)}]}
                ],
            },
        },
    ],
    "chat": [
        *({"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in HALVES),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    ],
}


@pytest.mark.parametrize("wire", WIRES)
async def test_the_halves_of_a_character_are_joined(wire: str) -> None:
    model = WIRES[wire][1](ByteServer([body_of(CUT[wire])]))
    events = [event async for event in model.stream(ModelRequest(ASKED))]
    assert events[-1].response is not None
    assert events[-1].response.content == "😀 ok"
    assert "".join(event.text for event in events if event.is_text_delta) == "😀 ok"


@pytest.mark.parametrize("body", ["error", "garbage"])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_in_a_stream_does_not_show_the_key(wire: str, body: str) -> None:
    said = {"error": {"message": f"the key {KEY} is not known", "type": "authentication_error"}}
    server = ByteServer([body_of([said]) if body == "error" else f"data: {KEY} and no JSON\n\n".encode()])
    server.key = KEY
    with pytest.raises(ModelCallError) as failed:
        await read(WIRES[wire][1](server), ModelRequest(ASKED))
    assert KEY not in str(failed.value)
    assert "[SECRET]" in str(failed.value)
