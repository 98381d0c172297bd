"""Many readers of one run over HTTP: what each of them costs, how soon it hears something, what the run notices."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.timing import FULL, Effort

READERS, MANY = 500, 1_000
TURNS, ENDLESS = 20, 10_000
SLOW = 10
"""Every tenth reader reads nothing for as long as it is there."""


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Memory and time per reader, and ratios of the same run with readers and without."""
    readers, many = (READERS, MANY) if effort is FULL else (2 * SLOW, 2 * SLOW)
    turns = TURNS if effort is FULL else 1
    with TemporaryDirectory() as folder, served("http_server", folder) as server:
        return asyncio.run(_measure(server, effort, (readers, many), turns))


@dataclass
class Server:
    """The process that is measured."""

    port: int
    pid: int
    address: str = field(init=False)

    def __post_init__(self) -> None:
        self.address = f"127.0.0.1:{self.port}"

    @property
    def kilobytes(self) -> int:
        """What it holds of the machine's memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, list[float]]:
        """One request and its JSON."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.address}\r\nconnection: close\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        writer.write(head.encode() + sent)
        answer = await reader.read()
        writer.close()
        found: dict[str, list[float]] = json.loads(answer.partition(b"\r\n\r\n")[2])
        return found

    async def start(self, turns: int) -> str:
        """A run of so many turns."""
        body = {"agent": "pacer", "input": {"turns": turns}}
        return str((await self.ask("POST", "/runs", body))["id"])


@contextmanager
def served(module: str, *given: str) -> Iterator[Server]:
    """Serve one of the modules here in a process of its own, as long as the context is open."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *given]
    root = Path(__file__).parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as process:
        try:
            assert process.stdout is not None
            yield Server(int(process.stdout.readline()), process.pid)
        finally:
            process.terminate()


class Reader:
    """One reader: how long it waited for the first byte of the first event, and how much came."""

    def __init__(self, *, is_slow: bool) -> None:
        self.is_slow = is_slow
        self.seconds = 0.0
        self.bytes = 0
        self.heard = asyncio.Event()

    async def read(self, server: Server, run_id: str) -> None:
        """Read to the end; a slow one stops behind its first piece."""
        started = perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**12)
        try:
            writer.write(f"GET /runs/{run_id}/events HTTP/1.1\r\nhost: {server.address}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.split(b"\r\n")[0], head
            self.bytes = len(await reader.read(2**10))
            self.seconds = perf_counter() - started
            self.heard.set()
            if self.is_slow:
                await asyncio.Event().wait()
            while piece := await reader.read(2**16):
                self.bytes += len(piece)
                if piece.endswith(b"0\r\n\r\n"):
                    return
        finally:
            writer.transport.abort()


@asynccontextmanager
async def _reading(server: Server, run_id: str, count: int) -> AsyncIterator[list[Reader]]:
    """So many readers, all of which have heard something."""
    readers = [Reader(is_slow=number % SLOW == 0) for number in range(count)]
    tasks = [asyncio.create_task(each.read(server, run_id)) for each in readers]
    try:
        await asyncio.gather(*(each.heard.wait() for each in readers))
        yield readers
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _measure(server: Server, effort: Effort, counts: tuple[int, int], turns: int) -> dict[str, float]:
    await _noticed(server, turns, 0)
    streams = await _streams(server, counts[0], effort)
    alone: list[tuple[float, float]] = []
    read: list[tuple[float, float]] = []
    for _ in range(max(1, effort.rounds // 3)):
        alone.append(await _noticed(server, turns, 0))
        read.append(await _noticed(server, turns, counts[1]))
    # Of the rounds the best one: readers and server share the machine with whatever else is on it.
    turn, read_turn = min(seconds for seconds, _ in alone), min(seconds for seconds, _ in read)
    commit, read_commit = min(seconds for _, seconds in alone), min(seconds for _, seconds in read)
    return {
        **streams,
        f"a turn of a run with {counts[1]:,} readers / without": read_turn / turn,
        f"a commit of a run with {counts[1]:,} readers / without": read_commit / commit,
        "a commit of a run without readers, ms": commit * 1e3,
    }


async def _streams(server: Server, count: int, effort: Effort) -> dict[str, float]:
    run_id = await server.start(ENDLESS)
    before = server.kilobytes
    async with _reading(server, run_id, count) as readers:
        waited = [each.seconds for each in readers]
        await asyncio.sleep(2 * effort.share)
        held = (server.kilobytes - before) / count
    await server.ask("POST", f"/runs/{run_id}/cancel")
    return {
        f"{count} streams at once: memory of each, kB": held,
        f"{count} streams at once: first byte, median, ms": median(waited) * 1e3,
        f"{count} streams at once: first byte, slowest 5 %, ms": quantiles(waited, n=20)[-1] * 1e3,
        "one stream: first byte, ms": await _first_byte(server, effort.times(5)),
    }


async def _first_byte(server: Server, times: int) -> float:
    found: list[float] = []
    for _ in range(times):
        run_id = await server.start(2)
        async with _reading(server, run_id, 2) as readers:
            found.append(readers[1].seconds)
        await server.ask("POST", f"/runs/{run_id}/cancel")
    return median(found) * 1e3


async def _noticed(server: Server, turns: int, readers: int) -> tuple[float, float]:
    """What so many turns of a run took while it had so many readers: seconds of a turn, and of a commit."""
    run_id = await server.start(ENDLESS)
    took: dict[str, list[float]] = {"turns": [], "commits": []}
    async with _reading(server, run_id, readers):
        await server.ask("GET", "/noticed")
        while len(took["turns"]) < turns:
            await asyncio.sleep(0.25)
            found = await server.ask("GET", "/noticed")
            took = {name: took[name] + found[name] for name in took}
    await server.ask("POST", f"/runs/{run_id}/cancel")
    return median(took["turns"]), median(took["commits"])
