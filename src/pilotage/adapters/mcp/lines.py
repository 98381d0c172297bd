"""What a connection is made over: a process, an address, or what a test or an application hands in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from pilotage.adapters.mcp.http import GuardedHttp, policy_for
from pilotage.adapters.mcp.settings import McpServerSettings
from pilotage.adapters.mcp.stdio import StdioTransport
from pilotage.values import value


async def _nothing() -> str:
    return "the connection was closed"


@value
class McpLine:
    """The transport of one connection; `marks_writes` if it notes whether a request was written."""

    transport: Any
    marks_writes: bool = True
    words_of_end: Callable[[], Awaitable[str]] = _nothing


OpenLine = Callable[[McpServerSettings, str | None, Callable[[str], None]], McpLine]
"""Opens a line with a token; the function is called with the reason when the line has ended."""


def open_line(
    settings: McpServerSettings,
    token: str | None,
    on_end: Callable[[str], None],
    *,
    auth: httpx2.Auth | None = None,
) -> McpLine:
    """Return the line to a server."""
    limits = settings.limits
    if settings.url is not None:
        return McpLine(_over_http(settings, settings.url, token, auth))
    transport = StdioTransport(
        settings.name,
        settings.command,
        environment=settings.environment,
        folder=settings.folder,
        most_bytes=limits.most_bytes,
        stop_seconds=limits.stop_seconds,
        on_end=on_end,
    )
    return McpLine(transport, words_of_end=transport.words_of_end)


@asynccontextmanager
async def _over_http(
    settings: McpServerSettings, url: str, token: str | None, auth: httpx2.Auth | None
) -> AsyncGenerator[Any]:
    limits = settings.limits
    policy = settings.egress or policy_for(settings.name, url, limits.most_bytes)
    headers = dict(settings.headers)
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    client = httpx2.AsyncClient(
        transport=GuardedHttp(policy, limits.call_seconds),
        headers=headers,
        auth=auth,
        timeout=None,
        trust_env=False,
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=limits.most_bytes) as streams,
    ):
        yield streams
