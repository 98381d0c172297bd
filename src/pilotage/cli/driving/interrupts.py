"""Ctrl-C: the first one asks the run to end, the second one leaves at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from pilotage.cli.exit_codes import ExitCode


class Interrupts:
    """Counts Ctrl-C while a run is followed."""

    def __init__(self) -> None:
        self.first = asyncio.Event()

    @contextmanager
    def heard(self) -> Generator[None]:
        """Hear Ctrl-C inside the block, even while something holds up the event loop."""
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
        is_heard = False

        def hear(*_: object) -> None:
            nonlocal is_heard
            if is_heard:
                leave_at_once()
            is_heard = True
            loop.call_soon_threadsafe(self.first.set)

        signal.signal(signal.SIGINT, hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def leave_at_once() -> None:
    """End the process without waiting for anything.

    A tool in a thread may go on for long and cannot be stopped. The journal is made for processes that die anywhere:
    a run that is left like this is where its last commit says.
    """
    # Not through the stream: somebody may be in the middle of writing to it.
    os.write(sys.stderr.fileno(), b"\nleft: a durable run stays where it is and can be resumed\n")
    os._exit(ExitCode.INTERRUPTED)
