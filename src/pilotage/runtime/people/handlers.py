"""Handlers of signals at work: given what was taken in, at the boundary where it was, now as in replay.

A handler is a part of the program. What it does are actions with ids below the boundary; what it yields is told.
Nothing is taken in while it works: what comes meanwhile waits for the next boundary of the program itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.signal_handlers import SignalHandler
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation
from pilotage.agent.yields import AgentYield, Error, Evidence, Final, Tool
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.door.run import Effects, active_effects
from pilotage.runtime.events.projections import events_of
from pilotage.runtime.journal.interruptions import AWAITS, Paused, RunEnded
from pilotage.runtime.journal.scope import inside, scope_for

_HANDLER = "on_signal:"
_CALLS = ("/tool:", "/step:")
_END = "run/end"


class SignalHandlers:
    """The handlers of an agent for one attempt at a run of it."""

    def __init__(
        self,
        handlers: Mapping[AgentSignalKind, SignalHandler],
        instance: Any,
        effects: Effects,
        recall_secrets: Callable[[], Awaitable[None]],
        by: AgentEventAttribution,
    ) -> None:
        self._handlers = handlers
        self._instance = instance
        self._effects = effects
        self._recall_secrets = recall_secrets
        self._by = by

    async def before(self, action_id: str) -> None:
        if not is_inside_an_action(action_id.rpartition("/")[0]):
            await self._take_in(action_id)

    async def at_end(self) -> None:
        """Also what came while the last ones were handled, until nothing waits any more."""
        number, liveness = 1, self._effects.liveness
        while not liveness.is_paused and not liveness.is_ending and await self._take_in(f"{_END}#{number}"):
            number += 1

    async def _take_in(self, action_id: str) -> bool:
        is_new = self._effects.recording.is_used_up
        signals = self._effects.inbox.take_handled(_beside(action_id, "signals:"))
        self._effects.learn_from_signals()
        if signals:
            await self.handle(action_id, signals, is_new=is_new)
        return bool(signals)

    async def handle(self, action_id: str, signals: Sequence[AgentSignal], *, is_new: bool) -> None:
        if is_new:
            # The program says new things from here on, the handlers first.
            self._effects.begin_anew()
        for number, signal in enumerate(signals, 1):
            path = f"{_beside(action_id, _HANDLER)}/{number}"
            with inside(path), self._speaking_for_itself(path):
                await self._handled(path, signal)

    async def _handled(self, path: str, signal: AgentSignal) -> None:
        handler, ordinal = self._handlers[signal.kind], 0
        try:
            async with aclosing(handler(self._instance, signal)) as items:
                async for item in items:
                    ordinal += isinstance(item.payload, Tool | Evidence)
                    await self._told(item, signal, f"{path}.{ordinal}")
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise _failed(signal, words, retryable=bool(getattr(error, "retryable", False))) from error

    async def _told(self, item: AgentYield[Any], signal: AgentSignal, ordinal: str) -> None:
        payload = item.payload
        if isinstance(payload, Error):
            raise _failed(signal, payload.message, payload.code, retryable=payload.retryable)
        if isinstance(payload, Final):
            raise _failed(signal, "it yields a Final, and only the agent itself gives the answer of a run")
        effects = self._effects
        if effects.unrecalled:
            await self._recall_secrets()
        for event in events_of(item, self._by, effects.message_id, ordinal=ordinal):
            effects.telling.say(event)

    @contextmanager
    def _speaking_for_itself(self, path: str) -> Generator[None]:
        """What a handler says is no part of what the program's model says."""
        effects = self._effects
        before, effects.said_by = effects.said_by, f"{self._by.run_id}:{path.removeprefix('run/')}"
        try:
            yield
        finally:
            effects.said_by = before


def is_inside_an_action(path: str) -> bool:
    """Whether a place in the program is inside a tool, a step or a handler: no boundary of the program itself."""
    return f"/{_HANDLER}" in path or is_inside_a_call(path)


def is_inside_a_call(path: str) -> bool:
    """Whether a place is inside a tool or a step, which replay does not enter when it is done."""
    return any(mark in path for mark in _CALLS)


def _beside(action_id: str, label: str) -> str:
    """The place that belongs to an action and is not inside it: replay comes by, also when the action is done."""
    above, _, name = action_id.rpartition("/")
    return f"{above}/{label}{name}"


def _failed(
    signal: AgentSignal, words: str, code: str = "signal_handler_failed", *, retryable: bool = False
) -> RunEnded:
    reason = f"the handler of {signal.kind.value!r} signals failed: {words}"
    return RunEnded(AgentSituation.FAILED, reason, code=code, retryable=retryable)


async def next_signal(kind: AgentSignalKind) -> AgentSignal:
    """The next signal of a kind that was sent to this run: `await next_signal(AgentSignalKind.EXTERNAL_EVENT)`.

    Where none has come the run pauses and leaves nothing in memory; in replay the same signal comes again. Each signal
    is given once. One that came before a model call is a part of the transcript by then, and is given all the same;
    one that was waited for is no part of it unless the program shows it to a model.

    Raises:
        AgentDefinitionError: there is no run here, or none to which such a signal could come.
    """
    effects = active_effects.get()
    if effects is None:
        raise AgentDefinitionError(
            f"next_signal({kind!s}) waits for what is sent to a run, and there is none here. "
            "Call it in execute(), on an agent that an application made."
        )
    label = f"signal:{kind.value}"
    scope = scope_for(label)
    _check(effects, kind, scope.path)
    effects.liveness.begin(scope)
    try:
        signal = _taken(effects, scope.next_id(label), kind)
    except BaseException as end:
        effects.liveness.ended(scope, end)
        raise
    effects.liveness.ended(scope)
    return signal


def _taken(effects: Effects, action_id: str, kind: AgentSignalKind) -> AgentSignal:
    is_new = effects.recording.is_used_up
    signal = effects.inbox.take_one(action_id, kind)
    if signal is None:
        raise Paused(reason=f"waiting for a signal: {kind.value}", facts={AWAITS: kind.value})
    effects.learn_from_signals()
    if is_new:
        effects.begin_anew()
        effects.waits.go_on(f"a signal has come: {kind.value}")
    return signal


def _check(effects: Effects, kind: AgentSignalKind, path: str) -> None:
    hearing = effects.inbox.hearing
    if kind not in hearing.accepted:
        raise AgentDefinitionError(
            f"next_signal({kind!s}): the agent does not accept such signals, so none will come. "
            "Name a kind of its accepted_signals; control signals are taken by the run itself."
        )
    if kind in hearing.handled:
        raise AgentDefinitionError(
            f"next_signal({kind!s}): a handler of the agent takes these signals. Remove @on_signal, or do not wait."
        )
    if is_inside_a_call(path):
        raise AgentDefinitionError(
            f"next_signal({kind!s}) is called inside a tool or a step, which replay does not enter when it is done. "
            "Call it in execute()."
        )
