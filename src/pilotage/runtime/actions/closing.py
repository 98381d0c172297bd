"""Closing streams that are left early: whoever leaves a stream ends what feeds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable


async def close(stream: AsyncIterator[object] | None) -> None:
    """Close a stream that can be closed; for one that has ended this does nothing."""
    aclose: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()
