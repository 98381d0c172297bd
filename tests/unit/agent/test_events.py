"""The neutral events."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import get_args

import pytest

from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind, RunPausedEvent
from pilotage.agent.state import AgentStateReason
from pilotage.errors import AgentDefinitionError

EVENTS: tuple[type, ...] = get_args(AgentEvent)
BY = AgentEventAttribution("agent", "run", "conversation")


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_starts_with_its_attribution_and_ends_with_metadata(event: type) -> None:
    init = [field for field in fields(event) if field.init]
    assert init[0].name == "attribution"
    assert init[-1].name == "metadata"
    assert init[-1].default_factory is not MISSING
    assert fields(event)[-1].name == "kind"
    assert not fields(event)[-1].init


def test_every_kind_has_its_event() -> None:
    kinds = {fields(event)[-1].default: event.__name__ for event in EVENTS}
    assert {
        kind: "".join(part.title() for part in kind.split("_")) + "Event" for kind in AgentEventKind
    } == kinds


@pytest.mark.parametrize(
    "arguments",
    [("", "run", "c"), ("a", " ", "c"), ("a", "run", ""), ("a", "run", "c", "")],
)
def test_an_attribution_names_everybody(arguments: tuple[str, ...]) -> None:
    with pytest.raises(AgentDefinitionError, match="is blank"):
        AgentEventAttribution(*arguments)


@pytest.mark.parametrize("wrong", ["prompt", "state_id", "approval_id", "tool_call_id"])
def test_a_pause_says_what_it_waits_for(wrong: str) -> None:
    right = {"prompt": "Pay?", "state_id": "run", "approval_id": "a", "tool_call_id": "c"}
    assert RunPausedEvent(BY, AgentStateReason.APPROVAL_REQUIRED, **right).kind == "run_paused"
    with pytest.raises(AgentDefinitionError, match=f"RunPausedEvent.{wrong} is blank"):
        RunPausedEvent(BY, AgentStateReason.APPROVAL_REQUIRED, **{**right, wrong: " "})
