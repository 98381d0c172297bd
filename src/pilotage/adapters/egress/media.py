"""`EgressMedia`: media at addresses, fetched by the guarded client."""

from __future__ import annotations

import asyncio

import httpx

from pilotage.adapters.egress.client import EgressAnswerRefused, EgressRefused, shown
from pilotage.agent.ports.blobs import IMediaSource
from pilotage.checks import reject_not_positive
from pilotage.errors import MediaRefusedError, MediaTooLargeError


class EgressMedia(IMediaSource):
    """Fetches media with a client of `egress_client`, which decides about hosts, addresses and redirects.

    Give it to the application as a pod: `app.add(EgressMedia(egress_client(EgressPolicy(hosts=["..."]))))`. Who adds it
    closes the client.
    """

    def __init__(self, client: httpx.AsyncClient, *, seconds: float = 60) -> None:
        reject_not_positive(self, seconds=seconds)
        self._client, self._seconds = client, seconds

    async def fetch(self, url: str, most_bytes: int) -> bytes:
        try:
            place = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise MediaRefusedError("the address of media is no URL.") from error
        try:
            async with asyncio.timeout(self._seconds):
                return await self._fetched(place, most_bytes)
        except (EgressRefused, EgressAnswerRefused) as error:
            raise MediaRefusedError(str(error)) from error
        except (httpx.HTTPError, TimeoutError) as error:
            reason = type(error).__name__
            raise MediaRefusedError(f"the media at {shown(place)!r} cannot be fetched: {reason}.") from error

    async def _fetched(self, place: httpx.URL, most_bytes: int) -> bytes:
        content = bytearray()
        async with self._client.stream("GET", place) as answer:
            if answer.status_code != 200:
                raise MediaRefusedError(
                    f"there are no media at {shown(place)!r}: its server answers with status {answer.status_code}."
                )
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > most_bytes:
                    raise MediaTooLargeError(
                        f"the media at {shown(place)!r} have more than the {most_bytes:,} bytes that are allowed."
                    )
        return bytes(content)
