"""HTTP/1.1 of uvicorn over httptools, with a guard on every connection."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from pilotage.adapters.fastapi.request_guard import BoundedConfig, Refusal, RequestGuard


class GuardedHttpTools(HttpToolsProtocol):
    """A connection whose requests httptools reads. Its parser keeps a header of any length until it is complete."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.guard = RequestGuard(
            self, config.limits, config.crowd, forget=lambda: self.connections.discard(self)
        )
        self._has_reported = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.guard.connected(self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.guard.receives():
            return
        self._has_reported = False
        super().data_received(data)
        if not self._has_reported:
            self.guard.unfinished(len(data))

    def on_message_begin(self) -> None:
        self._has_reported = True
        self.guard.begins()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._has_reported = True
        self.guard.url(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._has_reported = True
        self.guard.header(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_reported = True
        self.guard.head_ends()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_reported = True
        self.guard.body()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_reported = True
        self.guard.request_ends()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self.guard.upgraded()

    def send_400_response(self, msg: str) -> None:
        self._has_reported = True
        self.guard.refuse(self.guard.refusal or Refusal(HTTPStatus.BAD_REQUEST, msg))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.guard.response_ends()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.guard.closing()
