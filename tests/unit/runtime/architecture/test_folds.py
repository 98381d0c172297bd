"""What folded branches and children spent, read from their rows."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, TOOL, a_row, an_action

from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.budget.spending import Spending, count_rows
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.records import encode_amount

MODEL, DELEGATION, STEP = AgentActionKind.MODEL_CALL, AgentActionKind.DELEGATION, AgentActionKind.STEP
REPLY: JsonValue = {
    "result": {"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}},
    "model": "scripted",
}
CHILD = BudgetAmount(2, 3, 50, Decimal("0.5"))


def row(
    action_id: str,
    kind: AgentActionKind = TOOL,
    record: JsonValue = None,
    stage: JournalStage = AFTER,
) -> JournalRow:
    return a_row(an_action(action_id, kind=kind), stage, record=record if record is not None else {})


@pytest.mark.parametrize(
    ("rows", "spent"),
    [
        ([], BudgetAmount()),
        ([row("run/tool:a#1")], BudgetAmount(tool_calls=1)),
        ([row("run/tool:a#1", record={"error": "no"})], BudgetAmount(tool_calls=1)),
        ([row("run/tool:a#1", stage=BEFORE)], BudgetAmount()),
        ([row("run/model#1", MODEL, REPLY)], BudgetAmount(steps=1, tokens=7)),
        ([row("run/model#1", MODEL, {"error": "no"})], BudgetAmount(steps=1)),
        ([row("run/model#1", MODEL, {"not_kept": True})], BudgetAmount(steps=1)),
        ([row("run/child:a#1", DELEGATION, {"result": {"spent": encode_amount(CHILD)}})], CHILD),
        ([row("run/child:a#1", DELEGATION, {"error": "not allowed"})], BudgetAmount()),
        ([row("run/b#1/0", STEP, {"result": 1}, JournalStage.FOLDED)], BudgetAmount()),
        ([row("run/step:a#1", STEP)], BudgetAmount()),
    ],
)
def test_what_rows_say_was_spent(rows: list[JournalRow], spent: BudgetAmount) -> None:
    spending = Spending()
    count_rows(rows, spending)
    assert spending.spent == spent


def test_what_is_inside_a_folded_gather_is_counted_once_though_its_branches_are_folded_too() -> None:
    folded = JournalStage.FOLDED
    recording = Recording(
        [
            row("run/g#1/0/tool:a#1"),
            row("run/g#1/0", STEP, {"result": 1}, folded),
            row("run/g#1/1/h#1/0/tool:a#1"),
            row("run/g#1/1/h#1/0/tool:a#1/tool:inner#1"),
            row("run/g#1/1/h#1/0", STEP, {"result": 1}, folded),
            row("run/g#1/1/h#1", STEP, {"taken": [0]}, folded),
            row("run/g#1/1", STEP, {"result": 1}, folded),
            row("run/g#1", STEP, {"taken": [0, 1]}, folded),
            row("run/tool:b#1"),
        ]
    )
    for place, calls in (("run/g#1", 3), ("run/g#1/0", 1), ("run/g#1/1", 2), ("run/g#1/1/h#1", 2)):
        spending = Spending()
        count_rows(recording.inside(place), spending)
        assert spending.spent == BudgetAmount(tool_calls=calls), place


def test_what_a_child_spent_counts_for_all_above() -> None:
    above = Spending()
    below = Spending(parent=above)
    count_rows([row("run/child:a#1", DELEGATION, {"result": {"spent": encode_amount(CHILD)}})], below)
    assert above.spent == below.spent == CHILD
