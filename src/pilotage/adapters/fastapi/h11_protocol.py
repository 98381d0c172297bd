"""HTTP/1.1 of uvicorn over h11, with a guard on every connection."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pilotage.adapters.fastapi.request_guard import BoundedConfig, Refusal, RequestGuard


class _GuardedParser(h11.Connection):
    """Parser that reports to a guard."""

    def __init__(self, guard: RequestGuard, config: BoundedConfig) -> None:
        super().__init__(h11.SERVER, config.limits.max_header_bytes + config.limits.max_url_bytes)
        self._guard = guard

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        try:
            event = super().next_event()
            self._report(event)
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                self._guard.overflows()
            raise
        except Refusal as refusal:
            raise h11.RemoteProtocolError(str(refusal), refusal.status) from refusal
        return event

    def _report(self, event: type[h11.NEED_DATA | h11.PAUSED] | h11.Event) -> None:
        match event:
            case h11.Request():
                self._guard.begins()
                self._guard.url(len(event.target))
                self._count(event)
                self._guard.head_ends()
            case h11.EndOfMessage():
                self._count(event)
                self._guard.request_ends()
            case _:
                pass

    def _count(self, event: h11.Request | h11.EndOfMessage) -> None:
        for name, text in event.headers:
            self._guard.header(len(name) + len(text))


class GuardedH11(H11Protocol):
    """A connection whose requests h11 reads."""

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
        self.conn = _GuardedParser(self.guard, config)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.guard.connected(self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.guard.receives():
            super().data_received(data)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        self.guard.upgraded()

    def send_400_response(self, msg: str) -> None:
        self.guard.refuse(self.guard.refusal or Refusal(HTTPStatus.BAD_REQUEST, msg))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.guard.response_ends()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.guard.closing()
