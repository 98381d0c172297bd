"""What an item of a hand-written stream stands for, as neutral events."""

from __future__ import annotations

import pytest

from pilotage import (
    AgentYield,
    Approval,
    ApprovalDecision,
    Cancel,
    Error,
    Evidence,
    Final,
    Progress,
    Token,
    Tool,
)
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.yields import AgentYieldKind
from pilotage.runtime.projection import events_of

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
MESSAGE = "run-1:message"

ITEMS: list[tuple[AgentYield[object], list[AgentEvent]]] = [
    (Token("Hel", {"n": 1}), [MessageDeltaEvent(BY, MESSAGE, "Hel", {"n": 1})]),
    (AgentYield(AgentYieldKind.TOKEN, Token("lo")), [MessageDeltaEvent(BY, MESSAGE, "lo")]),
    (
        Progress("looking", metadata={"n": 2}),
        [StepStartedEvent(BY, "looking", {"n": 2}), StepFinishedEvent(BY, "looking", {"n": 2})],
    ),
    (
        Tool("pay", "c-1", {"amount": 5}, {"receipt": 1}, {"n": 3}),
        [
            ToolCallStartEvent(BY, "c-1", "pay", None, {"arguments": {"amount": 5}}),
            ToolCallEndEvent(BY, "c-1"),
            ToolCallResultEvent(BY, "c-1", "pay", MESSAGE, {"receipt": 1}, {"n": 3}),
        ],
    ),
    (
        Tool("pay"),
        [
            ToolCallStartEvent(BY, "run-1:pay", "pay", None, {"arguments": {}}),
            ToolCallEndEvent(BY, "run-1:pay"),
            ToolCallResultEvent(BY, "run-1:pay", "pay", MESSAGE, None),
        ],
    ),
    (Evidence({"a": 1}), [ArtifactEvent(BY, "run-1:evidence", {"a": 1}, "evidence")]),
    (Final("done"), []),
    (Approval("q-1", "Pay?", (ApprovalDecision.APPROVE,)), []),
    (Error("E1", "broken"), []),
    (Cancel("enough"), []),
]


@pytest.mark.parametrize(
    ("item", "events"), ITEMS, ids=[f"{n} {item.kind}" for n, (item, _) in enumerate(ITEMS)]
)
def test_each_item_stands_for_its_events(item: AgentYield[object], events: list[AgentEvent]) -> None:
    assert list(events_of(item, BY)) == events
