"""The official clients read the recorded bytes; what they read is what we read: text, calls, usage, reasoning."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from pilotage.adapters.anthropic.reply_mapping import MessagesReader
from pilotage.adapters.model_http.decoding import SseParser
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.responses_reply import ResponsesReader
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from tests.adapters.model_http.recordings import Recording, recordings

PLAIN, NAMES, HERE = ModelRequest([ModelMessage.user("x")]), WireNames([], []), Provider("here", "tiny")
ANY: Any = [{"role": "user", "content": "x"}]


def cases(wire: str) -> list[Recording]:
    return [each for each in recordings(wire) if each.path == f"/v1/{wire}" and each.status == 200]


@dataclass
class Read:
    """A reply in words that all readers have."""

    text: str
    reasoning: str
    calls: list[tuple[str | None, str, Any]]
    tokens: tuple[int | None, int | None]
    signatures: list[str] = field(default_factory=list)


def transport(recorded: Recording) -> httpx2.Client:
    kind = "text/event-stream" if recorded.is_stream else "application/json"

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=recorded.body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def read_by_us(recorded: Recording, reader: WireReader) -> ModelResponse:
    if recorded.is_stream:
        parser = SseParser()
        for sent in parser.feed(recorded.body) + parser.close():
            if not reader.is_over:
                reader.read(sent)
    else:
        reader.read_whole(recorded.body)
    return reader.finish()[0]


def in_their_words(reply: ModelResponse, usage: tuple[int | None, int | None]) -> Read:
    calls = [(call.call_id, call.name, call.arguments) for call in reply.tool_calls]
    return Read(reply.content, reply.reasoning, calls, usage)


def parsed(text: str) -> Any:
    """The arguments of a call; None for half ones, which the clients give as they are."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def message_of(recorded: Recording) -> Read:
    client = anthropic.Anthropic(
        api_key="k", base_url="http://h", http_client=transport(recorded), max_retries=0
    )
    asked: Any = {"model": "tiny", "messages": ANY, "max_tokens": 9}
    if recorded.is_stream:
        with client.messages.stream(**asked) as stream:
            message: Any = stream.get_final_message()
    else:
        message = client.messages.create(**asked)
    blocks, usage = message.content, message.usage
    return Read(
        "".join(each.text for each in blocks if each.type == "text"),
        "".join(each.thinking for each in blocks if each.type == "thinking"),
        [(each.id, each.name, each.input) for each in blocks if each.type == "tool_use"],
        (usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens),
        [each.signature for each in blocks if each.type == "thinking" and each.signature],
    )


@pytest.mark.parametrize("recorded", cases("messages"), ids=lambda each: each.id)
def test_a_message_reads_as_by_the_official_client(recorded: Recording) -> None:
    ours = MessagesReader(PLAIN, NAMES, HERE)
    try:
        theirs = message_of(recorded)
    except Exception:  # noqa: BLE001 - errors of the server, and of a stream that ends early
        with pytest.raises(ModelServerError):
            read_by_us(recorded, ours)
        return
    if b'"message_stop"' not in recorded.body and recorded.is_stream:
        with pytest.raises(
            ModelServerError, match="message_stop"
        ):  # their client takes half a message for one
            read_by_us(recorded, ours)
        return
    reply = read_by_us(recorded, ours)
    read = in_their_words(reply, (reply.usage.input_tokens, reply.usage.output_tokens))
    read.signatures = [
        str(part.state.data)
        for part in reply.parts
        if getattr(part, "state", None) is not None  # type: ignore[union-attr]
    ]
    if "cut_tool_calls" in reply.metadata:
        theirs.calls = read.calls
    assert read == theirs


def response_of(recorded: Recording) -> Read:
    client = openai.OpenAI(
        api_key="k", base_url="http://h/v1", http_client=transport(recorded), max_retries=0
    )
    last: Any = None
    if recorded.is_stream:
        for event in client.responses.create(model="tiny", input="x", stream=True):
            last = getattr(event, "response", last)
    else:
        last = client.responses.create(model="tiny", input="x")
    reasoning = [each for item in last.output if item.type == "reasoning" for each in item.content or ()]
    calls = [
        (item.call_id, item.name, parsed(item.arguments))
        for item in last.output
        if item.type == "function_call"
    ]
    usage = last.usage
    return Read(
        last.output_text,
        "".join(each.text for each in reasoning),
        [call for call in calls if call[2] is not None],
        (usage.input_tokens, usage.output_tokens) if usage else (None, None),
    )


@pytest.mark.parametrize("recorded", cases("responses"), ids=lambda each: each.id)
def test_a_response_reads_as_by_the_official_client(recorded: Recording) -> None:
    ours = ResponsesReader(PLAIN, NAMES, HERE)
    is_under_way = not recorded.is_stream and json.loads(recorded.body)["status"] == "queued"
    if is_under_way or (recorded.is_stream and b"response.completed" not in recorded.body):
        with pytest.raises(ModelServerError):
            read_by_us(recorded, ours)
        return
    theirs = response_of(recorded)
    reply = read_by_us(recorded, ours)
    read = in_their_words(reply, (reply.usage.input_tokens, reply.usage.output_tokens))
    if len(theirs.calls) != len(read.calls):
        # Half of the arguments under the reason `completed`: the call is an error for the model to answer.
        read.calls = [call for call in read.calls if call in theirs.calls]
    assert read == theirs


def completion_of(recorded: Recording) -> Read:
    client = openai.OpenAI(
        api_key="k", base_url="http://h/v1", http_client=transport(recorded), max_retries=0
    )
    asked: Any = {"model": "tiny", "messages": ANY}
    text, reasoning, usage = "", "", None
    calls: dict[int, list[str]] = {}
    if not recorded.is_stream:
        completion = client.chat.completions.create(**asked)
        said: list[Any] = [completion.choices[0].message]
        usage = completion.usage
    else:
        chunks = list(client.chat.completions.create(**asked, stream=True))
        said = [choice.delta for chunk in chunks for choice in chunk.choices if choice.index == 0]
        usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), None)
    for each in said:
        text += each.content or ""
        reasoning += getattr(each, "reasoning_content", None) or getattr(each, "reasoning", None) or ""
        for at, call in enumerate(each.tool_calls or ()):
            entry = calls.setdefault(getattr(call, "index", at), [call.id, call.function.name, ""])
            entry[2] += call.function.arguments or ""
    whole = [(call_id, name, parsed(arguments)) for call_id, name, arguments in calls.values()]
    return Read(
        text,
        reasoning,
        [call for call in whole if call[2] is not None],
        (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None),
    )


@pytest.mark.parametrize(
    "recorded",
    [each for each in recordings("chat") if each.path == "/v1/chat/completions" and each.status == 200],
    ids=lambda each: each.id,
)
def test_a_chat_completion_reads_as_by_the_official_client(recorded: Recording) -> None:
    ours = ReplyReader(PLAIN, NAMES, HERE)
    if recorded.is_stream and b'"finish_reason":"' not in recorded.body:
        with pytest.raises(ModelServerError):
            read_by_us(recorded, ours)
        return
    theirs = completion_of(recorded)
    reply = read_by_us(recorded, ours)
    assert in_their_words(reply, (reply.usage.input_tokens, reply.usage.output_tokens)) == theirs
