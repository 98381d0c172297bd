"""Answers that come drop by drop, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import httpx
from tests.adapters.openai.byte_server import Told, told
from tests.adapters.openai.virtual_loop import run_virtually

from pilotage.adapters.model_http.http_server import HttpServer
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings
from pilotage.testing import VirtualClock


class Drips(httpx.AsyncByteStream):
    """Pieces, each with the seconds that pass before it."""

    def __init__(self, drips: Sequence[tuple[float, bytes]]) -> None:
        self._drips = drips
        self.given = 0
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for seconds, piece in self._drips:
            await asyncio.sleep(seconds)
            self.given += 1
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


class DrippingTransport(httpx.AsyncBaseTransport):
    """Answers with drips, after so many seconds."""

    def __init__(self, drips: Sequence[tuple[float, bytes]], before: float = 0) -> None:
        self.stream = Drips(drips)
        self._before = before

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(self._before)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=self.stream)


def told_by_drips(settings: OpenAICompatibleSettings, transport: DrippingTransport) -> Told:
    """What comes of an answer that drips."""
    model = OpenAICompatibleModel(settings, server=HttpServer(settings.access, VirtualClock(), transport))
    return run_virtually(told(model))
