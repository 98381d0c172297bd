"""The facts of media that limits are checked against, and the reasons why there are none."""

from __future__ import annotations

from collections.abc import Iterator

from pilotage.values import value

MOST_STEPS = 200_000
"""The most blocks of one file that are looked at: a reader of hostile bytes must come to an end soon."""


@value
class MediaFacts:
    """The type of media by their bytes, and their sizes as far as the type has any."""

    media_type: str
    width: int = 0
    height: int = 0
    frames: int = 1
    seconds: float = 0.0

    @property
    def pixels(self) -> int:
        """The pixels of all frames together: what a decoder would have to hold."""
        return self.width * self.height * self.frames


class BrokenMediaError(Exception):
    """The bytes begin as media of a type, and are not whole."""


class UnknownMediaError(Exception):
    """The bytes are of a type that cannot be measured here, or of none that is known."""


def steps() -> Iterator[int]:
    """Count the blocks of a file.

    Raises:
        BrokenMediaError: there are more of them than are looked at.
    """
    yield from range(MOST_STEPS)
    raise BrokenMediaError(f"it has more than {MOST_STEPS:,} blocks")


def piece(content: bytes, begin: int, length: int, what: str) -> bytes:
    """Return a piece of bytes.

    Raises:
        BrokenMediaError: they end before it does.
    """
    found = content[begin : begin + length]
    if length < 0 or len(found) != length:
        raise BrokenMediaError(f"it ends within {what}")
    return found
