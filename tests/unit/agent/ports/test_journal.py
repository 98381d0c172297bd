"""The values of the journal port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import JournalCommit, JournalRow, JournalStage, OutboxEvent, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentDefinitionError

RUN = RunKey("acme", "r1")
ROW = JournalRow(
    seq=1,
    action_id="root/pay#1",
    kind=AgentActionKind.TOOL_CALL,
    stage=JournalStage.BEFORE,
    attempt=1,
    epoch=1,
    fingerprint="f",
    idempotency=Idempotency.NON_IDEMPOTENT,
    record={"to": "DE-1"},
    view={"to": "[REDACTED]"},
    digest="d",
)


def test_rows_follow_the_expected_head_without_a_gap() -> None:
    rows = (ROW, replace(ROW, seq=2, stage=JournalStage.AFTER))
    assert JournalCommit(RUN, "t", 0, rows).rows == rows
    with pytest.raises(AgentDefinitionError) as caught:
        JournalCommit(RUN, "t", 0, (ROW, replace(ROW, seq=3)))
    assert str(caught.value) == "JournalCommit.rows of run 'r1' have a gap: row 3 stands where 2 belongs."
    with pytest.raises(AgentDefinitionError):
        JournalCommit(RUN, "t", 1, (ROW,))


@pytest.mark.parametrize(
    "wrong", [{"seq": 0}, {"attempt": 0}, {"epoch": 0}, {"action_id": ""}, {"digest": " "}]
)
def test_a_row_is_numbered_and_named(wrong: dict[str, object]) -> None:
    with pytest.raises(AgentDefinitionError):
        replace(ROW, **wrong)  # type: ignore[arg-type]


def test_an_outbox_event_has_a_type_and_a_version() -> None:
    assert OutboxEvent("AgentRunStarted", 1, {}).version == 1
    with pytest.raises(AgentDefinitionError):
        OutboxEvent("AgentRunStarted", 0, {})
    with pytest.raises(AgentDefinitionError):
        RunKey("", "r1")
