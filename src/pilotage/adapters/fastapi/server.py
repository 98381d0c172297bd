"""The server of `serve`: uvicorn, with a shutdown that ends streams first."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Self

from pilotage.adapters.asgi.open_streams import OpenStreams
from pilotage.adapters.http_settings import HttpSettings
from pilotage.container.application import Application

try:
    import uvicorn
    from fastapi import FastAPI
except ImportError as error:
    raise ImportError('serving needs an extra: pip install "pilotage[serve]"') from error


class GracefulServer(uvicorn.Server):
    """Ends the streams of an application before it waits for its connections, which would last for ever."""

    def __init__(self, config: uvicorn.Config, streams: OpenStreams, seconds: float) -> None:
        super().__init__(config)
        self._streams = streams
        self._seconds = seconds

    @classmethod
    def over(cls, app: Application, api: FastAPI, host: str, port: int, settings: HttpSettings) -> Self:
        """Return a server for an application, with its limits."""
        config = uvicorn.Config(
            api,
            host=host,
            port=port,
            ws_max_size=settings.max_body_bytes,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
            server_header=False,
        )
        return cls(config, OpenStreams.of(app), settings.shutdown_seconds)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal stops it; Ctrl-C is such a signal."""
        with suppress(KeyboardInterrupt):
            super().run(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, end the streams, then everything else."""
        for server in self.servers:
            server.close()
        self._streams.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._streams.empty(), self._seconds)
        await super().shutdown(sockets)
