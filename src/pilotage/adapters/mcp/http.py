"""Transport to a server over HTTP: every request goes through the guarded client, and every failure has a code.

A failed request is answered with an error of JSON-RPC that says whether it was sent: one request that fails does not
end those beside it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import cast

import httpx
import httpx2

from pilotage.adapters.egress import (
    EgressAnswerRefused,
    EgressPolicy,
    EgressRefused,
    guarded_transport,
)
from pilotage.adapters.mcp.errors import (
    LINE_BROKEN,
    NOT_SENT,
    SESSION_GONE,
    STATUS_REFUSED,
    McpStartError,
    sending,
)

_SESSION = "mcp-session-id"
_DROPPED = frozenset({"content-length", "content-encoding", "transfer-encoding"})
_CONNECT_SECONDS = 30.0
_LOOPBACK = ("127.0.0.0/8", "::1/128")
_REMEDIES: Mapping[int, str] = {
    401: "It wants other credentials: correct token=... or auth=..., or its token has expired.",
    403: "The credentials do not suffice.",
    404: "Correct url=....",
    429: "It has had too many requests.",
}


def policy_for(server: str, url: str, most_bytes: int) -> EgressPolicy:
    """Return the policy of a server that declares none: its own host, over https, at public addresses.

    A loopback name or an address in the URL is meant as it stands: there plain http is spoken too.

    Raises:
        McpStartError: this is no URL of a server.
    """
    place = httpx.URL(url)
    if place.scheme not in {"http", "https"} or not place.host:
        raise McpStartError(server, f"{url!r} is no address. Write url='https://host/path'.")
    host = place.host if place.port is None else f"{place.host}:{place.port}"
    networks = _networks_of(place.host)
    if place.scheme == "http" and not networks:
        raise McpStartError(
            server,
            f"{url!r} is not encrypted. Write https, or declare egress=EgressPolicy(schemes=('http',)).",
        )
    return EgressPolicy((host,), networks, (place.scheme,), most_bytes)


def _networks_of(host: str) -> tuple[str, ...]:
    if host.lower() == "localhost":
        return _LOOPBACK
    try:
        return (f"{ip_address(host)}",)
    except ValueError:
        return ()


class GuardedHttp(httpx2.AsyncBaseTransport):
    """The guarded client as the transport of the SDK's client. `read_seconds` bounds the wait for more of an answer."""

    def __init__(self, policy: EgressPolicy, read_seconds: float) -> None:
        self._guarded = guarded_transport(policy)
        self._timeouts = httpx.Timeout(_CONNECT_SECONDS, read=read_seconds).as_dict()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        asked = httpx.Request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            content=content,
            extensions={"timeout": self._timeouts},
        )
        if (under_way := sending.get()) is not None and request.method == "POST":
            under_way.has_begun = True
        try:
            answer = await self._guarded.handle_async_request(asked)
        except (EgressRefused, httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return _failed(request, NOT_SENT, str(error) or type(error).__name__, error)
        except (EgressAnswerRefused, httpx.HTTPError) as error:
            return _failed(request, LINE_BROKEN, str(error) or type(error).__name__, error)
        return await _taken(request, answer)

    async def aclose(self) -> None:
        await self._guarded.aclose()


async def _taken(request: httpx2.Request, answer: httpx.Response) -> httpx2.Response:
    """Return an answer: a stream as it comes, everything else whole, a refusal as an error of JSON-RPC."""
    headers = [(name, each) for name, each in answer.headers.multi_items() if name.lower() not in _DROPPED]
    is_stream = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
    if answer.status_code < HTTPStatus.MULTIPLE_CHOICES and is_stream:
        return httpx2.Response(answer.status_code, headers=headers, stream=_Stream(answer), request=request)
    try:
        body = await answer.aread()
    except (EgressAnswerRefused, httpx.HTTPError) as error:
        return _failed(request, LINE_BROKEN, str(error) or type(error).__name__, error)
    finally:
        await answer.aclose()
    status = answer.status_code
    is_for_protocol = request.method == "POST" and _speaks_json_rpc(request)
    if (
        is_for_protocol
        and answer.has_redirect_location
        and (there := _elsewhere(request, answer)) is not None
    ):
        why = f"it redirects to {there}. If that is the server, use this address as url=..."
        return _error(request, HTTPStatus.BAD_GATEWAY, STATUS_REFUSED, why, [])
    if status >= HTTPStatus.BAD_REQUEST and is_for_protocol and not _is_error(body):
        headers = [(name, each) for name, each in headers if name.lower() != "content-type"]
        code, why = _refusal(request, status)
        return _error(request, status, code, why, headers)
    return httpx2.Response(status, headers=headers, content=body, request=request)


def _elsewhere(request: httpx2.Request, answer: httpx.Response) -> str | None:
    """Return the address that a redirect leads to, unless the request may be sent there: the same host and method."""
    sent = httpx.URL(str(request.url))
    there = sent.join(answer.headers["location"])
    is_same = (there.scheme, there.host, there.port) == (sent.scheme, sent.host, sent.port)
    keeps_method = answer.status_code in {HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT}
    return None if is_same and keeps_method else f"{there.scheme}://{there.host}{there.path}"


class _Stream(httpx2.AsyncByteStream):
    """The stream of an answer, with the errors that the SDK knows."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in cast(httpx.AsyncByteStream, self._answer.stream):
                yield piece
        except (EgressAnswerRefused, httpx.HTTPError) as error:
            raise httpx2.ReadError(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        await self._answer.aclose()


def _speaks_json_rpc(request: httpx2.Request) -> bool:
    """Return whether a request is one of the protocol, and not one for a token."""
    return request.headers.get("content-type", "").lower().startswith("application/json")


def _is_error(body: bytes) -> bool:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "error" in found and "jsonrpc" in found


def _refusal(request: httpx2.Request, status: int) -> tuple[int, str]:
    """Return code and words of a status: one that says the server failed leaves the outcome unknown."""
    words = f"its server answers with status {status}. {_REMEDIES.get(status, '')}".strip()
    if status == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
        return SESSION_GONE, "its server does not know the session any more."
    is_refused = status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.REQUEST_TIMEOUT
    return (STATUS_REFUSED if is_refused else LINE_BROKEN), words


def _failed(request: httpx2.Request, code: int, why: str, error: Exception) -> httpx2.Response:
    if request.method == "POST" and _speaks_json_rpc(request):
        return _error(request, HTTPStatus.BAD_GATEWAY, code, why, [])
    raise httpx2.ConnectError(why) from error


def _error(
    request: httpx2.Request, status: int, code: int, why: str, headers: list[tuple[str, str]]
) -> httpx2.Response:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}})
    all_headers = [*headers, ("content-type", "application/json")]
    return httpx2.Response(status, headers=all_headers, content=body.encode(), request=request)
