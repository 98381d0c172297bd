"""Hosts and addresses that a tool may reach. Pure: no name is resolved here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NOT_FOR_SERVERS = tuple(
    map(
        ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
    )
)
"""Protocol assignments, documentation and tunnels among the global addresses: no public server is there."""
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Prefixes of translated IPv4 addresses: the last four bytes are the real destination."""
_HOST = re.compile(r"(\*\.)?[^\s*/:@]+(:[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@value
class EgressPolicy:
    """Hosts that a guarded client may reach.

    `hosts` are names, exact (`api.example.org`) or with everything below them (`*.example.org`), reached at the usual
    port of the scheme; another port is named with its host (`api.example.org:8443`). Only globally reachable addresses
    are connected to; `networks` allows others (`10.2.0.0/16`). `schemes` is `https` alone by default. `most_bytes`
    bounds a response; a compressed one is refused. `seconds` bounds each wait on the network.
    """

    hosts: tuple[str, ...]
    networks: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https",)
    most_bytes: int = 10_000_000
    most_redirects: int = 5
    seconds: float = 30

    def __post_init__(self) -> None:
        if not self.hosts:
            raise AgentDefinitionError(
                "EgressPolicy.hosts is empty: nothing could be reached. Name the hosts, such as 'api.example.org'."
            )
        for host in self.hosts:
            _reject_pattern(host)
        for network in self.networks:
            try:
                ip_network(network)
            except ValueError as error:
                raise AgentDefinitionError(
                    f"EgressPolicy.networks: {network!r} is no network: {error}"
                ) from error
        if unknown := sorted(set(self.schemes) - {"http", "https"}):
            raise AgentDefinitionError(
                f"EgressPolicy.schemes: {unknown} cannot be spoken; there are http and https."
            )
        reject_not_positive(self, most_bytes=self.most_bytes, seconds=self.seconds)

    def why_not_host(self, scheme: str, host: str, port: int | None = None) -> str | None:
        """Return why a request to this host and port is refused, or None if it is allowed."""
        if scheme not in self.schemes:
            return f"the scheme {scheme!r} is not allowed; allowed: {', '.join(self.schemes)}."
        usual = _DEFAULT_PORTS[scheme]
        ports = {port_of(allowed) or usual for allowed in self.hosts if _matches(host, allowed)}
        if not ports:
            return f"the host {host!r} is not allowed; allowed: {', '.join(self.hosts)}."
        if (port or usual) not in ports:
            return (
                f"port {port} of {host!r} is not allowed; allowed: {', '.join(map(str, sorted(ports)))}. "
                f"If it is meant, name it in EgressPolicy.hosts: '{host}:{port}'."
            )
        return None

    def why_not_addresses(self, addresses: Iterable[str]) -> str | None:
        """Return why a name with these addresses is refused: one address that is not allowed is enough."""
        for address in addresses:
            if not self._may_reach(ip_address(address)):
                return (
                    f"{address} is no globally reachable address. "
                    "If it is meant, name its network in EgressPolicy.networks."
                )
        return None

    def _may_reach(self, address: IPv4Address | IPv6Address) -> bool:
        reached = _where_it_ends(address)
        return any(reached in ip_network(network) for network in self.networks) or is_public(reached)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is one of a public server."""
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    is_special = any(address in network for network in _NOT_FOR_SERVERS)
    return address.is_global and not address.is_multicast and not is_special


def _where_it_ends(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address inside a translated IPv6 one, because a private address may hide there."""
    if isinstance(address, IPv6Address):
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address
    return address


def port_of(host: str) -> int | None:
    """Return the port that is named with a host, if one is."""
    _, _, port = host.partition(":")
    return int(port) if port else None


def _is_port(port: int | None) -> bool:
    return port is None or 0 < port < 2**16


def _matches(host: str, allowed: str) -> bool:
    requested, name = host.lower().rstrip("."), allowed.lower().partition(":")[0]
    if name.startswith("*."):
        return requested.endswith(name[1:]) and len(requested) > len(name) - 1
    return requested == name


def _reject_pattern(host: str) -> None:
    if not _HOST.fullmatch(host) or not _is_port(port_of(host)):
        raise AgentDefinitionError(
            f"EgressPolicy.hosts: {host!r} is no host. Write a name without scheme and path ('api.example.org'), "
            "with its port if it is not the usual one ('api.example.org:8443'), or everything below a name "
            "('*.example.org')."
        )
