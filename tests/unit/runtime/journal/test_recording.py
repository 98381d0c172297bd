"""What a run did, folded from its rows, and the words for a program that asks for something else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, WAIT, a_claim, a_row, an_action

from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.runtime.journal.interruptions import RunDiverged
from pilotage.runtime.journal.recording import RecordedAction, Recording
from pilotage.runtime.journal.scope import Action
from pilotage.runtime.journal.seals import NOT_RECORDED

PAY = an_action(asked={"amount": "5"})
LOOK = an_action("run/tool:look#1")
QUESTION = an_action("run/tool:pay#1/approval", kind=WAIT)


@pytest.mark.parametrize(
    ("rows", "before", "after", "attempt"),
    [
        ([a_row(PAY, BEFORE)], True, False, 1),
        ([a_row(PAY, AFTER)], False, True, 1),
        ([a_row(PAY, BEFORE), a_row(PAY, AFTER)], True, True, 1),
        ([a_row(PAY, BEFORE), a_row(PAY, BEFORE, attempt=2)], True, False, 2),
        ([a_row(PAY, BEFORE), a_row(PAY, BEFORE, attempt=2), a_row(PAY, AFTER, attempt=2)], True, True, 2),
    ],
)
def test_the_last_attempt_of_an_action_counts(
    rows: Sequence[JournalRow], before: bool, after: bool, attempt: int
) -> None:
    recorded = Recording([a_claim(), *rows]).take(PAY)
    assert recorded is not None
    assert (recorded.before is not None, recorded.after is not None) == (before, after)
    assert recorded.attempt == attempt


def test_claims_are_no_actions() -> None:
    recording = Recording([a_claim(1), a_claim(2, epoch=2)])
    assert not recording.under_way()


def test_what_is_not_recorded_is_new() -> None:
    assert Recording([a_row(LOOK)]).take(PAY) is None


@pytest.mark.parametrize(
    ("rows", "is_found"),
    [
        ([a_row(PAY, BEFORE), a_row(PAY, AFTER, record={"result": 1})], True),
        ([a_row(PAY, BEFORE)], False),
        ([a_row(PAY, AFTER, record=NOT_RECORDED)], False),
        ([a_row(an_action(asked={"amount": "6"}), AFTER, record={"result": 1})], False),
        ([], False),
    ],
)
def test_an_outcome_is_reused_at_once_if_it_is_recorded_and_that_of_this_request(
    rows: Sequence[JournalRow], is_found: bool
) -> None:
    assert Recording(rows).reusable(PAY) is (rows[-1] if is_found else None)


def test_a_recorded_action_without_rows_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="a recorded action has at least one row"):
        _ = RecordedAction().row


STEP = AgentActionKind.STEP


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            an_action(asked={"amount": "6"}),
            "run/tool:pay#1: the tool_call 'tool:pay' is recorded with other arguments than the program asks for "
            "now: {'amount': '6'}",
        ),
        (
            an_action(kind=STEP, asked={"amount": "5"}),
            "run/tool:pay#1: the tool_call 'tool:pay' is recorded, and the program asks for the step 'pay'",
        ),
    ],
    ids=["other arguments", "another kind"],
)
def test_something_else_at_the_same_place_is_divergence(asked: Action, words: str) -> None:
    recording = Recording([a_row(PAY)])
    with pytest.raises(RunDiverged) as error:
        recording.take(asked)
    assert str(error.value) == words
    assert error.value.action_id == "run/tool:pay#1"


def test_what_was_begun_and_has_no_outcome_is_under_way() -> None:
    rows = [
        a_row(LOOK),
        a_row(PAY, BEFORE),
        a_row(PAY, BEFORE, attempt=2),
        a_row(QUESTION, BEFORE),
    ]
    ((action, attempt),) = Recording(rows).under_way()
    assert (action.id, action.kind, action.fingerprint, attempt) == (PAY.id, PAY.kind, PAY.fingerprint, 2)
