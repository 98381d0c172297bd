"""What keeps a request out, in the words of this adapter.

CallerError
├── RequestRefusedError
├── BodyTooLargeError
├── OriginRefusedError
├── TooManyStreamsError
├── TooManyOwnStreamsError
├── ServerStoppingError
└── StoreUnreachableError
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import CallerError


class RequestRefusedError(CallerError):
    """The request can be read and cannot be meant: a name that stands for nothing, an input that does not fit."""

    message: ClassVar[str] = "The request does not fit."
    code: ClassVar[str] = "request_refused"


class BodyTooLargeError(CallerError):
    """The body is longer than this process takes."""

    message: ClassVar[str] = "The body is too long."
    code: ClassVar[str] = "body_too_large"


class TooManyStreamsError(CallerError):
    """As many streams are open as this process serves at once."""

    message: ClassVar[str] = "Too many streams are open. Come back in a moment."
    code: ClassVar[str] = "too_many_streams"


class TooManyOwnStreamsError(CallerError):
    """As many streams are open as one principal may have at once."""

    message: ClassVar[str] = "Too many streams of yours are open."
    code: ClassVar[str] = "too_many_own_streams"


class ServerStoppingError(CallerError):
    """The server is about to stop and begins nothing new."""

    message: ClassVar[str] = "The server stops. Come back in a moment."
    code: ClassVar[str] = "server_stopping"


class OriginRefusedError(CallerError):
    """A page of another site asks, and nobody said that it may."""

    message: ClassVar[str] = "Pages of this origin may not connect."
    code: ClassVar[str] = "origin_refused"


class StoreUnreachableError(CallerError):
    """What runs are kept in does not answer; whether something was done is unknown."""

    message: ClassVar[str] = "The store of runs does not answer. Try again in a moment."
    code: ClassVar[str] = "store_unreachable"
