"""What a connection is made over: a process, an address, or what a test or an application hands in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from pilotage.adapters.mcp.http import GuardedHttp, policy_for
from pilotage.adapters.mcp.settings import McpServerSettings
from pilotage.adapters.mcp.stdio import StdioTransport
from pilotage.safety.fields import SecretRef
from pilotage.values import value


async def _nothing() -> str:
    return "the connection was closed"


@value
class McpLine:
    """The transport of one connection; `marks_writes` if it notes whether a request was written."""

    transport: Any
    marks_writes: bool = True
    words_of_end: Callable[[], Awaitable[str]] = _nothing


def open_line(
    settings: McpServerSettings,
    on_end: Callable[[str], None],
    *,
    auth: httpx2.Auth | None = None,
) -> McpLine:
    """Return the line to a server, whose settings have secrets in place of their references."""
    limits = settings.limits
    if settings.url is not None:
        return McpLine(_over_http(settings, settings.url, auth))
    transport = StdioTransport(
        settings.name,
        settings.command,
        environment=_texts(settings.environment),
        folder=settings.folder,
        most_bytes=limits.most_bytes,
        stop_seconds=limits.stop_seconds,
        on_end=on_end,
    )
    return McpLine(transport, words_of_end=transport.words_of_end)


@asynccontextmanager
async def _over_http(settings: McpServerSettings, url: str, auth: httpx2.Auth | None) -> AsyncGenerator[Any]:
    limits = settings.limits
    policy = settings.egress or policy_for(settings.name, url, limits.most_bytes)
    headers = _texts(settings.headers)
    if isinstance(settings.token, str):
        headers["authorization"] = f"Bearer {settings.token}"
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


def _texts(given: Mapping[str, SecretRef | str]) -> dict[str, str]:
    return {name: each for name, each in given.items() if isinstance(each, str)}
