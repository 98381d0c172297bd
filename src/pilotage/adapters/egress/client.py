"""HTTP client for tools: it sends requests to checked addresses, and limits the size of responses.

Refusals have two classes. A request that was not sent has had no effect, so `EgressRefused` is a `ToolError`; after
`EgressAnswerRefused` the server may have acted: the outcome of a call that may not be repeated is unknown.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import ClassVar, cast

import httpx

from pilotage.adapters.egress.policy import EgressPolicy
from pilotage.errors import RunError, ToolError

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host."""


class EgressRefused(ToolError):  # noqa: N818 - a refusal, as its users say
    """A request was not sent: its host, address or scheme is not allowed."""

    message: ClassVar[str] = "The request was not sent."
    code: ClassVar[str] = "egress_refused"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"The request to {url!r} was not sent: {why}")
        self.url, self.why = url, why


class EgressAnswerRefused(RunError):  # noqa: N818 - a refusal, as its users say
    """A request was sent, and its response is refused: a redirect to another host, or larger than allowed."""

    message: ClassVar[str] = "The answer was not taken."
    code: ClassVar[str] = "egress_answer_refused"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"The answer of {url!r} was not taken: {why}")
        self.url, self.why = url, why


async def system_addresses(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def egress_client(policy: EgressPolicy, *, resolve: Resolver = system_addresses) -> httpx.AsyncClient:
    """Return an `httpx.AsyncClient` limited by the policy: give it to tools as a pod, close it with `aclose()`.

    Redirects are followed on the same host and never from https to http. The environment's proxies and credentials
    are not used: they would bypass the checks.
    """
    return httpx.AsyncClient(
        transport=guarded_transport(policy, resolve=resolve),
        follow_redirects=True,
        max_redirects=policy.most_redirects,
        timeout=httpx.Timeout(policy.seconds),
        trust_env=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_refuse_other_hosts]},
    )


def guarded_transport(policy: EgressPolicy, *, resolve: Resolver = system_addresses) -> GuardedTransport:
    """Return the transport of `egress_client` by itself, for a client that follows no redirects by itself."""
    return GuardedTransport(policy, resolve, _pool)


def _pool() -> httpx.AsyncBaseTransport:
    return httpx.AsyncHTTPTransport(trust_env=False)


async def _refuse_other_hosts(answer: httpx.Response) -> None:
    if not answer.has_redirect_location:
        return
    requested = answer.request.url
    there = requested.join(answer.headers["location"])
    if (there.scheme, there.host, there.port) != (requested.scheme, requested.host, requested.port):
        await answer.aclose()
        raise EgressAnswerRefused(shown(requested), f"it leads to another host, {there.host!r}.")


class GuardedTransport(httpx.AsyncBaseTransport):
    """Transport that resolves a name once, checks all of its addresses, and connects to one of *those*.

    A second resolution for the connection could give other addresses (DNS rebinding). There is a pool for each host,
    because a pool identifies connections by address, and two names at one address are two servers.
    """

    def __init__(
        self, policy: EgressPolicy, resolve: Resolver, pool: Callable[[], httpx.AsyncBaseTransport]
    ) -> None:
        self._policy, self._resolve, self._pool = policy, resolve, pool
        self._pools: dict[str, httpx.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if why := self._policy.why_not_host(url.scheme, url.host, url.port):
            raise EgressRefused(shown(url), why)
        answer = await self._sent(request, await self._checked_addresses(url))
        if answer.headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            raise EgressAnswerRefused(shown(url), "it is compressed: a few bytes could unpack to millions.")
        stream = cast(httpx.AsyncByteStream, answer.stream)
        answer.stream = _Counted(stream, self._policy.most_bytes, shown(url))
        return answer

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    async def _sent(self, request: httpx.Request, addresses: Sequence[str]) -> httpx.Response:
        """Try the addresses in order: a request is sent only over an open connection, so only one of them gets it."""
        pool = self._pool_of(request.url.host)
        for address in addresses[:-1]:
            try:
                return await pool.handle_async_request(_sent_to(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await pool.handle_async_request(_sent_to(addresses[-1], request))

    async def _checked_addresses(self, url: httpx.URL) -> Sequence[str]:
        try:
            addresses = await self._resolve(url.host, url.port or (443 if url.scheme == "https" else 80))
        except OSError as error:
            raise EgressRefused(shown(url), f"the name {url.host!r} has no address ({error}).") from error
        if not addresses:
            raise EgressRefused(shown(url), f"the name {url.host!r} has no address.")
        if why := self._policy.why_not_addresses(addresses):
            raise EgressRefused(shown(url), f"{url.host!r}: {why}")
        return addresses

    def _pool_of(self, host: str) -> httpx.AsyncBaseTransport:
        if host not in self._pools:
            self._pools[host] = self._pool()
        return self._pools[host]


class _Counted(httpx.AsyncByteStream):
    """A stream that is refused when it is longer than allowed."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int, url: str) -> None:
        self._stream, self._most, self._url = stream, most, url

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > self._most:
                raise EgressAnswerRefused(
                    self._url, f"it is larger than {self._most} bytes (EgressPolicy.most_bytes)."
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _sent_to(address: str, request: httpx.Request) -> httpx.Request:
    """Return the same request with the checked address as its destination; `Host` and TLS still use the name."""
    host = f"[{address}]" if ip_address(address).version == 6 else address
    extensions = {**request.extensions, "sni_hostname": request.url.host}
    return httpx.Request(
        request.method,
        request.url.copy_with(host=host),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )


def shown(url: httpx.URL) -> str:
    """Return a URL as errors name it: without user, query and fragment, which may carry secrets."""
    return f"{url.scheme}://{url.netloc.decode().rpartition('@')[2]}{url.path}"
