"""`sleep()` and `timeout()`: timers that are part of the record of a run.

A timer fires in its place among the outcomes of the run, in replay without real waiting. It goes on while the run is
paused: a long one holds no memory. Timers of asyncio measure one attempt only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.checks import reject_negative
from pilotage.ids import SystemClock
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import VALUE, Effect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused
from pilotage.runtime.journal.record_fields import text_field
from pilotage.runtime.journal.scope import scope_for

_SHORT = 5.0
"""The seconds up to which a timer is waited for in the process: a run does not pause for less."""


class Timer(Effect):
    """Waits until a moment that is recorded when it begins."""

    kind = VALUE

    def __init__(self, run: Run, label: str, seconds: float) -> None:
        reject_negative(label, seconds=seconds)
        asked: JsonObject = {words.SECONDS: seconds}
        scope = scope_for(label, asked if run.source.start.names_tasks else None)
        action = run.action(
            scope.next_id(label),
            AgentActionKind.VALUE,
            label,
            asked,
            asked,
            idempotency=Idempotency.IDEMPOTENT,
            is_read_only=False,
        )
        super().__init__(scope, action)
        self._run = run
        self._seconds = seconds
        run.number(self)

    def asked(self) -> tuple[JsonObject, JsonObject]:
        if self.arguments is None:
            until = self._run.ports.clock.now() + timedelta(seconds=self._seconds)
            self.arguments = {words.UNTIL: until.isoformat()}
        return super().asked()

    def act(self) -> Awaitable[object]:
        return self._wait(text_field(self.arguments or {}, words.UNTIL))

    async def _wait(self, until: str) -> None:
        clock, replay = self._run.ports.clock, self._run.replay
        left = (datetime.fromisoformat(until) - clock.now()).total_seconds()
        if left <= 0:
            return
        if left <= _SHORT or self.call is None:
            await clock.sleep(left)
            return
        pause = Paused(reason=f"waiting until {until}", facts={words.WAKE_AT: until})
        await replay.idle(self.call, pause, clock.sleep(left))


async def sleep(seconds: float) -> None:
    """Wait for some seconds: `await sleep(3600)`. A long sleep pauses the run, which holds no memory meanwhile.

    In replay it returns in its place, without waiting again. Outside a run it just waits.
    """
    run = active_run()
    if run is None or not run.ledger.is_durable:
        clock = SystemClock() if run is None else run.ports.clock
        await clock.sleep(seconds)
        return
    await perform(run, Timer(run, words.SLEEP, seconds))


class timeout:  # noqa: N801 - used like asyncio.timeout
    """A time limit that is part of the record: `async with timeout(60): ...` raises `TimeoutError` when it is over.

    A call that may not be repeated comes to its end first, and gives its outcome; the time limit strikes at the next
    call. The limit goes on while the run is paused, for instance for an approval inside of it. Outside of a durable run
    it is `asyncio.timeout`.
    """

    def __init__(self, seconds: float) -> None:
        reject_negative("timeout", seconds=seconds)
        self._seconds = seconds
        self._plain: asyncio.Timeout | None = None
        self._timer: asyncio.Task[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_expired = False

    async def __aenter__(self) -> Self:
        run, self._task = active_run(), asyncio.current_task()
        if run is None or not run.ledger.is_durable or self._task is None:
            self._plain = asyncio.timeout(self._seconds)
            await self._plain.__aenter__()
            return self
        self._cancelling = self._task.cancelling()
        timer = Timer(run, words.TIMEOUT, self._seconds)
        self._timer = asyncio.create_task(self._wait(run, timer))
        run.replay.see(timer.scope, self._timer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._plain is not None:
            await self._plain.__aexit__(kind, error, trace)
            return
        if self._timer is None or self._task is None:
            return
        self._timer.cancel()
        while not self._timer.done():
            await asyncio.wait([self._timer])
        if not self._timer.cancelled():
            # An attempt that is over says so at every call; asyncio need not.
            self._timer.exception()
        if self._is_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError(f"the time limit of {self._seconds:g} seconds is over") from error

    async def _wait(self, run: Run, timer: Timer) -> None:
        await perform(run, timer)
        self._is_expired = True
        if self._task is not None:
            self._task.cancel()
