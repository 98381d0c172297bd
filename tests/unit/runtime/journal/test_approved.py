"""An action that began must be the one that was approved."""

from __future__ import annotations

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, a_claim, a_journal, a_row, an_action

from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonObject, json_digest
from pilotage.runtime.journal.record_check import approval_mismatch

ASKED: JsonObject = {"amount": 5}
QUESTION: JsonObject = {"id": "question-1", "argument_digest": json_digest(["question-1", ASKED])}
APPROVED: JsonObject = {"decision": "approve", "modified_payload": None}
MODIFIED: JsonObject = {"decision": "modify", "modified_payload": {"amount": 3}}


def mismatch(question: JsonObject, answer: JsonObject, begun: JsonObject) -> str | None:
    pay = an_action()
    asked = an_action(f"{pay.id}/approval", kind=AgentActionKind.APPROVAL_WAIT)
    rows = [
        a_claim(),
        a_row(asked, BEFORE, record=question),
        a_row(asked, AFTER, record=answer),
        a_row(pay, BEFORE, record=begun),
    ]
    return approval_mismatch(a_journal(rows))


@pytest.mark.parametrize(
    ("answer", "begun"),
    [
        (APPROVED, {"asked": ASKED}),
        (APPROVED, {"asked": ASKED, "executed": {"amount": 5, "currency": "EUR"}}),
        (MODIFIED, {"asked": ASKED, "executed": {"amount": 3}}),
    ],
)
def test_what_was_approved_fits(answer: JsonObject, begun: JsonObject) -> None:
    assert mismatch(QUESTION, answer, begun) is None


@pytest.mark.parametrize(
    ("answer", "begun", "words"),
    [
        (APPROVED, {"asked": {"amount": 500}}, "other arguments than the ones that were approved"),
        (
            MODIFIED,
            {"asked": ASKED, "executed": {"amount": 500}},
            "other arguments than the ones that the answer",
        ),
        ({"decision": "reject"}, {"asked": ASKED}, "was rejected"),
    ],
)
def test_what_was_not_approved_is_found(answer: JsonObject, begun: JsonObject, words: str) -> None:
    found = mismatch(QUESTION, answer, begun)
    assert found is not None
    assert words in found


def test_a_question_without_a_digest_binds_nothing() -> None:
    assert mismatch({"id": "question-1"}, APPROVED, {"asked": {"amount": 500}}) is None
