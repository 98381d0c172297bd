"""`pilotage check, describe, serve, worker`: look at an application, or run it."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen, print_error
from pilotage.cli.target import load_application
from pilotage.cli.text import line
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, start_error
from pilotage.runtime.delivery.watchdog import ProcessOfItsOwn
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.runs import AgentRuns

_SERVER = ("fastapi", "uvicorn")
_AGUI = ("ag_ui", "starlette")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def check(application: str) -> int:
    """Show everything that keeps the application from starting."""
    app = load_application(application)
    if problems := app.problems():
        print_error(str(start_error(app.name, problems)))
        return ExitCode.WRONG
    _say(f"application {app.name!r}: no problems")
    return ExitCode.DONE


def describe(application: str, *, as_mermaid: bool) -> int:
    """Show the pods of the application and what each of them needs."""
    app = load_application(application)
    Screen.of_process().print_text(app.describe("mermaid" if as_mermaid else "text"))
    return ExitCode.DONE


def serve_application(application: str, host: str, port: int, tokens: Sequence[str]) -> int:
    """Serve the application until SIGTERM or Ctrl-C.

    Raises:
        CallerError: the extra or a token is missing, or requests of other machines would not be authenticated.
        ApplicationStartError: it cannot start.
    """
    if not all(find_spec(each) for each in _SERVER):
        raise CallerError('this command needs an extra: pip install "pilotage[serve]".')
    from pilotage.adapters.fastapi import BindingRefusedError, serve  # noqa: PLC0415 - needs the extra

    app, principal = load_application(application), resolver_of(tokens)
    try:
        serve(app, host=host, port=port, principal=principal, extensions=_extensions(app, principal))
    except BindingRefusedError as refused:
        raise CallerError(
            f"{host!r} can be reached from other machines, and requests are not authenticated. Give --token "
            f"WHO=VARIABLE, add a pod that implements IPrincipalResolver to application {app.name!r}, or serve this "
            "machine alone: --host 127.0.0.1."
        ) from refused
    return ExitCode.DONE


def _extensions(app: Application, principal: IPrincipalResolver | None) -> list[Callable[[Any], object]]:
    """Return the routes of AG-UI, where that adapter is installed."""
    if not all(find_spec(each) for each in _AGUI):
        return []
    from pilotage.adapters.agui import agui_extension  # noqa: PLC0415 - needs the extra

    return [agui_extension(app, principal=principal)]


def resolver_of(tokens: Sequence[str], environ: Mapping[str, str] = os.environ) -> IPrincipalResolver | None:
    """Return the resolver of bearer tokens; None without tokens: the application may have a resolver.

    Raises:
        CallerError: an option has another form, or names a variable that is not set or has a weak token.
    """
    from pilotage.adapters.fastapi import BearerTokens  # noqa: PLC0415 - needs the extra

    return BearerTokens(dict(known_token(each, environ) for each in tokens)) if tokens else None


def known_token(option: str, environ: Mapping[str, str]) -> tuple[str, Principal]:
    """Return a token and its principal, of `ada@acme=ADA_TOKEN`: a token on a command line can be read by others.

    Raises:
        CallerError: the option has another form, or the variable is not set.
    """
    who, _, variable = option.partition("=")
    name, _, tenant = who.partition("@")
    if not name.strip() or not variable.strip():
        raise CallerError(f"--token {option!r}: write WHO=VARIABLE, for example ada@acme=ADA_TOKEN.")
    token = environ.get(variable, "")
    if not token:
        raise CallerError(
            f"--token {who}: the environment variable {variable!r} is not set. Put the token there."
        )
    return token, Principal(name, tenant) if tenant else Principal(name)


def work(application: str, concurrency: int | None, grace: float | None) -> int:
    """Take up runs until SIGTERM or Ctrl-C; then let them finish their current action and leave them to others.

    Raises:
        CallerError: the application has no runs, or an option is invalid.
    """
    app = load_application(application)
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
