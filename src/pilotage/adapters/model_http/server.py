"""Interface of a model's server over HTTP, and what a connection to one is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from pilotage.checks import reject_negative, reject_not_positive
from pilotage.values import value


@value
class ModelTimeouts:
    """Time limits in seconds: for a connection, the first piece of a reply, the next one, the whole."""

    connect: float = 5
    first_token: float = 300
    idle: float = 60
    request: float = 900

    def __post_init__(self) -> None:
        reject_not_positive(
            self, connect=self.connect, first_token=self.first_token, idle=self.idle, request=self.request
        )


@value
class ModelRetries:
    """Number of retries, as long as no event of a reply was yielded, and the pauses before them.

    The pause doubles from `first_pause` on, with jitter. A server that asks for a pause gets it, up to
    `longest_pause`; one that asks for more is not tried again.
    """

    most: int = 2
    first_pause: float = 0.5
    longest_pause: float = 30

    def __post_init__(self) -> None:
        reject_negative(self, most=self.most)
        reject_not_positive(self, first_pause=self.first_pause, longest_pause=self.longest_pause)


@value
class ServerAccess:
    """A connection to a server: the headers of every request, the limits, and the key that errors must not show.

    With `sends_trace`, requests have the headers of the current trace.
    """

    headers: Mapping[str, str] = field(repr=False)
    timeouts: ModelTimeouts
    concurrency: int
    secret: str | None = field(default=None, repr=False)
    sends_trace: bool = False


class CalledModel(Protocol):
    """A model of a server, as its settings name it."""

    @property
    def model(self) -> str: ...
    @property
    def timeouts(self) -> ModelTimeouts: ...


class ServerStream(ABC):
    """The streamed body of a response."""

    @property
    @abstractmethod
    def is_event_stream(self) -> bool:
        """Whether the server streams; some send a whole reply although a stream was requested."""

    @abstractmethod
    async def read(self, within: float) -> bytes:
        """Return the next bytes, empty at the end.

        Raises:
            ModelServerError: nothing came within so many seconds, or the stream broke off.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, which stops the generation."""


class ModelServer(ABC):
    """A server over HTTP. It raises no error but `ModelServerError`."""

    key: str | None = None
    """The key of the application at the server, which no error must show."""

    @abstractmethod
    async def get(self, url: str) -> bytes:
        """Return the body of a page.

        Raises:
            ModelServerError: there is no such page, or no server.
        """

    @abstractmethod
    async def post(self, url: str, body: bytes) -> bytes:
        """Return the whole response to a request.

        Raises:
            ModelServerError: the request failed.
        """

    @abstractmethod
    async def open(self, url: str, body: bytes) -> ServerStream:
        """Return the response to a request as soon as it begins.

        Raises:
            ModelServerError: the request failed.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""
