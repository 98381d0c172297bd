"""Events of state changes that are actions: each is the only one of its kind in a run."""

from __future__ import annotations

from collections import deque

from pilotage.agent.events import AgentEventAttribution, StateDeltaEvent
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.replay_filter import ReplayFilter
from pilotage.runtime.journal.records import event_of

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
TEA = {"op": "add", "path": "/items/-", "value": "tea"}


def test_the_same_patch_by_the_program_is_not_taken_for_that_of_a_tool() -> None:
    by_a_tool = event_of({"patch": [TEA]}, "run/tool:put#1/shared_state#1", BY)
    by_the_program = StateDeltaEvent(BY, [TEA])
    replay = ReplayFilter(deque([LoggedEvent(1, 1, encode_event(by_a_tool, BY))]), BY)
    assert not replay.is_next(by_the_program)
    assert replay.new_part(by_the_program) is by_the_program
    assert replay.new_part(by_a_tool) is None
