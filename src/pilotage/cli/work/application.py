"""`pilotage check, describe, serve`: an application as it is, and as a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.target import load_application
from pilotage.container.application import Application
from pilotage.errors import CallerError, start_error


def check(application: str) -> int:
    """Say everything that keeps the application from starting."""
    app = load_application(application)
    if problems := app.problems():
        sys.stderr.write(f"{start_error(app.name, problems)}\n")
        return ExitCode.WRONG
    sys.stdout.write(f"application {app.name!r}: no problems\n")
    return ExitCode.DONE


def describe(application: str, *, as_mermaid: bool) -> int:
    """Show the pods of the application and what each of them needs."""
    app = load_application(application)
    sys.stdout.write(f"{app.describe('mermaid' if as_mermaid else 'text')}\n")
    return ExitCode.DONE


_EXTRA = ("fastapi", "uvicorn")
_AGUI = ("ag_ui", "starlette")


def serve_application(application: str, host: str, port: int, tokens: Sequence[str]) -> int:
    """Serve until somebody stops it.

    Raises:
        CallerError: the extra is missing, a token is, or anybody could reach the application.
        ApplicationStartError: it cannot start.
    """
    if not all(find_spec(each) for each in _EXTRA):
        raise CallerError('this command needs an extra: pip install "pilotage[serve]".')
    from pilotage.adapters.fastapi import BindingRefusedError, serve  # noqa: PLC0415 - needs the extra

    app, principal = load_application(application), resolver_of(tokens)
    try:
        serve(app, host=host, port=port, principal=principal, extensions=_what_else(app, principal))
    except BindingRefusedError as refused:
        raise CallerError(
            f"{host!r} can be reached by others, and nothing says who they are. Give --token WHO=VARIABLE, add a pod "
            f"that implements IPrincipalResolver to application {app.name!r}, or serve this machine alone: "
            "--host 127.0.0.1."
        ) from refused
    return ExitCode.DONE


def _what_else(app: Application, principal: IPrincipalResolver | None) -> list[Callable[[Any], object]]:
    """The agents that are served over AG-UI too, where that adapter is installed."""
    if not all(find_spec(each) for each in _AGUI):
        return []
    from pilotage.adapters.agui import agui_extension  # noqa: PLC0415 - needs the extra

    return [agui_extension(app, principal=principal)]


def resolver_of(tokens: Sequence[str], environ: Mapping[str, str] = os.environ) -> IPrincipalResolver | None:
    """Whoever is let in by a token; None where the application itself has to know.

    Raises:
        CallerError: an option has another form, or names a variable that is not set or holds a token to be guessed.
    """
    from pilotage.adapters.fastapi import BearerTokens  # noqa: PLC0415 - needs the extra

    return BearerTokens(dict(known_token(each, environ) for each in tokens)) if tokens else None


def known_token(option: str, environ: Mapping[str, str]) -> tuple[str, Principal]:
    """A token and whose it is, of `ada@acme=ADA_TOKEN`: on a command line others would see the token itself.

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
