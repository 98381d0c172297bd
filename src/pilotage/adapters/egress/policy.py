"""Which hosts and addresses a tool may reach. Pure: no name is looked up here."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses that a translator reaches: the last four bytes are where the request ends up."""


@value
class EgressPolicy:
    """What a guarded client may reach.

    `hosts` are names, exact (`api.example.org`) or with everything below them (`*.example.org`). Addresses of private,
    local and reserved ranges are refused whatever a name says; `networks` names the ones that are meant
    (`10.2.0.0/16`). `schemes` is `https` alone unless told otherwise. `most_bytes` bounds an answer; one
    that comes compressed is refused. `seconds` bounds each wait on the network.
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

    def why_not_host(self, scheme: str, host: str) -> str | None:
        """Why this host may not be asked, or nothing if it may."""
        if scheme not in self.schemes:
            return f"the scheme {scheme!r} is not allowed; allowed: {', '.join(self.schemes)}."
        if not any(_matches(host, pattern) for pattern in self.hosts):
            return f"the host {host!r} is not allowed; allowed: {', '.join(self.hosts)}."
        return None

    def why_not_addresses(self, addresses: Iterable[str]) -> str | None:
        """Why a name with these addresses may not be asked. One bad address is enough: who names it has a plan."""
        for address in addresses:
            if not self._may_reach(ip_address(address)):
                return (
                    f"{address} is an address of a private or reserved range. "
                    "If it is meant, name its network in EgressPolicy.networks."
                )
        return None

    def _may_reach(self, address: IPv4Address | IPv6Address) -> bool:
        reached = _where_it_ends(address)
        if any(reached in ip_network(network) for network in self.networks):
            return True
        return reached.is_global and not reached.is_multicast


def _where_it_ends(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one, where there is one: a private address must not hide in a public range."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


def _matches(host: str, pattern: str) -> bool:
    asked, allowed = host.lower().rstrip("."), pattern.lower()
    if allowed.startswith("*."):
        return asked.endswith(allowed[1:]) and len(asked) > len(allowed) - 1
    return asked == allowed


def _reject_pattern(host: str) -> None:
    name = host.removeprefix("*.")
    if not name or "*" in name or any(character in host for character in "/:@ ") or host != host.strip():
        raise AgentDefinitionError(
            f"EgressPolicy.hosts: {host!r} is no host. Write a name without scheme, port and path "
            "('api.example.org'), or everything below one ('*.example.org')."
        )
