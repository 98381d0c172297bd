"""Serving an application over HTTP with uvicorn: to this machine alone, unless something says who asks."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

import uvicorn
from fastapi import FastAPI

from pilotage.adapters.fastapi import HttpSettings, agent_routes, container_lifespan
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import LOCAL, Principal
from pilotage.container.application import Application
from pilotage.errors import CallerError, NotAuthenticatedError, start_error


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
        CallerError: others would reach it, and nothing says who they are.
        ApplicationStartError: it cannot start; nothing was made.
    """
    if not is_loopback(host) and principal is None and not app.contains(IPrincipalResolver):
        raise CallerError(
            f"{host!r} can be reached by others, and nothing says who they are. Give --token WHO=VARIABLE, add a pod "
            f"that implements IPrincipalResolver to application {app.name!r}, or serve this machine alone: "
            "--host 127.0.0.1."
        )
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


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine reaches an address; a name other than localhost may be anything."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _without_port(address: str) -> str:
    return address.partition("]")[0] if address.startswith("[") else address.partition(":")[0]
