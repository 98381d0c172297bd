"""A real pseudo-terminal with a command in it: what it shows, what is typed, Ctrl-C and all."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\n"
_PATIENCE = 240.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# A status line is written over.
_STATUS = re.compile(r"\r\x1b\[2K[^\r\n]*(?=\r\x1b\[2K)|\r\x1b\[2K")
# The terminal becomes the one that Ctrl-C in it reaches the command, also where the tests run in the background.
_LAUNCH = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _without_size(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that programs believe more than the terminal."""
    return {name: each for name, each in environ.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """`pilotage` with these words, in a terminal of so many columns."""

    def __init__(
        self,
        *words: str,
        folder: Path,
        columns: int = 100,
        environ: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "pilotage"),
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        command = [*program, *words]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-I", "-S", "-c", _LAUNCH, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={
                **_without_size(os.environ),
                "TERM": "xterm-256color",
                "PILOTAGE_AS": "ada",
                **(environ or {}),
            },
            start_new_session=True,
        )
        os.close(slave)
        self._bytes = b""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def raw(self) -> str:
        """Everything that came out, with what a terminal obeys."""
        return self._bytes.decode(errors="replace")

    @property
    def text(self) -> str:
        """Everything that can be read."""
        return _ESCAPES.sub("", _STATUS.sub("", self.raw)).replace("\r\n", "\n")

    def expect(self, words: str) -> None:
        """Wait until the words appear behind those that were expected before."""
        deadline = time.monotonic() + _PATIENCE
        while (found := self.text.find(words, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{words!r} never came. There is:\n{self.text}")
        self._seen = found + len(words)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    def ended(self) -> int:
        """Wait for the end of the command, as long as it shows something; its exit code."""
        while self._read(time.monotonic() + _PATIENCE):
            pass
        return self._process.wait(timeout=_PATIENCE)

    def read_more(self) -> None:
        """Wait until more appears."""
        if not self._read(time.monotonic() + _PATIENCE):
            raise AssertionError(f"nothing more came. There is:\n{self.text}")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            piece = os.read(self._master, 65_536)
        except OSError:  # nobody is on the other side any more
            return False
        self._bytes += piece
        return bool(piece)
