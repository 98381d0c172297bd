"""The server of `serve`: uvicorn, with a shutdown that ends streams first."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import Self

from pilotage.adapters.http_settings import HttpSettings
from pilotage.container.application import Application
from pilotage.inbound.open_streams import OpenStreams

try:
    import uvicorn
    from fastapi import FastAPI

    from pilotage.adapters.fastapi.bounded_config import BoundedConfig
except ImportError as error:
    raise ImportError('serving needs an extra: pip install "pilotage[serve]"') from error


def guarded_protocol() -> type[asyncio.Protocol]:
    """Return the protocol over httptools where it is installed, as uvicorn chooses; otherwise the one over h11."""
    if find_spec("httptools") is None:
        from pilotage.adapters.fastapi.h11_protocol import GuardedH11  # noqa: PLC0415

        return GuardedH11
    from pilotage.adapters.fastapi.httptools_protocol import GuardedHttpTools  # noqa: PLC0415

    return GuardedHttpTools


class GracefulServer(uvicorn.Server):
    """A server that ends the streams of an application before it waits for its connections."""

    def __init__(self, config: uvicorn.Config, streams: OpenStreams, seconds: float) -> None:
        super().__init__(config)
        self._streams = streams
        self._seconds = seconds

    @classmethod
    def over(cls, app: Application, api: FastAPI, host: str, port: int, settings: HttpSettings) -> Self:
        """Return a server for an application, with its limits."""
        config = BoundedConfig(api, settings, host=host, port=port, protocol=guarded_protocol())
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
