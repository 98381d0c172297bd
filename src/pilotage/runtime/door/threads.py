"""Sync tools run in threads, and a thread cannot be stopped: whoever gives up on one leaves it behind, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from weakref import WeakKeyDictionary

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.tools.active import active_tool_calls
from pilotage.values import value


@value
class _Working:
    """A thread at work for a run."""

    run: object
    tool: str
    end: asyncio.Future[object]


class Threads:
    """The threads that work for one run, by the idempotency key of their call.

    A thread outlives the attempt that gave up on it, and the next attempt at the run finds it here.
    """

    def __init__(self, run: RunKey | None = None) -> None:
        self._run: object = run or object()

    @property
    def alive(self) -> tuple[str, ...]:
        """The names of the tools whose threads have not come to an end."""
        return tuple(each.tool for each in _at_work().values() if each.run == self._run)

    async def run(
        self,
        key: str,
        name: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        """Call a function in a thread; behind an earlier one with this key that still lives."""
        at_work = _at_work()
        while key in at_work:
            with suppress(Exception):
                await asyncio.shield(at_work[key].end)
        context = copy_context()
        # What a tool calls from its thread is part of that tool: only the event loop may act for the run.
        context.run(active_tool_calls.set, None)
        loop = asyncio.get_running_loop()
        end = loop.run_in_executor(None, lambda: context.run(function, *args, **kwargs))
        at_work[key] = _Working(self._run, name, end)
        end.add_done_callback(lambda _: at_work.pop(key))
        return await asyncio.shield(end)


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Working]] = WeakKeyDictionary()


def _at_work() -> dict[str, _Working]:
    """All threads at work for the runs of this event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), {})
