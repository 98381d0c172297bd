"""The floor of `http_tokens`: an ASGI application by hand that streams as many words, as `data:` lines of JSON.

Run it: python -m benchmarks.bare_stream
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from socket import create_server
from time import process_time
from typing import Any

import uvicorn

SECONDS_PER_WORD = 0.001
Send = Callable[[dict[str, Any]], Awaitable[None]]


def word(number: int) -> str:
    """One token of a text."""
    return f" word{number % 1_000}"


async def application(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Send) -> None:
    """Stream as many words as the path says; any other path gives the processor time of the process."""
    name = scope["path"].strip("/")
    if not name.isdigit():
        body = json.dumps({"cpu": [process_time()]}).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    for number in range(int(name)):
        await asyncio.sleep(SECONDS_PER_WORD)
        data = json.dumps({"kind": "message_delta", "message_id": "message", "delta": word(number)})
        await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    with create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(application, log_level="error", lifespan="off", access_log=False)
        asyncio.run(uvicorn.Server(config).serve([listening]))
