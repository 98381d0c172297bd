"""What keeps a request out, besides what all adapters refuse that answer over HTTP (`pilotage.adapters.asgi`).

CallerError
├── RequestRefusedError
├── TooManyOwnStreamsError
└── StoreUnreachableError
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import CallerError


class RequestRefusedError(CallerError):
    """The request can be read and cannot be meant: a name that stands for nothing, an input that does not fit."""

    message: ClassVar[str] = "The request does not fit."
    code: ClassVar[str] = "request_refused"


class TooManyOwnStreamsError(CallerError):
    """As many streams are open as one principal may have at once."""

    message: ClassVar[str] = "Too many streams of yours are open."
    code: ClassVar[str] = "too_many_own_streams"


class StoreUnreachableError(CallerError):
    """What runs are kept in does not answer; whether something was done is unknown."""

    message: ClassVar[str] = "The store of runs does not answer. Try again in a moment."
    code: ClassVar[str] = "store_unreachable"
