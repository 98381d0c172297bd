"""Servers with the rules of providers: what they gave with a reply must come back unchanged, in its order."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.model_http.server import ModelServer, ServerStream
from tests.adapters.anthropic.answers import streamed_bytes
from tests.adapters.openai.byte_server import ByteStream


class StrictServer(ModelServer):
    """Calls a tool in each of so many turns, then answers; refuses a transcript that is not the one it knows.

    What it answers depends on the request alone, so that it is the same server in every process.
    """

    def __init__(self, turns: int = 20) -> None:
        self.turns = turns
        self.bodies: list[bytes] = []

    async def get(self, url: str) -> bytes:
        raise server_error(404, b"{}")

    async def post(self, url: str, body: bytes) -> bytes:
        raise server_error(404, b"{}")

    async def open(self, url: str, body: bytes) -> ServerStream:
        self.bodies.append(body)
        request = json.loads(body)
        said = self.earlier(request)
        for number, message in enumerate(said, start=1):
            if (wrong := self.difference(number, message)) is not None:
                error = {"error": {"message": f"turn {number}: {wrong}", "type": "invalid_request_error"}}
                raise server_error(400, json.dumps(error).encode())
        return ByteStream(self.reply(len(said) + 1))

    async def close(self) -> None:
        """There is nothing to let go of."""

    def earlier(self, request: Any) -> list[Any]:
        """The replies in a request, each as one value."""
        return [each for each in request["messages"] if each["role"] == "assistant"]

    @abstractmethod
    def difference(self, number: int, message: Any) -> str | None:
        """What is wrong with the message of a turn."""

    @abstractmethod
    def reply(self, number: int) -> Sequence[bytes]:
        """The bytes of a turn."""


class StrictMessages(StrictServer):
    """Thoughts and calls with signatures, a redacted thought between them."""

    def difference(self, number: int, message: Any) -> str | None:
        wanted = self._blocks(number)
        return None if message["content"] == wanted else f"{message['content']} where {wanted} was given"

    def reply(self, number: int) -> Sequence[bytes]:
        return streamed_bytes(self._blocks(number), "tool_use" if number <= self.turns else "end_turn")

    def _blocks(self, number: int) -> list[dict[str, Any]]:
        if number > self.turns:
            return [{"type": "text", "text": "Done."}]
        return [
            {"type": "thinking", "thinking": f"Turn {number}.", "signature": f"sig-{number}"},
            {"type": "redacted_thinking", "data": f"opaque-{number}"},
            {"type": "text", "text": "Let me look."},
            {"type": "thinking", "thinking": "And so.", "signature": f"sig-{number}-b"},
            {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"at": number}},
        ]


class StrictResponses(StrictServer):
    """Encrypted reasoning, an item that only the server reads, and a message with a phase."""

    def earlier(self, request: Any) -> list[Any]:
        assert request["store"] is False
        assert "previous_response_id" not in request
        turns: list[Any] = []
        for item in request["input"]:
            if item.get("type") == "reasoning":
                turns.append([])
            if item.get("role") not in ("user", "system") and item.get("type") != "function_call_output":
                turns[-1].append(item)
        return turns

    def difference(self, number: int, message: Any) -> str | None:
        reasoning, search, call = self._items(number)[0], self._items(number)[1], self._items(number)[3]
        said = {"role": "assistant", "content": "Let me look.", "phase": "commentary"}
        known = {
            "type": "function_call",
            "call_id": call["call_id"],
            "name": "look",
            "arguments": call["arguments"],
        }
        wanted = [reasoning, search, said, known]
        return None if message == wanted else f"{message} where {wanted} was given"

    def reply(self, number: int) -> Sequence[bytes]:
        items = self._items(number)
        usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1"}}]
        for index, item in enumerate(items):
            place = {"output_index": index, "item_id": item["id"]}
            empty = {**item, "arguments": "", "content": []} if item["type"] != "reasoning" else item
            events.append({"type": "response.output_item.added", **place, "item": empty})
            if item["type"] == "reasoning":
                text = item["summary"][0]["text"]
                events.append({"type": "response.reasoning_summary_text.delta", **place, "delta": text})
            if item["type"] == "message":
                text = item["content"][0]["text"]
                events.append({"type": "response.output_text.delta", **place, "delta": text})
            if item["type"] == "function_call":
                delta = item["arguments"]
                events.append({"type": "response.function_call_arguments.delta", **place, "delta": delta})
            events.append({"type": "response.output_item.done", **place, "item": item})
        whole = {"id": "resp_1", "status": "completed", "output": items, "usage": usage}
        events.append({"type": "response.completed", "response": whole})
        return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events]

    def _items(self, number: int) -> list[dict[str, Any]]:
        text = "Done." if number > self.turns else "Let me look."
        said = {"id": f"msg_{number}", "type": "message", "role": "assistant", "phase": "commentary"}
        message = {**said, "content": [{"type": "output_text", "text": text}]}
        if number > self.turns:
            return [message]
        summary = [{"type": "summary_text", "text": f"Turn {number}."}]
        arguments = json.dumps({"at": number}, separators=(",", ":"))
        return [
            {
                "id": f"rs_{number}",
                "type": "reasoning",
                "summary": summary,
                "encrypted_content": f"opaque-{number}",
            },
            {"id": f"ws_{number}", "type": "web_search_call", "status": "completed"},
            message,
            {
                "id": f"fc_{number}",
                "type": "function_call",
                "call_id": f"call_{number}",
                "name": "look",
                "arguments": arguments,
            },
        ]


class StrictChat(StrictServer):
    """The rules of two providers of the chat API: reasoning content, and signatures of calls."""

    def difference(self, number: int, message: Any) -> str | None:
        wanted = {"role": "assistant", "content": None, **self._message(number)}
        return None if message == wanted else f"{message} where {wanted} was given"

    def reply(self, number: int) -> Sequence[bytes]:
        if number > self.turns:
            chunks = [self._chunk({"content": "Done."}), self._chunk({}, "stop")]
        else:
            message = self._message(number)
            (call,) = message["tool_calls"]
            thought = message["reasoning_content"]
            chunks = [
                self._chunk({"reasoning_content": thought[:3]}),
                self._chunk(
                    {"reasoning_content": thought[3:], "reasoning_details": message["reasoning_details"]}
                ),
                self._chunk({"tool_calls": [{"index": 0, **call}]}),
                self._chunk({}, "tool_calls"),
            ]
        return [b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks]

    @staticmethod
    def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    @staticmethod
    def _message(number: int) -> dict[str, Any]:
        function = {"name": "look", "arguments": json.dumps({"at": number}, separators=(",", ":"))}
        extra = {"google": {"thought_signature": f"sig-{number}"}}
        return {
            "reasoning_content": f"Turn {number}.",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": f"opaque-{number}"}],
            "tool_calls": [
                {"id": f"call-{number}", "type": "function", "function": function, "extra_content": extra}
            ],
        }
