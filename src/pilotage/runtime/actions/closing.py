"""Closing streams that are left early: whoever leaves a stream ends what feeds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from types import AsyncGeneratorType
from typing import cast


async def close(stream: AsyncIterator[object] | None) -> None:
    """Close a stream that can be closed; for one that has ended this does nothing."""
    # Nearly all are plain generators, and asking an abstract class takes longer than closing one.
    if type(stream) is AsyncGeneratorType or isinstance(stream, AsyncGenerator):
        await cast("AsyncGenerator[object, None]", stream).aclose()
