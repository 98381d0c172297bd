"""A stand-in for an OpenAI-compatible server that streams slowly: word by word, with a stop in the middle.

It calls the tool that a message begins with, with the values that follow, and counts to ten for any other message.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = "One two three four five six seven eight nine ten.".split()
TOOLS = ("balance", "pay")
HELD_AFTER = 3
_LONGEST_HOLD = 60


class SlowModel(ThreadingHTTPServer):
    """Counts to ten; while it is held, it stops after the first words."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Completions)
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked: list[str] = []
        """The bodies of the requests."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the counting, at the longest until the block ends."""
        self.go_on.clear()
        try:
            yield
        finally:
            self.go_on.set()

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Completions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SlowModel

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass

    def do_GET(self) -> None:
        """Name the one model."""
        body = json.dumps({"object": "list", "data": [{"id": "slow", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Stream the words."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.asked.append(body)
        messages = json.loads(body)["messages"]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            if (call := _call_for(messages)) is not None:
                self._send({"delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None})
                self._send({"delta": {}, "finish_reason": "tool_calls"})
            else:
                self._say(_words_about(messages))
                self._send({"delta": {}, "finish_reason": "stop"})
            self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, words: list[str]) -> None:
        for number, word in enumerate(words):
            if words is WORDS and number == HELD_AFTER:
                self.server.go_on.wait(_LONGEST_HOLD)
            self._send({"delta": {"role": "assistant", "content": f"{word} "}, "finish_reason": None})

    def _send(self, choice: dict[str, Any]) -> None:
        chunk = {
            "id": "chat-1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "slow",
            "choices": [{"index": 0, **choice}],
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


def _call_for(messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The call of the tool that the last message of the user names; None for another message."""
    words = str(messages[-1]["content"]).split() if messages[-1]["role"] == "user" else []
    if not words or words[0] not in TOOLS:
        return None
    given = {
        name: int(text) if text.isdigit() else text
        for name, text in zip(words[1::2], words[2::2], strict=True)
    }
    function = {"name": words[0], "arguments": json.dumps(given)}
    return {"index": 0, "id": f"call-{len(messages)}", "type": "function", "function": function}


def _words_about(messages: list[dict[str, Any]]) -> list[str]:
    """What is said about the result of a tool, or about anything else."""
    last = messages[-1]
    return f"The tool gave {last['content']}".split() if last["role"] == "tool" else WORDS


@contextmanager
def slow_model() -> Iterator[SlowModel]:
    """A server that answers until the block ends."""
    with SlowModel() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()
