"""`set_state`, `patch_state` and `read_state`: tools and programs use the state that their run shares with its clients.

A change is an action of the run: its event and its row are one commit, so that replay emits nothing twice. So is a
reading: in replay a program reads what it has read.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.events import AgentEvent
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.yields import State, StatePatch
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.state_events import SharedState, change_of, event_of
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import VALUE, Effect, PlainEffect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.scope import scope_for


async def set_state(snapshot: JsonValue) -> None:
    """Replace the state that this run shares with its clients: `await set_state({"items": []})`.

    For tools and for `execute()`; a generator may yield `State(...)` as well. Outside a run nothing happens.

    Raises:
        AgentDefinitionError: the value has no JSON form.
        AgentToolDispatchError: it is called in another thread than the run; make the tool async.
    """
    await _share(State(snapshot))


async def patch_state(operations: Sequence[JsonObject]) -> None:
    """Change the shared state by operations of a JSON Patch: `await patch_state([{"op": "add", ...}])`.

    For tools and for `execute()`; a generator may yield `StatePatch(...)` as well. Outside a run nothing happens.

    Raises:
        AgentDefinitionError: an operation is none of RFC 6902, or a value has no JSON form.
        AgentToolDispatchError: it is called in another thread than the run; make the tool async.
    """
    await _share(StatePatch(operations))


async def read_state() -> JsonValue:
    """Return the state that this run shares with its clients, as it is now: `state = await read_state()`.

    It begins with the state that the caller gave (over AG-UI that of the page), else with an empty object. For tools
    and for `execute()`; a child run has a state of its own. Outside a run it is empty.

    Raises:
        AgentToolDispatchError: it is called in another thread than the run; make the tool async.
    """
    run = active_run()
    if run is None:
        return {}
    label = words.READ_STATE
    scope = scope_for(label)
    action = run.action(scope.next_id(label), AgentActionKind.VALUE, label)
    shared = run.part(SharedState)

    async def read() -> JsonValue:
        return shared.read()

    effect = PlainEffect(VALUE, scope, action, read)
    run.number(effect)
    found: JsonValue = await perform(run, effect)
    return found


async def _share(item: State | StatePatch) -> None:
    run = active_run()
    if run is None:
        return
    effect = _StateChange(run, change_of(item))
    run.number(effect)
    await perform(run, effect)
    if run.events.is_full:
        await run.events.wait_for_room()


class _StateChange(Effect):
    kind = VALUE

    def __init__(self, run: Run, change: JsonObject) -> None:
        label = words.SHARED_STATE
        scope = scope_for(label)
        super().__init__(scope, run.action(scope.next_id(label), AgentActionKind.VALUE, label, change))
        self._change = change
        self._run = run

    async def act(self) -> object:
        self._run.events.write(self._event)
        self._run.part(SharedState).change(self._change)
        return self._change

    def reuse(self, record: JsonObject) -> object:
        row = self.call.end if self.call is not None else None
        self._run.part(SharedState).change(self._change, row.outcome.seq if row is not None else None)
        if self._run.events.holds_all:
            self._run.events.write(self._event)
        return super().reuse(record)

    @property
    def _event(self) -> AgentEvent:
        return event_of(self._change, self.action.id, self._run.source.attribution)
