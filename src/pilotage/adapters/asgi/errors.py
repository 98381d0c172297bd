"""Errors of the HTTP layer: why a request, a stream or a WebSocket is refused.

CallerError
├── OriginRefusedError
├── RequestRefusedError
├── BodyTooLargeError
├── TooManyStreamsError
├── TooManyOwnStreamsError
├── ServerStoppingError
└── RunStoreUnreachableError
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import CallerError


class OriginRefusedError(CallerError):
    """A page of an origin that is not allowed sends the request."""

    message: ClassVar[str] = "Pages of this origin may not connect."
    code: ClassVar[str] = "origin_refused"


class RequestRefusedError(CallerError):
    """The request can be read but is invalid: an unknown name, an input that does not fit."""

    message: ClassVar[str] = "The request does not fit."
    code: ClassVar[str] = "request_refused"


class BodyTooLargeError(CallerError):
    """The body is longer than this server accepts."""

    message: ClassVar[str] = "The body is too long."
    code: ClassVar[str] = "body_too_large"


class TooManyStreamsError(CallerError):
    """The application has as many open streams as it may have."""

    message: ClassVar[str] = "Too many streams are open. Come back in a moment."
    code: ClassVar[str] = "too_many_streams"


class TooManyOwnStreamsError(CallerError):
    """The principal has as many open streams as one principal may have."""

    message: ClassVar[str] = "Too many streams of yours are open."
    code: ClassVar[str] = "too_many_own_streams"


class ServerStoppingError(CallerError):
    """The server shuts down and opens no streams."""

    message: ClassVar[str] = "The server stops. Come back in a moment."
    code: ClassVar[str] = "server_stopping"


class RunStoreUnreachableError(CallerError):
    """The store of runs does not answer; whether something was written is unknown."""

    message: ClassVar[str] = "The store of runs does not answer. Try again in a moment."
    code: ClassVar[str] = "store_unreachable"
