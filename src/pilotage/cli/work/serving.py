"""`pilotage serve`: an application as a server, and who is let in by a token."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from ipaddress import ip_address

from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.target import load_application
from pilotage.errors import CallerError

_EXTRA = ("fastapi", "uvicorn")


def serve_application(application: str, host: str, port: int, tokens: Sequence[str]) -> int:
    """Serve until somebody stops it.

    Raises:
        CallerError: the extra is missing, a token is, or anybody could reach the application.
        ApplicationStartError: it cannot start.
    """
    if not all(find_spec(each) for each in _EXTRA):
        raise CallerError('this command needs an extra: pip install "pilotage[serve]".')
    from pilotage.cli.work.http_server import serve  # noqa: PLC0415 - needs the extra

    app, principal = load_application(application), resolver_of(tokens)
    if principal is None and not app.contains(IPrincipalResolver) and not is_loopback(host):
        raise CallerError(
            f"{host!r} can be reached by others, and nothing says who they are. Give --token WHO=VARIABLE, add a pod "
            f"that implements IPrincipalResolver to application {app.name!r}, or serve this machine alone: "
            "--host 127.0.0.1."
        )
    serve(app, host=host, port=port, principal=principal)
    return ExitCode.DONE


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine reaches an address; a name other than localhost may be anything."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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
