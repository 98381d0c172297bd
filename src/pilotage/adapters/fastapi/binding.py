"""Where a server may listen, and whom it may let in, when nothing says who asks. Pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import ClassVar

from pilotage.errors import StartupError


class BindingRefusedError(StartupError):
    """The server would be open to others, and nothing says who they are; `host` is where it would listen."""

    message: ClassVar[str] = "The server would be open to everybody."
    code: ClassVar[str] = "binding_refused"

    def __init__(self, *args: object, host: str = "") -> None:
        super().__init__(*args)
        self.host = host


def refuse_open_binding(host: str, *, knows_who_asks: bool) -> None:
    """Refuse to listen where others reach it, unless it is known who asks.

    Raises:
        BindingRefusedError: the host is not this machine's own, and there is no principal resolver.
    """
    if not knows_who_asks and not is_loopback(host):
        raise BindingRefusedError(
            f"host {host!r} can be reached by others, and nothing says who asks. Give serve(app, "
            "principal=BearerTokens({...})), add a pod that implements IPrincipalResolver, or listen on 127.0.0.1.",
            host=host,
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine itself reaches the host."""
    name = host.strip().lower().removeprefix("[").removesuffix("]")
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_from_here(client: str | None, host: str | None, origin: str | None) -> bool:
    """Whether a request comes from a program on this machine, and from no page of somewhere else.

    A page of another site may send requests to this machine. It cannot choose what its browser says of it in `Host`
    and `Origin`: the first shows a foreign name that leads here, the second a foreign page.
    """
    if client is None or host is None or not is_loopback(client) or not is_loopback(name_in(host)):
        return False
    return origin is None or is_same_origin(origin, host)


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page was loaded from the host that it talks to."""
    return origin.lower().partition("://")[2] == host.lower()


def is_allowed_origin(origin: str | None, host: str | None, allowed: tuple[str, ...]) -> bool:
    """Whether a WebSocket may be opened: by no page at all, by one of this host, or by one of the list."""
    if origin is None:
        return True
    return origin.lower() in allowed or (host is not None and is_same_origin(origin, host))


def name_in(host: str) -> str:
    """The name in a `Host` header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
