"""The client that tools use."""

from __future__ import annotations

import httpx

from pilotage.adapters.egress.errors import EgressAnswerRefused
from pilotage.adapters.egress.policy import EgressPolicy
from pilotage.adapters.egress.transport import (
    GuardedTransport,
    Resolver,
    shown,
    system_addresses,
)


def egress_client(policy: EgressPolicy, *, resolve: Resolver = system_addresses) -> httpx.AsyncClient:
    """An `httpx.AsyncClient` that reaches what the policy allows: give it to tools as a pod, close it with `aclose()`.

    Redirects are followed on the same host and never from https to http. The environment's proxies and credentials
    are not used: they would lead around the checks.
    """
    return httpx.AsyncClient(
        transport=GuardedTransport(policy, resolve, _pool),
        follow_redirects=True,
        max_redirects=policy.most_redirects,
        timeout=httpx.Timeout(policy.seconds),
        trust_env=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_refuse_other_hosts]},
    )


def _pool() -> httpx.AsyncBaseTransport:
    return httpx.AsyncHTTPTransport(trust_env=False)


async def _refuse_other_hosts(answer: httpx.Response) -> None:
    if not answer.has_redirect_location:
        return
    asked = answer.request.url
    there = asked.join(answer.headers["location"])
    if (there.scheme, there.host, there.port) != (asked.scheme, asked.host, asked.port):
        await answer.aclose()
        raise EgressAnswerRefused(shown(asked), f"it leads to another host, {there.host!r}.")
