"""The outline of a run for lists: the beginning of its input, its conversation, whether a process drives it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pilotage.agent.ports.leases import IAgentLeases
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.jsonvalue import JsonObject, object_or_empty
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.services import Services
from pilotage.values import value

_UNDER_WAY = frozenset({AgentStatus.CREATED, AgentStatus.ACTIVE, AgentStatus.CANCELLING})


@value
class RunOutline:
    """What a list says about a run beside its state.

    `input` is the instruction of a declarative agent, as readers may see it; of any other agent it has the names of the
    arguments, whose values may be sensitive; it is empty where the first row cannot be read. `is_driven` is None for a
    run that waits or has ended, which no process drives.
    """

    input: str = ""
    conversation: str | None = None
    is_driven: bool | None = None


async def outline_of(services: Services, state: AgentState) -> RunOutline:
    """Return the outline of a run, by what readers may see of its first row."""
    run = RunKey(state.tenant_id, state.id)
    view = await _view_of_start(services, run)
    conversation = view.get(words.CONVERSATION)
    return RunOutline(
        input_words(object_or_empty(view.get(words.INPUT))) if view else "",
        conversation if isinstance(conversation, str) else None,
        await _is_driven(services, run) if state.status in _UNDER_WAY else None,
    )


def input_words(given: JsonObject) -> str:
    """Return an instruction as it is, and of arguments their names."""
    instruction = given.get(words.INSTRUCTION)
    return instruction if isinstance(instruction, str) else f"({', '.join(given)})"


async def _view_of_start(services: Services, run: RunKey) -> JsonObject:
    """Return the view of the first row; an empty one where it was erased or is damaged."""
    rows = services.journal.read(run)
    try:
        first = await anext(rows, None)
    finally:
        if isinstance(rows, AsyncGenerator):
            await rows.aclose()
    return object_or_empty(first.view) if first is not None else {}


async def _is_driven(services: Services, run: RunKey) -> bool | None:
    leases = services.app.get_or_none(IAgentLeases)
    return None if leases is None else await leases.holder(run) is not None
