"""The server of `serve`: uvicorn, with a shutdown that ends streams first."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, ClassVar, Self

from pilotage.adapters.http_settings import HttpSettings
from pilotage.container.application import Application
from pilotage.errors import StartupError
from pilotage.inbound.limits import OpenStreams

try:
    import uvicorn
    from fastapi import FastAPI

    from pilotage.adapters.fastapi.request_guard import BoundedConfig
except ImportError as error:
    raise ImportError('serving needs an extra: pip install "pilotage[serve]"') from error


_LOG = logging.getLogger("uvicorn.error")
_WAITING_CONNECTIONS = 2_048


class AddressNotFreeError(StartupError):
    """The server cannot listen where it should, usually since another program does; `host` and `port` say where."""

    message: ClassVar[str] = "The address is not free."
    code: ClassVar[str] = "address_not_free"

    def __init__(self, *args: object, host: str = "", port: int = 0, reason: str = "") -> None:
        super().__init__(*args)
        self.host = host
        self.port = port
        self.reason = reason


def listening(host: str, port: int) -> list[socket.socket]:
    """Return sockets that are bound to the addresses of a host; port 0 takes a free one, the same for all.

    Raises:
        AddressNotFreeError: the host is unknown, or another program listens there.
    """
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    try:
        for family, kind, _, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            wanted = port or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                sockets.append(_bound(family, kind, (address[0], wanted, *address[2:])))
            except OSError as error:
                problem = error
                # A machine may have a name for an address of a family that it does not use.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
        if not sockets:
            raise problem or OSError("the host has no address")
    except OSError as error:
        for each in sockets:
            each.close()
        reason = error.strerror or str(error)
        raise AddressNotFreeError(
            f"cannot listen on {host}:{port}: {reason}. Stop the program that uses the port, or choose another one.",
            host=host,
            port=port,
            reason=reason,
        ) from error
    return sockets


def _bound(family: int, kind: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, kind)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        # From here on no other program may take the port; until the application is started, clients wait.
        made.listen(_WAITING_CONNECTIONS)
    except OSError:
        made.close()
        raise
    return made


def address_of(listener: socket.socket, host: str) -> str:
    """Return the URL of a socket; the host as it was given, since people know it by that."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def guarded_protocol() -> type[asyncio.Protocol]:
    """Return the protocol over httptools where it is installed, as uvicorn chooses; otherwise the one over h11."""
    if find_spec("httptools") is None:
        from pilotage.adapters.fastapi.h11_protocol import GuardedH11  # noqa: PLC0415

        return GuardedH11
    from pilotage.adapters.fastapi.httptools_protocol import GuardedHttpTools  # noqa: PLC0415

    return GuardedHttpTools


class GracefulServer(uvicorn.Server):
    """A server that ends the streams of an application before it waits for its connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        streams: OpenStreams,
        seconds: float,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(config)
        self._streams = streams
        self._seconds = seconds
        self._announce = announce

    @classmethod
    def over(
        cls,
        app: Application,
        api: FastAPI,
        host: str,
        port: int,
        settings: HttpSettings,
        *,
        announce: Callable[[str], object] | None = None,
    ) -> Self:
        """Return a server for an application, with its limits; `announce` gets its URL as soon as it listens."""
        config = BoundedConfig(api, settings, host=host, port=port, protocol=guarded_protocol())
        return cls(config, OpenStreams.of(app), settings.shutdown_seconds, announce)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and serve; announce the URL of sockets, which uvicorn itself does not."""
        await super().startup(sockets)
        if sockets and self.started:
            url = address_of(sockets[0], self.config.host)
            _LOG.info("Uvicorn running on %s (Press CTRL+C to quit)", url)
            if self._announce is not None:
                self._announce(url)

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
