"""Calls of application ports that may fail or hang: the run gets an answer in time, or none."""

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
    """A port has no answer; the message is the name of what it raised."""


class PortCaller:
    """Calls ports within a time limit."""

    def __init__(self, settings: GateSettings | None = None) -> None:
        self._seconds = PATIENCE_SECONDS if settings is None else settings.patience_seconds

    async def ask(self, port: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the answer of a port.

        Raises:
            NoAnswerError: it raised, or did not answer in time.
        """
        return await _ask(self._seconds, partial(port, *args, **kwargs))

    async def notify(self, port: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a port whose failure changes nothing for the run."""
        with suppress(NoAnswerError):
            await _ask(self._seconds, partial(port, *args, **kwargs))


async def _ask(seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
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
    """Return whether the run is stopped, and not a port that cancelled itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
