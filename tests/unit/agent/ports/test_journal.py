"""The values of the journal port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    CommitRefusal,
    CommitRefused,
    JournalCommit,
    JournalRow,
    JournalStage,
    LeaseRequest,
    OutboxEvent,
    RunKey,
)
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


def test_claims_and_what_was_told_belong_to_no_action() -> None:
    without = {stage for stage in JournalStage if not stage.has_action}
    assert without == {JournalStage.CLAIMED, JournalStage.TOLD}


def test_the_first_commit_names_parent_and_conversation() -> None:
    first = JournalCommit(RUN, "t", 0, (ROW,), parent=RunKey("acme", "r0"), conversation="chat")
    assert (first.parent, first.conversation) == (RunKey("acme", "r0"), "chat")


LATER = "JournalCommit of run 'r1' names a parent or a conversation behind row 1. Only the first commit of a run does."


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"expected_head": 1, "rows": (), "parent": RunKey("acme", "r0")}, LATER),
        ({"expected_head": 1, "rows": (), "conversation": "chat"}, LATER),
        (
            {"expected_head": 1, "rows": (), "lease": LeaseRequest("ada", 30.0)},
            "JournalCommit of run 'r1' takes a lease behind row 1. Only the first commit of a run does; later it is "
            "acquired.",
        ),
        (
            {"conversation": " "},
            "JournalCommit.conversation is blank. Give it at least one visible character, or leave it out.",
        ),
        (
            {"parent": RUN},
            "JournalCommit.parent of run 'r1' is run 'r1' of tenant 'acme'. Name another run of tenant 'acme'.",
        ),
        (
            {"parent": RunKey("rival", "r0")},
            "JournalCommit.parent of run 'r1' is run 'r0' of tenant 'rival'. Name another run of tenant 'acme'.",
        ),
    ],
)
def test_a_commit_cannot_start_a_run_in_a_wrong_place(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        replace(JournalCommit(RUN, "t", 0, (ROW,)), **wrong)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize("wrong", [(" ", 30.0), ("ada", 0.0), ("ada", -1.0), ("ada", float("inf"))], ids=repr)
def test_who_asks_for_a_lease_has_a_name_and_says_how_long(wrong: tuple[str, float]) -> None:
    with pytest.raises(AgentDefinitionError, match="LeaseRequest"):
        LeaseRequest(*wrong)


def test_a_refusal_is_the_commits_own_fault_unless_it_says_otherwise() -> None:
    assert CommitRefused("no JSON").code is CommitRefusal.INVALID


def test_an_outbox_event_has_a_type_and_a_version() -> None:
    assert OutboxEvent("AgentRunStarted", 1, {}).version == 1
    with pytest.raises(AgentDefinitionError):
        OutboxEvent("AgentRunStarted", 0, {})
    with pytest.raises(AgentDefinitionError):
        RunKey("", "r1")
