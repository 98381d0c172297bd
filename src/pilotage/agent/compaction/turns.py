"""How messages belong together: a call and its results, a turn and the question before it.

Pure. Messages are named by their index, because a call and its results need not stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.values import value


@value
class Unit:
    """Messages that stay or go together. A turn is what a model said, with the results of its calls."""

    members: tuple[int, ...]
    is_turn: bool

    @property
    def start(self) -> int:
        return self.members[0]


def units_of(messages: Sequence[ModelMessage]) -> tuple[Unit, ...]:
    """The units of a transcript in the order in which they begin.

    A result belongs to the latest message that made a call of its id. One whose id nobody knows belongs to
    the latest calls before it: some models send no ids. Without any calls before it, it stands alone.
    """
    members: list[list[int]] = []
    unit_of_call: dict[str, int] = {}
    latest_calls: int | None = None
    for index, message in enumerate(messages):
        home = latest_calls if message.role is ModelMessageRole.TOOL else None
        if home is not None:
            members[unit_of_call.get(message.tool_call_id or "", home)].append(index)
            continue
        if message.tool_calls:
            latest_calls = len(members)
            unit_of_call.update({call.call_id: latest_calls for call in message.tool_calls if call.call_id})
        members.append([index])
    return tuple(Unit(tuple(m), messages[m[0]].role is ModelMessageRole.ASSISTANT) for m in members)


def older_than(units: Sequence[Unit], turns: int) -> tuple[Unit, ...]:
    """The units before the last so many turns; what was asked right before the first of those is not among them."""
    all_turns = [unit for unit in units if unit.is_turn]
    old = all_turns[: max(0, len(all_turns) - turns)]
    return tuple(unit for unit in units if unit.start <= old[-1].start) if old else ()
