"""What the adapter needs of a connection to a server; `http_server` has it, tests have their own."""

from __future__ import annotations

from abc import ABC, abstractmethod


class ServerStream(ABC):
    """The body of an answer as it comes."""

    @property
    @abstractmethod
    def is_event_stream(self) -> bool:
        """Whether the server streams; some send a whole reply although they were asked for a stream."""

    @abstractmethod
    async def read(self, within: float) -> bytes:
        """The next bytes, empty at the end.

        Raises:
            ModelServerError: nothing came within so many seconds, or the stream broke off.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of the answer; one that is not at its end stops being generated."""


class ModelServer(ABC):
    """A server that is asked over HTTP. No error but `ModelServerError` leaves it."""

    @abstractmethod
    async def get(self, url: str) -> bytes:
        """The body of a page.

        Raises:
            ModelServerError: there is no such page, or no server.
        """

    @abstractmethod
    async def post(self, url: str, body: bytes) -> bytes:
        """The whole answer to a request.

        Raises:
            ModelServerError: it cannot be had.
        """

    @abstractmethod
    async def open(self, url: str, body: bytes) -> ServerStream:
        """The answer to a request, of which only the beginning is there.

        Raises:
            ModelServerError: it cannot be had.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of all connections."""
