"""Answers of a made-up server with `/v1/messages`: streamed or whole, as the request asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.adapters.openai.replay_server import Answer, Handler, Seen

USAGE = {"input_tokens": 5, "output_tokens": 7}


def streamed_bytes(blocks: list[dict[str, Any]], reason: str, *, ends: bool = True) -> list[bytes]:
    """The events of a reply with these blocks, each in pieces of four characters."""
    return [
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode()
        for each in _events(blocks, reason, ends)
    ]


def _events(blocks: list[dict[str, Any]], reason: str, ends: bool) -> Iterator[dict[str, Any]]:
    begun = {"id": "msg_1", "model": "tiny", "content": [], "usage": {**USAGE, "output_tokens": 0}}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        yield from _block(index, block)
    if ends:
        usage = {"output_tokens": USAGE["output_tokens"]}
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
        yield {"type": "message_stop"}


def _block(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    key, kind, text = {
        "text": ("text", "text_delta", block.get("text", "")),
        "thinking": ("thinking", "thinking_delta", block.get("thinking", "")),
        "tool_use": ("partial_json", "input_json_delta", json.dumps(block.get("input"))),
        "server_tool_use": ("partial_json", "input_json_delta", json.dumps(block.get("input"))),
    }.get(block["type"], ("", "", ""))
    empty: dict[str, Any] = {
        "text": {"text": ""},
        "thinking": {"thinking": ""},
        "tool_use": {"input": {}},
        "server_tool_use": {"input": {}},
    }.get(block["type"], {})
    begun = {
        name: each for name, each in {**block, **empty}.items() if name not in ("signature", "citations")
    }
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for at in range(0, len(text), 4):
        delta = {"type": kind, key: text[at : at + 4]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    for cited in block.get("citations", ()):
        delta = {"type": "citations_delta", "citation": cited}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    if "signature" in block:
        delta = {"type": "signature_delta", "signature": block["signature"]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def answered(*blocks: dict[str, Any], reason: str = "end_turn") -> Handler:
    """A reply with these blocks."""

    def handler(seen: Seen) -> Answer:
        if seen.json.get("stream"):
            return Answer(streamed_bytes([*blocks], reason), headers={"content-type": "text/event-stream"})
        body = {"id": "msg_1", "model": "tiny", "content": blocks, "stop_reason": reason, "usage": USAGE}
        return Answer([json.dumps(body).encode()])

    return handler


def broken_off(text: str) -> Handler:
    """A stream whose connection is lost behind a text."""

    def handler(seen: Seen) -> Answer:
        pieces = streamed_bytes([{"type": "text", "text": text}], "end_turn", ends=False)
        return replace(Answer(pieces, headers={"content-type": "text/event-stream"}), breaks_off=True)

    return handler


def refused(status: int, kind: str, message: str) -> Handler:
    """An error instead of a reply."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return lambda _: Answer([body], status)
