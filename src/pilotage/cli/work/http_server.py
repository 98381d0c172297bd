"""Serving an application over HTTP with uvicorn: to this machine alone, unless something says who asks."""

from __future__ import annotations

from collections.abc import Mapping

import uvicorn
from fastapi import FastAPI

from pilotage.adapters.fastapi import HttpSettings, agent_routes, container_lifespan
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import LOCAL, Principal
from pilotage.cli.work.serving import is_loopback
from pilotage.container.application import Application
from pilotage.errors import NotAuthenticatedError, start_error


def serve(
    app: Application,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    principal: IPrincipalResolver | None = None,
    settings: HttpSettings | None = None,
) -> None:
    """Serve the runs of an application until the process is told to stop.

    Raises:
        ApplicationStartError: it cannot start; nothing was made.
    """
    if problems := app.problems():
        raise start_error(app.name, problems)
    uvicorn.run(asgi_application(app, principal=principal, settings=settings), host=host, port=port)


def asgi_application(
    app: Application, *, principal: IPrincipalResolver | None = None, settings: HttpSettings | None = None
) -> FastAPI:
    """The routes of an application, which starts and stops with them."""
    if principal is None and not app.contains(IPrincipalResolver):
        principal = ThisMachineOnly()
    api = FastAPI(title=app.name, lifespan=container_lifespan(app))
    api.include_router(agent_routes(app, principals=principal, settings=settings))
    return api


class ThisMachineOnly(IPrincipalResolver):
    """Takes everybody on this machine for the application itself; pages of other sites in its browsers are kept out."""

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        host, origin = headers.get("host", ""), headers.get("origin")
        for address in (host, *([origin.rpartition("//")[2]] if origin is not None else [])):
            if not is_loopback(_without_port(address)):
                raise NotAuthenticatedError(f"only this machine is served here, and not {address!r}.")
        return LOCAL


def _without_port(address: str) -> str:
    return address.partition("]")[0] if address.startswith("[") else address.partition(":")[0]
