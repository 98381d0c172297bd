"""`pilotage worker`: starts an application and lets it work until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pilotage.cli.target import load_application
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, start_error
from pilotage.runtime.delivery.watchdog import ProcessOfItsOwn
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.runs import AgentRuns

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def work(application: str, concurrency: int | None, grace: float | None) -> int:
    """Take up runs until SIGTERM or Ctrl-C; then let them finish their current action and leave them to others.

    Raises:
        CallerError: the application has no runs, or an option makes no sense.
    """
    app = load_application(application)
    if not app.contains(AgentRuns):
        raise CallerError(
            f"application {app.name!r} has no runs to work on. Load the plugins in it: app.load_plugins()."
        )
    _ask_for_work(app, concurrency, grace)
    app.bind(ProcessOfItsOwn, ProcessOfItsOwn())
    if problems := app.problems():
        sys.stderr.write(f"{start_error(app.name, problems)}\n")
        return 1
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(_work(app))
    return 0


def _ask_for_work(app: Application, concurrency: int | None, grace: float | None) -> None:
    """Let the application have settings of a worker: its own, if it has some, with what the command line changes."""
    given: dict[str, Any] = {"concurrency": concurrency, "grace_seconds": grace}
    changes = {name: each for name, each in given.items() if each is not None}
    if app.contains(WorkerSettings) and not changes:
        return
    known = app.graph.given(WorkerSettings) or WorkerSettings()
    try:
        app.bind(WorkerSettings, replace(known, **changes))
    except AgentDefinitionError as error:
        raise CallerError(str(error)) from error


async def _work(app: Application) -> None:
    stop = asyncio.Event()
    with _told_by_signals(stop):
        async with app:
            settings = app.get(WorkerSettings)
            _say(f"application {app.name!r} takes up runs, {settings.concurrency} at once at most")
            await stop.wait()
            _say(f"stopping: runs have {settings.grace_seconds:g} seconds to finish their current action")
    _say("stopped")


@contextmanager
def _told_by_signals(stop: asyncio.Event) -> Generator[None]:
    """Set the event when a signal comes; a second one is not waited for, and ends the process as usual."""
    loop, before = asyncio.get_running_loop(), {each: signal.getsignal(each) for each in _SIGNALS}

    def put_back() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    def tell(*_: object) -> None:
        put_back()
        loop.call_soon_threadsafe(stop.set)

    for each in _SIGNALS:
        signal.signal(each, tell)
    try:
        yield
    finally:
        put_back()


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()
