"""Asking somebody outside the run who may fail or hang: the run hears an answer, or that there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_SECONDS = 10.0


class NoAnswerError(Exception):
    """Somebody who was asked cannot say; the words are the name of what was raised."""


async def asked(ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """What somebody says who must not keep the run waiting.

    Raises:
        NoAnswerError: nothing, or not in time.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await ask(*args, **kwargs)
    except asyncio.CancelledError as stray:
        if _is_being_cancelled():
            raise
        raise NoAnswerError(type(stray).__name__) from stray
    except Exception as error:
        raise NoAnswerError(type(error).__name__) from error


async def told(tell: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Let somebody know; observing can never fail a run."""
    with suppress(NoAnswerError):
        await asked(tell, *args, **kwargs)


def _is_being_cancelled() -> bool:
    """Whether it is the run that is stopped, and not something that was asked and gave up by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
