"""The configuration of uvicorn, and the limits that it has no settings for."""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp

from pilotage.adapters.fastapi.request_guard import Crowd
from pilotage.adapters.http_settings import HttpSettings


class BoundedConfig(uvicorn.Config):
    """Configuration of uvicorn with the limits of our settings."""

    def __init__(
        self, api: ASGIApp, limits: HttpSettings, *, host: str, port: int, protocol: type[asyncio.Protocol]
    ) -> None:
        super().__init__(
            api,
            host=host,
            port=port,
            http=protocol,
            ws_max_size=limits.max_body_bytes,
            timeout_graceful_shutdown=max(1, round(limits.shutdown_seconds)),
            server_header=False,
        )
        self.limits = limits
        self.crowd = Crowd(limits.max_connections)
