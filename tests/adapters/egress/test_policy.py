"""Which hosts and addresses are allowed: tables."""

from __future__ import annotations

import pytest

from pilotage.adapters.egress import EgressPolicy
from pilotage.errors import AgentDefinitionError

POLICY = EgressPolicy(("api.example.org", "*.parts.example"), networks=("10.2.0.0/16",))


@pytest.mark.parametrize(
    "host", ["api.example.org", "API.Example.org", "api.example.org.", "a.parts.example", "a.b.parts.example"]
)
def test_a_named_host_may_be_asked(host: str) -> None:
    assert POLICY.why_not_host("https", host) is None


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "evil-api.example.org",
        "api.example.org.evil.net",
        "parts.example",
        "evilparts.example",
        "",
        ".",
    ],
)
def test_any_other_host_may_not(host: str) -> None:
    assert POLICY.why_not_host("https", host) == (
        f"the host {host!r} is not allowed; allowed: api.example.org, *.parts.example."
    )


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("api.example.org", None),
        ("api.example.org", 443),
        ("api.example.org", 8443),
        ("a.below.example", 9000),
    ],
)
def test_a_host_is_reached_at_the_usual_port_and_those_named_with_it(host: str, port: int | None) -> None:
    policy = EgressPolicy(("api.example.org", "api.example.org:8443", "*.below.example:9000"))
    assert policy.why_not_host("https", host, port) is None


@pytest.mark.parametrize(
    ("host", "port"),
    [("api.example.org", 22), ("api.example.org", 80), ("a.below.example", None), ("a.below.example", 443)],
)
def test_other_ports_of_an_allowed_host_are_refused(host: str, port: int | None) -> None:
    policy = EgressPolicy(("api.example.org", "api.example.org:8443", "*.below.example:9000"))
    assert "is not allowed; allowed: " in (policy.why_not_host("https", host, port) or "")


def test_plain_http_is_refused_unless_named() -> None:
    assert (
        POLICY.why_not_host("http", "api.example.org") == "the scheme 'http' is not allowed; allowed: https."
    )
    assert (
        EgressPolicy(("api.example.org",), schemes=("http",)).why_not_host("http", "api.example.org") is None
    )


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "224.0.0.1", "255.255.255.255",
        "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "192.88.99.1", "240.0.0.1",
        "::1", "::", "fe80::1", "fec0::1", "fd00::1", "ff02::1", "ff0e::1", "100::1", "5f00::1", "4000::1", "9000::1", "3fff::1",
        "2001:db8::1", "2001:2::1", "2001:10::1", "2001:20::1", "2002:808:808::1", "2001:0:808:808::1",
        "::ffff:127.0.0.1", "::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "2002:7f00:1::",
    ],
)  # fmt: skip
def test_only_public_addresses_are_reached_however_they_are_written(address: str) -> None:
    assert (POLICY.why_not_addresses([address]) or "").startswith(
        f"{address} is no globally reachable address"
    )


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "10.2.3.4", "64:ff9b::808:808"]
)
def test_public_addresses_and_named_networks_are_reached(address: str) -> None:
    assert POLICY.why_not_addresses([address]) is None


def test_one_bad_address_among_good_ones_is_enough() -> None:
    assert POLICY.why_not_addresses(["8.8.8.8", "127.0.0.1"])


@pytest.mark.parametrize(
    "host",
    [
        "https://api.example.org",
        "api.example.org:",
        "api.example.org:0",
        "api.example.org:70000",
        "a.org:b",
        "a:1:2",
        "[::1]",
        "a*.example.org",
        "*",
        "*.",
        "",
        " a.org",
        "u@a.org",
    ],
)
def test_what_is_no_host_is_refused_where_it_is_written(host: str) -> None:
    with pytest.raises(AgentDefinitionError, match="is no host. Write a name without scheme"):
        EgressPolicy((host,))


def test_other_mistakes_in_a_policy_name_the_field() -> None:
    with pytest.raises(AgentDefinitionError, match="hosts is empty"):
        EgressPolicy(())
    with pytest.raises(AgentDefinitionError, match="networks: '10.2' is no network"):
        EgressPolicy(("a.org",), networks=("10.2",))
    with pytest.raises(AgentDefinitionError, match="schemes: \\['ftp'\\] cannot be spoken"):
        EgressPolicy(("a.org",), schemes=("ftp",))
    with pytest.raises(AgentDefinitionError, match="EgressPolicy.most_bytes is 0"):
        EgressPolicy(("a.org",), most_bytes=0)
