"""Servers with the rules of providers: what they gave with a reply must come back unchanged, in its order."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.model_http.server import ModelServer, ServerStream
from tests.adapters.anthropic.answers import streamed_bytes
from tests.adapters.model_http.provider_rules import refusals_of_anthropic, refusals_of_openai
from tests.adapters.openai.byte_server import ByteStream

FOUND = {"type": "web_search_result", "url": "https://h/sand", "encrypted_index": "opaque", "a": None}
"""What a search of the provider found; its fields are in no order."""


def calls_of(number: int) -> Sequence[int]:
    """The places that a turn looks at: every sixth turn has two calls."""
    return (number,) if number % 6 else (number, -number)


def _asked(at: int) -> dict[str, Any]:
    """The arguments of a call, in no order and with numbers of every kind."""
    return {"where": {"y": 1.0, "x": [{"b": -0.5, "a": 10**15}]}, "at": at}


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
        return ByteStream(self.answer(body))

    def answer(self, body: bytes) -> Sequence[bytes]:
        """The reply to a request.

        Raises:
            ModelServerError: the request is not as the provider wants it.
        """
        self.bodies.append(body)
        request = json.loads(body)
        if refused := self.refusals(request["tools"]):
            raise server_error(400, json.dumps({"error": {"message": refused[0]}}).encode())
        said = self.earlier(request)
        for number, message in enumerate(said, start=1):
            if (wrong := self.difference(number, message)) is not None:
                error = {"error": {"message": f"turn {number}: {wrong}", "type": "invalid_request_error"}}
                raise server_error(400, json.dumps(error).encode())
        return self.reply(len(said) + 1)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def earlier(self, request: Any) -> list[Any]:
        """The replies in a request, each as one value."""
        return [each for each in request["messages"] if each["role"] == "assistant"]

    @abstractmethod
    def refusals(self, tools: list[Any]) -> list[str]:
        """What the provider does not take of the tools."""

    @abstractmethod
    def difference(self, number: int, message: Any) -> str | None:
        """What is wrong with the message of a turn."""

    @abstractmethod
    def reply(self, number: int) -> Sequence[bytes]:
        """The bytes of a turn."""


class StrictMessages(StrictServer):
    """Thoughts with signatures, a redacted one and a search of the server between them, a text with citations."""

    def refusals(self, tools: list[Any]) -> list[str]:
        strict = [tool["input_schema"] for tool in tools if tool.get("strict")]
        return refusals_of_anthropic(strict, len(strict))

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
            {
                "type": "server_tool_use",
                "id": f"srv_{number}",
                "name": "web_search",
                "input": {"q": "sand", "a": 1},
            },
            {"type": "web_search_tool_result", "tool_use_id": f"srv_{number}", "content": [FOUND]},
            {"type": "text", "text": "Let me look.", "citations": [{**FOUND, "cited_text": f"at {number}"}]},
            {"type": "thinking", "thinking": "And so.", "signature": f"sig-{number}-b"},
            *(
                {"type": "tool_use", "id": f"toolu_{at}", "name": "look", "input": _asked(at)}
                for at in calls_of(number)
            ),
        ]


class StrictResponses(StrictServer):
    """Encrypted reasoning, an item that only the server reads, and a message with a phase."""

    def refusals(self, tools: list[Any]) -> list[str]:
        return [why for tool in tools if tool["strict"] for why in refusals_of_openai(tool["parameters"])]

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
        reasoning, search, _, *calls = self._items(number)
        said = {"role": "assistant", "content": "Let me look.", "phase": "commentary"}
        known = [{name: each for name, each in call.items() if name != "id"} for call in calls]
        wanted = [reasoning, search, said, *map(_with_parsed, known)]
        came = [*map(_with_parsed, message)]
        return None if came == wanted else f"{came} where {wanted} was given"

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
        return [
            {
                "id": f"rs_{number}",
                "type": "reasoning",
                "summary": summary,
                "encrypted_content": f"opaque-{number}",
            },
            {"id": f"ws_{number}", "type": "web_search_call", "status": "completed"},
            message,
            *(
                {
                    "id": f"fc_{at}",
                    "type": "function_call",
                    "call_id": f"call_{at}",
                    "name": "look",
                    "arguments": json.dumps(_asked(at)),
                }
                for at in calls_of(number)
            ),
        ]


def _with_parsed(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a call with its arguments as they are read."""
    text = item.get("arguments")
    return item if text is None else {**item, "arguments": json.loads(text)}


class StrictChat(StrictServer):
    """The rules of two providers of the chat API: reasoning content, and signatures of the first call of a turn."""

    def refusals(self, tools: list[Any]) -> list[str]:
        strict = [tool["function"] for tool in tools if tool["function"].get("strict")]
        return [why for each in strict for why in refusals_of_openai(each["parameters"])]

    def difference(self, number: int, message: Any) -> str | None:
        wanted = {"role": "assistant", "content": None, **self._message(number)}
        for calls in (message.get("tool_calls") or (), wanted["tool_calls"]):
            for call in calls:
                call["function"] = _with_parsed(call["function"])
        return None if message == wanted else f"{message} where {wanted} was given"

    def reply(self, number: int) -> Sequence[bytes]:
        if number > self.turns:
            chunks = [self._chunk({"content": "Done."}), self._chunk({}, "stop")]
        else:
            message = self._message(number)
            calls = [{"index": at, **each} for at, each in enumerate(message["tool_calls"])]
            thought = message["reasoning_content"]
            chunks = [
                self._chunk({"reasoning_content": thought[:3]}),
                self._chunk(
                    {"reasoning_content": thought[3:], "reasoning_details": message["reasoning_details"]}
                ),
                *(self._chunk({"tool_calls": [each]}) for each in calls),
                self._chunk({}, "tool_calls"),
            ]
        return [b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks]

    @staticmethod
    def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    @staticmethod
    def _message(number: int) -> dict[str, Any]:
        functions = [{"name": "look", "arguments": json.dumps(_asked(at))} for at in calls_of(number)]
        calls = [
            {"id": f"call-{number}-{at}", "type": "function", "function": function}
            for at, function in enumerate(functions)
        ]
        calls[0]["extra_content"] = {"google": {"thought_signature": f"sig-{number}", "a": [1, {}]}}
        return {
            "reasoning_content": f"Turn {number}.",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": f"opaque-{number}"}],
            "tool_calls": calls,
        }
