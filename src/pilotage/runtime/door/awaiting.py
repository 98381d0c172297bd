"""Waiting for something that is sent to the run: it pauses, and whoever resumes it behind the signal brings it on."""

from __future__ import annotations

from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.actions.interruptions import AWAITS, Paused
from pilotage.runtime.actions.scope import scope_for
from pilotage.runtime.door.effects import Effects, active_effects
from pilotage.runtime.door.handling import is_inside_a_call


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
