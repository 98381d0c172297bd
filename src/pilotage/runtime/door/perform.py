"""The one door to the world: every action of a run passes here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.runtime.actions.call import Call
from pilotage.runtime.door.doing import begin
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.recovering import recovered


async def perform(effects: Effects, call: Call) -> object:
    """The result of an action: the recorded one, or that of doing it now.

    Raises:
        ToolError: the action failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    effects.liveness.begin(call.scope)
    try:
        if effects.open_streams:
            for stream in effects.open_streams_at(call.scope.path):
                await stream.drain()
        if effects.handling is not None and not call.action.is_read_only:
            await effects.handling.before(call.action.id)
        recorded = effects.recording.take(call.action) if effects.has_record else None
        if recorded is not None:
            result = await recovered(effects, call, recorded)
        else:
            if effects.switches is not None:
                await effects.switches.check(call.tool_name)
            effects.begin_anew()
            result = await begin(effects, call)
    except BaseException as end:
        effects.liveness.ended(call.scope, end)
        raise
    effects.liveness.ended(call.scope)
    return result


def ask_ahead(effects: Effects, calls: Sequence[Call]) -> None:
    """Ask people about calls that must wait for another one, so that all can be answered at once."""
    for call in calls:
        if effects.recording.knows(call.action.id):
            continue
        if call.needs_approval:
            effects.waits.ask_only(call)
        elif call.is_deferred:
            effects.waits.ask_for_result(call)
