"""Which rows belong to a call, and which are calls of their own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, a_row, an_action

from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal.positions import Record, RowStage
from pilotage.runtime.journal.record_rows import call_around, record_rows

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


PAY, LOOK = an_action(), an_action("run/tool:look#1")
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def test_of_one_task_only_a_call_without_outcome_is_known_to_have_begun() -> None:
    rows = [
        replace(a_row(PAY, BEFORE), number=1),
        replace(a_row(PAY, AFTER), number=1),
        replace(a_row(LOOK, BEFORE), number=2),
    ]
    read = list(record_rows(rows))
    assert [(each.stage, each.id) for each in read] == [
        (RowStage.ENDED, PAY.id),
        (RowStage.BEGUN, LOOK.id),
    ]
    record = Record(read)
    assert [(call.id, call.end is not None, call.has_begun) for call in record.calls()] == [
        (PAY.id, True, False),
        (LOOK.id, False, True),
    ]
    assert record.orders == {}


def test_beside_other_tasks_every_row_counts_with_its_time() -> None:
    rows = [
        replace(a_row(PAY, BEFORE), number=1, created_at=NOON),
        replace(a_row(LOOK, BEFORE), number=2, created_at=NOON),
        replace(a_row(LOOK, AFTER), number=2, turn=0, created_at=NOON),
        replace(a_row(PAY, AFTER), number=1, turn=1, created_at=NOON),
    ]
    read = list(record_rows(rows))
    assert [(each.stage, each.id) for each in read] == [
        (RowStage.CLAIMED, ""),
        (RowStage.BEGUN, PAY.id),
        (RowStage.BEGUN, LOOK.id),
        (RowStage.ENDED, LOOK.id),
        (RowStage.ENDED, PAY.id),
    ]
    assert {each.at for each in read} == {NOON.timestamp()}
    assert [call.id for call in Record(read).orders["run"]] == [LOOK.id, PAY.id]


def test_model_calls_below_the_result_are_no_calls_of_the_program() -> None:
    judge = an_action("run/result#1/model#1", kind=AgentActionKind.MODEL_CALL)
    assert list(record_rows([replace(a_row(judge, AFTER), number=1)])) == []
