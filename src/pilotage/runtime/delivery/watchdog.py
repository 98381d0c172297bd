"""The watchdog: a thread that notices an event loop which stands still.

While the loop stands still no lease is renewed, and after a while another process takes the runs over. Before that, the
watchdog ends the process, or lets it begin no further effects of those runs.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Event, Thread, get_ident
from typing import TypeAlias

from pilotage.agent.ports.leases import IAgentBacklog
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_not_positive
from pilotage.container.graph import Graph
from pilotage.errors import AgentBootstrapError, Problem
from pilotage.ids import IClock
from pilotage.runtime.journal.lease import SAFE_SHARE, HeldLease, LeaseSettings, Leasing
from pilotage.runtime.journal.renewal import LeaseRenewer
from pilotage.runtime.services import Services
from pilotage.values import value

STALLED_EXIT_CODE = 75
"""The exit code of a process that the watchdog ends."""

_DEFAULT_SHARE = 1 / 2
_LOOKS = 8
_NOTE_SECONDS = 1.0
_log = logging.getLogger("pilotage.watchdog")

Begun: TypeAlias = Mapping[RunKey, float]
"""Runs whose claims are counted and not settled, with the seconds they are left afterwards."""


@value
class WatchdogSettings:
    """The time that the event loop may stand still while this process drives durable runs, and the reaction to more.

    `seconds` is half of a lease if it is not given, and must be shorter than two thirds of it. The stacks of all
    threads go to stderr, leases are not renewed any more, and runs that were under way begin no further effects. With
    `ends_process` the process ends with exit code 75; by default it does in `pilotage worker` and `serve` only.
    """

    seconds: float | None = None
    ends_process: bool | None = None
    is_on: bool = True

    def __post_init__(self) -> None:
        reject_not_positive(self, seconds=self.seconds)


@value
class ProcessOfItsOwn:
    """Says that the process belongs to the application; `worker` and `serve` add it.

    The watchdog may end the process, and the garbage collector leaves alone what was made before the application began.
    """


class StallDetector:
    """Decides whether a loop stands still, by its beats and by the looks of the watchdog. Pure.

    A look counts for as long as looks are apart, however much time has passed: a process that was suspended has missed
    beats and looks alike.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._limit = limit_seconds
        self.every_seconds = limit_seconds / _LOOKS
        self._seen: int | None = None
        self._looked_at: float | None = None
        self.still_seconds = 0.0

    def is_stalled(self, now: float, beats: int | None) -> bool:
        """Look, and return whether the loop has stood still for too long; `beats` is None where none are expected."""
        since = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        if beats is None or beats != self._seen:
            self._seen, self.still_seconds = beats, 0.0
            return False
        self.still_seconds += min(max(since, 0.0), 2 * self.every_seconds)
        return self.still_seconds >= self._limit


class Watchdog:
    """Watches the loop that renews leases, from a thread; it calls `on_stall` there once each time it stands still."""

    def __init__(
        self,
        clock: IClock,
        renewer: LeaseRenewer[HeldLease],
        limit_seconds: float,
        on_stall: Callable[[float], None],
    ) -> None:
        self._clock = clock
        self._renewer = renewer
        self._detector = StallDetector(limit_seconds)
        self._on_stall = on_stall
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="pilotage-watchdog", daemon=True)
        renewer.beat_seconds = min(renewer.beat_seconds, self._detector.every_seconds / 2)

    def start(self) -> None:
        """Start to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, without waiting for a watchdog that is at work."""
        self._stop.set()

    def _watch(self) -> None:
        detector, was_stalled = self._detector, False
        while not self._stop.wait(detector.every_seconds):
            beats = self._renewer.beats if self._renewer.is_needed else None
            is_stalled = detector.is_stalled(self._clock.monotonic(), beats)
            if is_stalled and not was_stalled:
                self._on_stall(detector.still_seconds)
            was_stalled = is_stalled


class StallHandler:
    """Reacts to a loop that stands still; created in the thread of the loop, called in that of the watchdog."""

    def __init__(
        self,
        renewer: LeaseRenewer[HeldLease],
        backlog: IAgentBacklog | None,
        begun: Callable[[], Begun],
        *,
        ends_process: bool,
    ) -> None:
        self._renewer = renewer
        self._backlog = backlog
        self._begun = begun
        self._ends_process = ends_process
        self._loop_thread = get_ident()

    def __call__(self, seconds: float) -> None:
        """Log the stall, stop renewing leases, and end the process if the settings say so."""
        words = f"the event loop has stood still for {seconds:.1f} seconds"
        left = self._renewer.revoke(f"{words}, and the run is left to another owner")
        names = ", ".join(sorted(run.run_id for run in left))
        stacks = stacks_of_threads()
        _say(stacks)
        if not self._ends_process:
            _log.error("%s: no further effect of these runs begins in this process: %s", words, names)
            return
        self._note(f"EventLoopStalled: {words}\n{stack_of(self._loop_thread, stacks)}")
        _say(f"pilotage: {words}; this process ends and leaves its runs to others: {names}")
        os._exit(STALLED_EXIT_CODE)

    def _note(self, problem: str) -> None:
        """Store the stack as the problem of all claims under way; it helps people, and nothing depends on it."""
        begun = self._begun()
        if self._backlog is not None and begun:
            with suppress(Exception):
                asyncio.run(_noted(self._backlog, begun, problem))


async def _noted(backlog: IAgentBacklog, begun: Begun, problem: str) -> None:
    async with asyncio.timeout(_NOTE_SECONDS):
        for run, delay in begun.items():
            await backlog.settle(run, counts=True, delay_seconds=delay, problem=problem)


def stacks_of_threads() -> str:
    """Return the stacks of all threads, without values."""
    with TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


def stack_of(thread: int, stacks: str) -> str:
    """Return the stack of one thread among those of all. Pure."""
    parts = stacks.split("\n\n")
    return next((part for part in parts if f"0x{thread:016x}" in part.partition("\n")[0]), stacks)


def _say(words: str) -> None:
    with suppress(Exception):
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()


def limit_of(settings: WatchdogSettings, lease: LeaseSettings) -> float:
    """Return how long a loop may stand still."""
    return settings.seconds if settings.seconds is not None else lease.seconds * _DEFAULT_SHARE


def watchdog_problems(graph: Graph) -> Iterable[Problem]:
    """Report a time that is so long that another process may take the runs over before the watchdog acts."""
    settings = graph.given(WatchdogSettings)
    if settings is None or settings.seconds is None:
        return
    safe = (graph.given(LeaseSettings) or LeaseSettings()).seconds * SAFE_SHARE
    if settings.seconds >= safe:
        yield Problem(
            "watchdog_too_slow",
            f"WatchdogSettings.seconds is {settings.seconds:g}, and another process may take runs over after "
            f"{safe:g} seconds.",
            remedy="Give fewer seconds, or longer leases: LeaseSettings(seconds=...).",
            family=AgentBootstrapError,
        )


def watchdog_of(services: Services, leasing: Leasing, begun: Callable[[], Begun]) -> Watchdog | None:
    """Return the watchdog of the running loop, or None where it is switched off; `begun` are the claims under way."""
    settings = services.app.get_or_none(WatchdogSettings) or WatchdogSettings()
    if not settings.is_on:
        return None
    is_own = services.app.get_or_none(ProcessOfItsOwn) is not None
    ends_process = is_own if settings.ends_process is None else settings.ends_process
    handler = StallHandler(leasing.renewer, services.backlog, begun, ends_process=ends_process)
    limit = limit_of(settings, services.lease_settings)
    return Watchdog(services.clock, leasing.renewer, limit, handler)
