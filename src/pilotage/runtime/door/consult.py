"""Asking somebody outside the run who may fail or hang: the run hears an answer, or that there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from pilotage.checks import reject_not_positive
from pilotage.values import value

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_SECONDS = 10.0


@value
class GateSettings:
    """How long a run waits for a permission check, a hook, a budget or a handler before it counts as failed."""

    patience_seconds: float = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        reject_not_positive(self, patience_seconds=self.patience_seconds)


class NoAnswerError(Exception):
    """Somebody who was asked cannot say; the words are the name of what was raised."""


class Asker:
    """Asks and tells, and waits no longer than it has patience."""

    def __init__(self, settings: GateSettings | None = None) -> None:
        self._seconds = PATIENCE_SECONDS if settings is None else settings.patience_seconds

    async def asked(self, ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """What somebody says who must not keep the run waiting.

        Raises:
            NoAnswerError: nothing, or not in time.
        """
        return await _asked(self._seconds, partial(ask, *args, **kwargs))

    async def told(self, tell: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Let somebody know; observing can never fail a run."""
        with suppress(NoAnswerError):
            await _asked(self._seconds, partial(tell, *args, **kwargs))


async def asked(ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """What somebody says who must not keep the run waiting, by the patience that everybody has.

    Raises:
        NoAnswerError: nothing, or not in time.
    """
    return await _asked(PATIENCE_SECONDS, partial(ask, *args, **kwargs))


async def _asked(seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await ask()
    except asyncio.CancelledError as stray:
        if _is_being_cancelled():
            raise
        raise NoAnswerError(type(stray).__name__) from stray
    except Exception as error:
        raise NoAnswerError(type(error).__name__) from error


def _is_being_cancelled() -> bool:
    """Whether it is the run that is stopped, and not something that was asked and gave up by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
