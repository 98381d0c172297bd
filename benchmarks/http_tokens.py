"""What a token costs on its way from the model to a client, over HTTP, beside a bare ASGI stream of the same words.

A server process each, one reader in this one. Ours are durable runs over SQLite; the words come one a millisecond.
"""

from __future__ import annotations

import asyncio
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.http_streams import Server, served
from benchmarks.timing import FULL, Effort

WORDS = 3_000


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Processor time of the server and bytes for each token."""
    with TemporaryDirectory() as folder, served("http_server", folder) as ours, served("bare_stream") as bare:
        return asyncio.run(_measure(ours, bare, effort))


async def _measure(ours: Server, bare: Server, effort: Effort) -> dict[str, float]:
    words = max(10, effort.times(WORDS))
    used: dict[str, list[float]] = {"ours": [], "bare": []}
    size: dict[str, int] = {}
    for _ in range(1 + max(1, effort.rounds // 3)):
        for name, server in (("bare", bare), ("ours", ours)):
            path = f"/{words}" if server is bare else f"/runs/{await _reciting(ours, words)}/events"
            before = await _cpu(server)
            size[name] = await _read(server, path)
            used[name].append((await _cpu(server) - before) / words)
    took = {name: median(found[1:]) for name, found in used.items()}
    return {
        "a token over HTTP, bare: CPU, us": took["bare"] * 1e6,
        "a token over HTTP: CPU, us": took["ours"] * 1e6,
        "a token over HTTP: CPU / bare": took["ours"] / took["bare"],
        "a token over HTTP, bare: bytes": size["bare"] / words,
        "a token over HTTP: bytes": size["ours"] / words,
    }


async def _reciting(server: Server, words: int) -> str:
    return str((await server.ask("POST", "/runs", {"agent": "reciter", "input": {"words": words}}))["id"])


async def _cpu(server: Server) -> float:
    return (await server.ask("GET", "/noticed/cpu"))["cpu"][0]


async def _read(server: Server, path: str) -> int:
    """Read a stream to its end, and return the number of bytes on the wire."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {server.address}\r\nconnection: close\r\n\r\n".encode())
    size = 0
    while piece := await reader.read(2**16):
        size += len(piece)
    writer.close()
    return size
