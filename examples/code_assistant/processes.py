"""Commands with bounds: a clean environment, so much time, so much output, and a process group that dies with the call.

The command leads a group of its own. When the call ends, however it ends, the whole group is killed. For the case that
our own process is killed there is a watchman in the group: it waits at the end of a pipe that only we hold open.
(What leaves its group with `setsid` is out of reach. These are bounds, not a sandbox.)
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 65_536
_LAST_CHUNKS = 16  # as much as a pipe holds, and no more: somebody who left the group may still be talking
_SECONDS_TO_DIE = 5.0
_WATCHED = """
exec 3<&0
(cat <&3; kill -KILL 0) >/dev/null 2>&1 &
exec 3<&-
exec "$@" </dev/null
"""


@dataclass(frozen=True)
class ProcessLimits:
    """How long a command may take, and how much of what it says is kept."""

    seconds: float = 60.0
    output_bytes: int = 32_000


@dataclass(frozen=True)
class Finished:
    """How a command ended. `exit_code` is None where it had to be stopped."""

    exit_code: int | None
    output: str


def clean_environment(folder: Path, **more: str) -> dict[str, str]:
    """What a command gets to see of the environment: where programs are, a language, the folder as its home."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "LANG": "C.UTF-8", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **more}


async def run_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], limits: ProcessLimits
) -> Finished:
    """Run a command to its end or to the end of its time; what it said, both streams together."""
    group = _Group(command, folder, environment, limits.output_bytes)
    loop = asyncio.get_running_loop()

    def listen() -> None:
        if not group.hear():
            loop.remove_reader(group.output)

    loop.add_reader(group.output, listen)
    try:
        async with asyncio.timeout(limits.seconds):
            exit_code = await asyncio.to_thread(group.leader.wait)
    except TimeoutError:
        exit_code = None
    finally:
        loop.remove_reader(group.output)
        group.end()
    return Finished(exit_code, group.said.text)


class _Group:
    """A process group from its birth to its death."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], output_bytes: int
    ) -> None:
        self.said = _Said(output_bytes)
        self.output, theirs = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self.leader = subprocess.Popen(  # noqa: S603 - what to run is up to the tools, and to whoever allows it
                ["/bin/sh", "-c", _WATCHED, "sh", *command],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        except OSError:
            os.close(self.output)
            raise
        finally:
            os.close(theirs)

    def hear(self) -> bool:
        """Take what the group has said since; False where there is nothing to hear."""
        try:
            chunk = os.read(self.output, _CHUNK)
        except BlockingIOError:
            return False
        self.said.take(chunk)
        return bool(chunk)

    def end(self) -> None:
        """Kill what is left of the group, and hear what it had said."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.leader.wait(_SECONDS_TO_DIE)
        for _ in range(_LAST_CHUNKS):
            if not self.hear():
                break
        os.close(self.output)
        if self.leader.stdin is not None:
            self.leader.stdin.close()


class _Said:
    """What a command said: its beginning and its end, within bounds."""

    def __init__(self, most: int) -> None:
        self._most = most // 2
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0

    def take(self, chunk: bytes) -> None:
        """Keep as much as there is room for."""
        room = self._most - len(self._first)
        self._first += chunk[:room]
        self._last += chunk[room:]
        too_many = len(self._last) - self._most
        if too_many > 0:
            del self._last[:too_many]
            self._left_out += too_many

    @property
    def text(self) -> str:
        """All of it, or the beginning, how much is left out, and the end."""
        first, last = (part.decode(errors="replace") for part in (self._first, self._last))
        gap = f"\n... {self._left_out} bytes are left out ...\n" if self._left_out else ""
        return f"{first}{gap}{last}"
