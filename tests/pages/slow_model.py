"""A stand-in for an OpenAI-compatible server that streams slowly: word by word, with a stop in the middle."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = "One two three four five six seven eight nine ten.".split()
HELD_AFTER = 3
_LONGEST_HOLD = 60


class SlowModel(ThreadingHTTPServer):
    """Counts to ten for every request; while it is held, it stops after the first words."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Completions)
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked: list[str] = []
        """The bodies of the requests."""

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
        self.server.asked.append(self.rfile.read(int(self.headers["content-length"])).decode())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            for number, word in enumerate(WORDS):
                if number == HELD_AFTER:
                    self.server.go_on.wait(_LONGEST_HOLD)
                self._send({"delta": {"role": "assistant", "content": f"{word} "}, "finish_reason": None})
            self._send({"delta": {}, "finish_reason": "stop"})
            self.wfile.write(b"data: [DONE]\n\n")

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
