"""`pilotage check, describe, worker`: look at an application, or let it take up runs."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen, print_error
from pilotage.cli.text import line
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, start_error
from pilotage.runtime.delivery.watchdog import ProcessOfItsOwn
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.runs import AgentRuns

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def check(app: Application) -> int:
    """Show everything that keeps the application from starting."""
    if problems := app.problems():
        print_error(str(start_error(app.name, problems)))
        return ExitCode.WRONG
    _say(f"application {app.name!r}: no problems")
    return ExitCode.DONE


def describe(app: Application, *, as_mermaid: bool) -> int:
    """Show the pods of the application and what each of them needs."""
    Screen.of_process().print_text(app.describe("mermaid" if as_mermaid else "text"))
    return ExitCode.DONE


def work(app: Application, concurrency: int | None, grace: float | None) -> int:
    """Take up runs until SIGTERM or Ctrl-C; then let them finish their current action and leave them to others.

    Raises:
        CallerError: the application has no runs, or an option is invalid.
    """
    if not app.contains(AgentRuns):
        raise CallerError(
            f"application {app.name!r} has no runs to work on. Load the plugins in it: app.load_plugins()."
        )
    _bind_settings(app, concurrency, grace)
    app.bind(ProcessOfItsOwn, ProcessOfItsOwn())
    if problems := app.problems():
        print_error(str(start_error(app.name, problems)))
        return ExitCode.WRONG
    _log_to_terminal()
    asyncio.run(_work(app))
    return ExitCode.DONE


def _bind_settings(app: Application, concurrency: int | None, grace: float | None) -> None:
    """Give the application settings of a worker: its own, if it has some, with the changes of the command line."""
    if grace is not None and not math.isfinite(grace):
        raise CallerError(f"--grace is {grace}. Give a number of seconds.")
    given: dict[str, Any] = {"concurrency": concurrency, "grace_seconds": grace}
    changes = {name: each for name, each in given.items() if each is not None}
    if app.contains(WorkerSettings) and not changes:
        return
    known = app.graph.given(WorkerSettings) or WorkerSettings()
    try:
        app.bind(WorkerSettings, replace(known, **changes))
    except AgentDefinitionError as error:
        raise CallerError(str(error)) from error


def _log_to_terminal() -> None:
    """Log warnings to standard error, and the runs that the worker takes up to standard output."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    runs = logging.StreamHandler(sys.stdout)
    runs.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    runs.addFilter(lambda record: record.levelno == logging.INFO)
    log = logging.getLogger("pilotage.worker")
    log.addHandler(runs)
    log.setLevel(logging.INFO)
    log.propagate = True
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)


async def _work(app: Application) -> None:
    stop = asyncio.Event()
    with _set_by_signals(stop):
        async with app:
            settings = app.get(WorkerSettings)
            _say(f"application {app.name!r} takes up runs, {settings.concurrency} at once at most")
            await stop.wait()
            _say(f"stopping: runs have {settings.grace_seconds:g} seconds to finish their current action")
    _say("stopped")


@contextmanager
def _set_by_signals(stop: asyncio.Event) -> Generator[None]:
    """Set the event at the first signal; a second one ends the process as usual."""
    loop, before = asyncio.get_running_loop(), {each: signal.getsignal(each) for each in _SIGNALS}

    def put_back() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    def stop_soon(*_: object) -> None:
        put_back()
        loop.call_soon_threadsafe(stop.set)

    for each in _SIGNALS:
        signal.signal(each, stop_soon)
    try:
        yield
    finally:
        put_back()


def _say(words: str) -> None:
    Screen.of_process().print(line(words))
