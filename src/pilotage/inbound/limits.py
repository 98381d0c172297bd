"""Limits of what a client may send and hold open, and the check of a body before it is decoded. Pure."""

from __future__ import annotations

import re
from typing import Protocol

from pilotage.checks import reject_not_positive
from pilotage.inbound.problems import BodyTooLargeError, RequestRefusedError
from pilotage.jsonvalue import repeated_key
from pilotage.values import value

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class RequestLimits(Protocol):
    """The limits that all inbound adapters have; the settings of an adapter may have more."""

    @property
    def max_body_bytes(self) -> int:
        """Length of a body."""
        ...

    @property
    def max_body_depth(self) -> int:
        """Nesting of the JSON in a body."""
        ...

    @property
    def max_streams(self) -> int:
        """Open streams of the application in this process."""
        ...

    @property
    def max_streams_per_principal(self) -> int:
        """Open streams of one principal."""
        ...


@value
class InboundLimits:
    """Limits of an adapter without settings of its own.

    `max_body_bytes`, `max_body_depth`     length of a body, and nesting of its JSON
    `max_streams`                          open streams of the application in this process
    `max_streams_per_principal`            ... and of one principal
    """

    max_body_bytes: int = 1_000_000
    max_body_depth: int = 100
    max_streams: int = 1_000
    max_streams_per_principal: int = 100

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_body_bytes=self.max_body_bytes,
            max_body_depth=self.max_body_depth,
            max_streams=self.max_streams,
            max_streams_per_principal=self.max_streams_per_principal,
        )


def check_body(body: bytes, limits: RequestLimits) -> None:
    """Refuse a JSON text that is too long, nested too deep, or has a key twice in one object.

    Raises:
        BodyTooLargeError: it is longer than allowed.
        RequestRefusedError: it is nested too deep, or has a key twice.
    """
    if len(body) > limits.max_body_bytes:
        raise body_too_large(limits.max_body_bytes)
    if is_deeper_than(limits.max_body_depth, body):
        raise RequestRefusedError(f"the body is nested more than {limits.max_body_depth} levels deep.")
    if (repeated := repeated_key(body)) is not None:
        raise RequestRefusedError(f"the body has the key {repeated!r} twice in one object. Send it once.")


def body_too_large(longest: int) -> BodyTooLargeError:
    """Return the error of a body that is longer than allowed."""
    return BodyTooLargeError(f"the body is longer than {longest:,} bytes, which is what this server takes.")


def is_deeper_than(levels: int, body: bytes) -> bool:
    """Return whether a JSON text is nested deeper, without decoding it."""
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > levels:
            return True
    return False
