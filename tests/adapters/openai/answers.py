"""Answers of a made-up server: streamed or whole, as the request asks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.adapters.openai.replay_server import Answer, Handler, Seen, events

USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    """One chunk of a stream."""
    return {
        "id": "chatcmpl-1",
        "model": "tiny",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def whole(message: dict[str, Any], finish_reason: str = "stop") -> Answer:
    """A reply that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    body = {"id": "chatcmpl-1", "model": "tiny", "choices": [choice], "usage": USAGE}
    return Answer([json.dumps(body).encode()])


def streamed(*deltas: dict[str, Any], finish_reason: str = "stop") -> Answer:
    """A reply that is streamed, with a role in front and the usage behind."""
    chunks = [chunk(delta) for delta in ({"role": "assistant", "content": ""}, *deltas)]
    usage = {"id": "chatcmpl-1", "model": "tiny", "choices": [], "usage": USAGE}
    return events(*chunks, chunk({}, finish_reason), usage)


def said(*pieces: str, finish_reason: str = "stop") -> Handler:
    """A text."""

    def handler(seen: Seen) -> Answer:
        if (facts := about_server(seen)) is not None:
            return facts
        if seen.json.get("stream"):
            return streamed(*({"content": piece} for piece in pieces), finish_reason=finish_reason)
        return whole({"content": "".join(pieces)}, finish_reason)

    return handler


def called(name: str, *pieces: str, call_id: str = "call-7") -> Handler:
    """A call of a tool."""
    first = {"index": 0, "id": call_id, "type": "function", "function": {"name": name}}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "".join(pieces)}}

    def handler(seen: Seen) -> Answer:
        if (facts := about_server(seen)) is not None:
            return facts
        if seen.json.get("stream"):
            return streamed(*({"tool_calls": [each]} for each in [first, *rest]), finish_reason="tool_calls")
        return whole({"content": None, "tool_calls": [call]}, "tool_calls")

    return handler


def refused(status: int, message: str, **headers: str) -> Handler:
    """An error instead of a reply."""
    body = json.dumps({"error": {"message": message, "type": "Error", "param": None, "code": status}})

    def handler(seen: Seen) -> Answer:
        return about_server(seen) or Answer(
            [body.encode()], status, {"content-type": "application/json", **headers}
        )

    return handler


def broken_off(*pieces: str) -> Handler:
    """A stream whose connection is lost behind a text."""

    def handler(seen: Seen) -> Answer:
        if (facts := about_server(seen)) is not None:
            return facts
        answer = events(*(chunk({"content": piece}) for piece in pieces), done=False)
        return replace(answer, breaks_off=True)

    return handler


def about_server(seen: Seen) -> Answer | None:
    """What the server says of itself."""
    if seen.path == "/version":
        return Answer([b'{"version":"0.32.0"}'])
    if seen.path == "/v1/models":
        return Answer([b'{"object":"list","data":[{"id":"tiny","max_model_len":2048}]}'])
    if seen.path == "/health":
        return Answer([b""])
    return None
