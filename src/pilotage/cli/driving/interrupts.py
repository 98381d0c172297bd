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
        """Hear Ctrl-C inside the block; outside it means what it always means."""
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    def _hear(self) -> None:
        if self.first.is_set():
            leave_at_once()
        self.first.set()


def leave_at_once() -> None:
    """End the process without waiting for anything.

    A tool in a thread may go on for long and cannot be stopped. The journal is made for processes that die anywhere:
    a run that is left like this is where its last commit says.
    """
    sys.stdout.flush()
    sys.stderr.write("\nleft: a durable run stays where it is and can be resumed\n")
    sys.stderr.flush()
    os._exit(ExitCode.INTERRUPTED)
