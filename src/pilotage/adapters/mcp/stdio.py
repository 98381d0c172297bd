"""Transport to a server that is a process: lines of JSON over its standard input and output, all of them bounded.

The process is in a group of its own, which ends with the connection and with this process, whatever ends it (`guard`).
Its standard error goes to the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from pilotage.adapters.mcp.errors import McpStartError, sending
from pilotage.jsonvalue import shortened

_LOG = logging.getLogger("pilotage.adapters.mcp")
_GUARD = Path(__file__).with_name("guard.py")
_INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
_MOST_WAITING = 100
_MOST_JUNK = 1_000
_LONGEST_LOGGED = 2_000
_LAST_LINES = 5
_KILL_SECONDS = 2.0
_LAST_WORDS_SECONDS = 0.2


class StdioTransport:
    """One life of a server process. `on_end` is called once, with the reason, when nothing more will come from it."""

    def __init__(
        self,
        server: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: str | None,
        most_bytes: int,
        stop_seconds: float,
        on_end: Callable[[str], None],
    ) -> None:
        self._server, self._command, self._folder = server, tuple(command), folder
        self._environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._environment |= environment
        self._most_bytes, self._stop_seconds, self._on_end = most_bytes, stop_seconds, on_end
        self._line: socket.socket | None = None
        self._process: asyncio.SubprocessTransport | None = None
        self._pipes: _Pipes | None = None
        self._group: int | None = None

    async def __aenter__(self) -> tuple[_Received, _Sent]:
        try:
            pipes = await self._started()
        except BaseException:
            await self._stop(0.0)
            raise
        return pipes.received, _Sent(pipes)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop(self._stop_seconds)

    async def _stop(self, seconds: float) -> None:
        """End the process: its input is closed, then its line, at the end of which the guard ends group and itself."""
        pipes = self._pipes
        try:
            if pipes is not None:
                pipes.end()
                pipes.close_input()
                if not await pipes.has_exited(seconds):
                    self._close_line()
                    await pipes.has_exited(self._stop_seconds + _KILL_SECONDS)
        finally:
            self._close_line()
            self._close(pipes, self._process)

    async def _started(self) -> _Pipes:
        if sys.platform == "win32":
            raise McpStartError(self._server, "stdio servers need POSIX. Reach it by url=... instead.")
        if self._folder is not None and not os.path.isdir(self._folder):  # noqa: PTH112, ASYNC240 - one look at start
            raise McpStartError(
                self._server, f"there is no folder {self._folder!r} to start it in. Correct folder=..."
            )
        loop = asyncio.get_running_loop()
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        with theirs:
            guard = [sys.executable, "-I", "-S", str(_GUARD), str(theirs.fileno()), f"{self._stop_seconds:g}"]
            process, pipes = await loop.subprocess_exec(
                lambda: _Pipes(self._server, self._most_bytes, self._on_end),
                *guard,
                *self._command,
                pass_fds=(theirs.fileno(),),
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )
            self._process, self._pipes = process, pipes
        word = (await loop.sock_recv(self._line, 1024)).decode(errors="replace").strip()
        if not word.isdigit():
            await pipes.has_exited(self._stop_seconds)
            shown, why = shlex.join(self._command), word.removeprefix("!") or "its guard ended"
            raise McpStartError(
                self._server,
                f"the command {shown!r} cannot be started: {why}. Correct command=..., or install the program.",
            )
        self._group = int(word)
        return pipes

    async def words_of_end(self) -> str:
        """Return how the process ended, with the last lines of its standard error."""
        pipes = self._pipes
        if pipes is None or self._process is None:
            return "it was not started"
        await pipes.has_exited(1.0)
        code = self._process.get_returncode()
        ended = pipes.reason or "it does not answer"
        if code is not None:
            ended = f"{ended}; it ended with exit code {code}"
        return f"{ended}. Its last words: {' | '.join(pipes.last_lines)}" if pipes.last_lines else ended

    def _close_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _close(self, pipes: _Pipes | None, process: asyncio.SubprocessTransport | None) -> None:
        """Close what is left; the group of a guard that did not end by itself is ended here."""
        if pipes is not None:
            pipes.end()
        if process is None:
            return
        code = process.get_returncode()
        process.close()
        if self._group is not None and (code is None or code < 0):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)


class _Pipes(asyncio.SubprocessProtocol):
    """Lines of a process: messages from its standard output, and the log from its standard error."""

    def __init__(self, server: str, most_bytes: int, on_end: Callable[[str], None]) -> None:
        self.exited = asyncio.Event()
        self.received = _Received(self._resume)
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.reason: str | None = None
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._server, self._most_bytes, self._on_end = server, most_bytes, on_end
        self._process: asyncio.SubprocessTransport | None = None
        self._output, self._errors = bytearray(), bytearray()
        self._has_spoken = False
        self._junk = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._read_output(data)
        else:
            self._read_errors(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.end("it closed its standard output")

    def process_exited(self) -> None:
        # What it wrote before may still be on its way; a process outside of its group may hold its output open.
        self.exited.set()
        asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, self._finish)

    def _finish(self) -> None:
        self.end("its process ended")

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    async def has_exited(self, seconds: float) -> bool:
        """Return whether the process has exited, after waiting for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    def write(self, data: bytes) -> None:
        """Write to the standard input of the process.

        Raises:
            ClosedResourceError: it is closed; nothing was written.
        """
        pipe = self._process.get_pipe_transport(0) if self._process is not None else None
        if self.reason is not None or not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing():
            raise anyio.ClosedResourceError
        if (request := sending.get()) is not None:
            request.has_begun = True
        pipe.write(data)

    def close_input(self) -> None:
        """Close the standard input of the process, which asks it to end."""
        pipe = self._process.get_pipe_transport(0) if self._process is not None else None
        if pipe is not None:
            pipe.close()

    def end(self, reason: str | None = None) -> None:
        """Take no more from the process, for a reason that it gave, or because the connection is closed."""
        if self.reason is None:
            self.reason = reason or "the connection was closed"
            self.may_write.set()
            self.received.end()
            if reason is not None:
                self._on_end(reason)

    def _resume(self) -> None:
        pipe = self._process.get_pipe_transport(1) if self._process is not None else None
        if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
            pipe.resume_reading()

    def _read_output(self, data: bytes) -> None:
        if self.reason is not None:
            return
        self._output += data
        *lines, rest = self._output.split(b"\n") if b"\n" in data else [self._output]
        self._output = rest
        for line in lines:
            if len(line) > self._most_bytes:
                rest = line
                break
            if line.strip():
                self._take(bytes(line))
        if len(rest) > self._most_bytes:
            self._output = bytearray()
            self.end(f"it wrote a line longer than {self._most_bytes} bytes (McpLimits.most_bytes)")
        pipe = self._process.get_pipe_transport(1) if self._process is not None else None
        if self.received.is_full and isinstance(pipe, asyncio.ReadTransport):
            pipe.pause_reading()

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValidationError, ValueError) as error:
            self._refuse(line, error)
            return
        self._has_spoken = True
        self.received.put(SessionMessage(message))

    def _refuse(self, line: bytes, error: Exception) -> None:
        """End the connection for a message that cannot be read; drop a line that is none, once it has spoken."""
        shown = ascii(shortened(line.decode(errors="replace"), 120))
        if line.lstrip().startswith(b"{"):
            why = str(error).splitlines()[-1] if isinstance(error, ValidationError) else str(error)
            self.end(f"it wrote a message that cannot be read ({shortened(why, 200)}): {shown}")
        elif not self._has_spoken:
            self.end(
                f"it wrote to its standard output, which is for the protocol alone: {shown}. Let it write to its "
                "standard error, or correct command=..."
            )
        else:
            self._junk += 1
            _LOG.warning("MCP server %s wrote a line that is no message: %s", self._server, shown)
            if self._junk > _MOST_JUNK:
                self.end(f"it wrote more than {_MOST_JUNK} lines that are no messages")

    def _read_errors(self, data: bytes) -> None:
        self._errors += data
        *lines, rest = self._errors.split(b"\n")
        self._errors = rest[-_LONGEST_LOGGED:]
        for line in lines:
            text = ascii(line[:_LONGEST_LOGGED].decode(errors="replace").strip())[1:-1]
            if text:
                self.last_lines.append(shortened(text, 300))
                _LOG.info("MCP server %s: %s", self._server, text)


class _Received:
    """The messages of a server in their order, as its session reads them."""

    def __init__(self, resume: Callable[[], None]) -> None:
        self._waiting: deque[SessionMessage | Exception] = deque()
        self._woken = asyncio.Event()
        self._resume = resume
        self._has_ended = False

    @property
    def is_full(self) -> bool:
        return len(self._waiting) > _MOST_WAITING

    def put(self, message: SessionMessage) -> None:
        """Add a message."""
        self._waiting.append(message)
        self._woken.set()

    def end(self) -> None:
        """Add no more messages."""
        self._has_ended = True
        self._woken.set()

    async def receive(self) -> SessionMessage | Exception:
        while not self._waiting:
            if self._has_ended:
                raise anyio.EndOfStream
            self._woken.clear()
            await self._woken.wait()
        message = self._waiting.popleft()
        if len(self._waiting) == _MOST_WAITING:
            self._resume()
        return message

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class _Sent:
    """Writes the messages of a session to the standard input of its server."""

    def __init__(self, pipes: _Pipes) -> None:
        self._pipes = pipes

    async def send(self, item: SessionMessage, /) -> None:
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        await self._pipes.may_write.wait()
        self._pipes.write(data + b"\n")

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return
