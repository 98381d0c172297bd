"""Which rows belong to a call, and which are calls of their own."""

from __future__ import annotations

import pytest

from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal.record_rows import call_around

STEP, SIGNAL, QUESTION = AgentActionKind.STEP, AgentActionKind.SIGNAL, AgentActionKind.APPROVAL_WAIT


@pytest.mark.parametrize(
    ("action_id", "kind", "call"),
    [
        ("run/model#1/try#2", STEP, "run/model#1"),
        ("run/side/model#3/condensed", STEP, "run/side/model#3"),
        ("run/tool:pay#1/approval", QUESTION, "run/tool:pay#1"),
        ("run/model#1/condensed/approval", QUESTION, "run/model#1"),
        ("run/signals#2", SIGNAL, "run/model#2"),
        ("run/signals:tool:pay#1", SIGNAL, "run/tool:pay#1"),
        ("run/model#1", AgentActionKind.MODEL_CALL, None),
        ("run/step:try#1", STEP, None),
        ("run/tool:retry#1/try#1", STEP, None),
    ],
)
def test_the_rows_of_a_call_are_found_by_their_id(
    action_id: str, kind: AgentActionKind, call: str | None
) -> None:
    assert call_around(action_id, kind) == call
