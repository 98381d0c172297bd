"""How long to pause before a server that went away is asked again. Pure."""

from __future__ import annotations

from collections.abc import Iterator

_FIRST, _LONGEST = 0.02, 1.0


def pauses() -> Iterator[float]:
    """Seconds, without end: none at first, for most of the time only this one line was cut; then longer and longer."""
    yield 0.0
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)
