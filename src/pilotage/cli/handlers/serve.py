"""`pilotage serve`: an application over HTTP, and what it says when it listens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from pilotage.adapters.http_settings import HttpSettings, checked_origins
from pilotage.adapters.openai import settings as model
from pilotage.adapters.sqlalchemy.settings import shown
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.cli.application import database_of
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen
from pilotage.cli.text import Line, TextSpan, Tone, columns, line
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.values import value

_SERVER = ("fastapi", "uvicorn")
_AGUI = ("ag_ui", "starlette")


@value
class ServeSettings:
    """The options of the command: address, tokens, origins, and whether a worker runs beside the server."""

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Sequence[str] = ()
    origins: Sequence[str] = ()
    worker: bool = True


def serve_application(app: Application, settings: ServeSettings) -> int:
    """Serve the application until SIGTERM or Ctrl-C, with a worker beside the server unless that is switched off.

    Raises:
        CallerError: the extra or a token is missing, an option is invalid, the port is taken, or requests of other
            machines would not be authenticated.
        ApplicationStartError: it cannot start.
    """
    if not all(find_spec(each) for each in _SERVER):
        raise CallerError('this command needs an extra: pip install "pilotage[serve]".')
    from pilotage.adapters.fastapi import BindingRefusedError, serve  # noqa: PLC0415 - needs the extra
    from pilotage.adapters.fastapi.server import AddressNotFreeError  # noqa: PLC0415 - needs the extra
    from pilotage.adapters.fastapi.serving import allowed_origins  # noqa: PLC0415 - needs the extra

    principal, limits = resolver_of(settings.tokens), http_settings(settings.origins)
    apis: list[Any] = []

    def announce(url: str) -> None:
        origins = sorted(allowed_origins(app, limits))
        lines = served_lines(app, url, endpoints_in(apis[0]), settings.tokens, origins)
        Screen.of_process().print(*lines)

    try:
        serve(
            app,
            host=settings.host,
            port=settings.port,
            principal=principal,
            settings=limits,
            extensions=[*_extensions(app, principal), apis.append],
            announce=announce,
            worker=settings.worker,
        )
    except BindingRefusedError as refused:
        raise CallerError(
            f"{settings.host!r} can be reached from other machines, and requests are not authenticated. Give --token "
            f"WHO=VARIABLE, add a pod that implements IPrincipalResolver to application {app.name!r}, or serve this "
            "machine alone: --host 127.0.0.1."
        ) from refused
    except AddressNotFreeError as taken:
        raise CallerError(
            f"port {taken.port} of {taken.host} is not free ({taken.reason}). Choose another one, for example "
            f"--port {taken.port + 1}, or --port 0 for any."
        ) from taken
    return ExitCode.DONE


def _extensions(app: Application, principal: IPrincipalResolver | None) -> list[Callable[[Any], object]]:
    """Return the routes of AG-UI, where that adapter is installed."""
    if not all(find_spec(each) for each in _AGUI):
        return []
    from pilotage.adapters.agui import agui_extension  # noqa: PLC0415 - needs the extra

    return [agui_extension(app, principal=principal)]


def http_settings(origins: Sequence[str]) -> HttpSettings:
    """Return the settings of the environment with the origins of the command line.

    Raises:
        CallerError: an option is no origin.
    """
    usual = HttpSettings.from_environment()
    try:
        given = checked_origins("--allow-origin", origins)
    except AgentDefinitionError as error:
        raise CallerError(str(error)) from error
    return replace(usual, allowed_origins=(*usual.allowed_origins, *given))


def resolver_of(tokens: Sequence[str]) -> IPrincipalResolver | None:
    """Return the resolver of bearer tokens; None without tokens: the application may have a resolver.

    Raises:
        CallerError: an option has another form, or names a variable that is not set or has a weak token.
    """
    from pilotage.adapters.fastapi import BearerTokens  # noqa: PLC0415 - needs the extra

    return BearerTokens(dict(known_token(each, os.environ) for each in tokens)) if tokens else None


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


def endpoints_in(api: Any) -> dict[str, list[str]]:
    """Return the paths of AG-UI in a web application, by the agent that is served there."""
    from pilotage.adapters.asgi.operations import operation_of  # noqa: PLC0415 - needs the extra

    found: dict[str, list[str]] = {}
    for operation in filter(None, map(operation_of, api.routes)):
        found.setdefault(operation.agent or "?", []).append(operation.path)
    return found


def served_lines(
    app: Application,
    url: str,
    endpoints: Mapping[str, Sequence[str]],
    tokens: Sequence[str],
    origins: Sequence[str],
) -> list[Line]:
    """Return what is served, where, from which database and model, and who is let in."""
    agents = [node.pod.agent_id for node in app.graph.nodes if isinstance(node.pod, AgentDefinition)]
    agui = [f"{url}{paths[0]} ({agent})" for agent, paths in endpoints.items()]
    about = [
        ("agents", ", ".join(agents) or "none: add a class with @Agent"),
        ("runs", f"{url}/runs"),
        ("pages", f"{url}/docs"),
        ("AG-UI", ", ".join(agui) or "no agent has @AGUICompatible"),
        ("database", _database(app)),
        ("model", _model(app)),
        ("let in", "; ".join(_let_in(app, tokens, origins))),
    ]
    heading = line("application ", TextSpan(app.name, Tone.STRONG), " on ", TextSpan(url, Tone.NAME))
    return [heading, *columns([[TextSpan(f"  {name}", Tone.QUIET), TextSpan(text)] for name, text in about])]


def _database(app: Application) -> str:
    settings = database_of(app)
    if settings is not None:
        return shown(settings.url)
    names = [node.label for node in app.graph.providers(IAgentJournal)]
    return ", ".join(names) or "none: runs end with this process"


def _model(app: Application) -> str:
    found = app.graph.given(model.OpenAICompatibleSettings) or app.graph.given(model.VllmSettings)
    server = found.server if isinstance(found, model.VllmSettings) else found
    if server is not None:
        return f"{server.model} at {server.base_url}"
    return ", ".join(node.label for node in app.graph.providers(IAgentModel)) or "none"


def _let_in(app: Application, tokens: Sequence[str], origins: Sequence[str]) -> Iterator[str]:
    if tokens:
        yield ", ".join(each.partition("=")[0] for each in tokens) + ", by their tokens"
    elif app.contains(IPrincipalResolver):
        names = ", ".join(node.label for node in app.graph.providers(IPrincipalResolver))
        yield f"principals that {names} authenticates"
    else:
        yield "programs on this machine"
    if origins:
        yield f"pages of {', '.join(origins)}"
