"""Hosts and origins: which requests come from this machine, and which pages may send requests. Pure."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the host."""
    name = host.strip().lower().removeprefix("[").removesuffix("]")
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_from_this_machine(client: str | None, host: str | None) -> bool:
    """Return whether a request was sent by this machine, to a name of this machine.

    Both are needed: a page of another site may send requests to this machine through a name that leads here (DNS
    rebinding), and then `Host` has that name. A client without a network address is refused: behind a socket file
    there may be a proxy that serves everybody.
    """
    return client is not None and host is not None and is_loopback(client) and is_loopback(_name_in(host))


def is_allowed_origin(origin: str | None, host: str | None, allowed: Collection[str]) -> bool:
    """Return whether a request may be sent: by a program, by a page of this host, or by a page of an allowed origin."""
    if origin is None:
        return True
    return origin.lower() in allowed or (bool(host) and _host_of(origin) == str(host).lower())


def _host_of(origin: str) -> str:
    return origin.lower().partition("://")[2]


def _name_in(host: str) -> str:
    """Return the name in a `Host` header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
