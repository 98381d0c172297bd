"""Streamed replies on three wires: a text, or a call whose arguments are any text."""

from __future__ import annotations

import json
from typing import Any

WIRES = ("chat", "responses", "messages")


def sent(*events: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(each).encode() + b"\n\n" for each in events]


def _chat(delta: dict[str, Any], reason: str) -> list[bytes]:
    def chunk(of: dict[str, Any], why: str | None = None) -> dict[str, Any]:
        return {"id": "r", "choices": [{"index": 0, "delta": of, "finish_reason": why}]}

    return sent(chunk(delta), chunk({}, reason))


def _responses(item: dict[str, Any], delta: dict[str, Any]) -> list[bytes]:
    place = {"output_index": 0, "item_id": item["id"]}
    empty = {**item, "arguments": "", "content": []}
    return sent(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", **place, "item": empty},
        {**delta, **place},
        {"type": "response.output_item.done", **place, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}},
    )


def _messages(block: dict[str, Any], delta: dict[str, Any], reason: str) -> list[bytes]:
    return sent(
        {"type": "message_start", "message": {"id": "r", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def text(wire: str, said: str) -> list[bytes]:
    """A reply with a text."""
    if wire == "chat":
        return _chat({"content": said}, "stop")
    if wire == "messages":
        return _messages({"type": "text", "text": ""}, {"type": "text_delta", "text": said}, "end_turn")
    message = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": said}]}
    return _responses(message, {"type": "response.output_text.delta", "delta": said})


def call(wire: str, arguments: str, call_id: str = "c1", name: str = "note") -> list[bytes]:
    """A reply that calls a tool."""
    if wire == "chat":
        function = {"name": name, "arguments": arguments}
        return _chat({"tool_calls": [{"index": 0, "id": call_id, "function": function}]}, "tool_calls")
    if wire == "messages":
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        return _messages(block, {"type": "input_json_delta", "partial_json": arguments}, "tool_use")
    item = {"id": "f", "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return _responses(item, {"type": "response.function_call_arguments.delta", "delta": arguments})
