"""A commit carries everything since the last one, and always moves the head."""

from __future__ import annotations

import pytest

from pilotage.agent.events import AgentEvent, AgentEventAttribution, ArtifactEvent, RunStartedEvent
from pilotage.agent.ports.journal import JournalHead, LeaseRequest
from pilotage.agent.ports.persistence import JournalStage, RowTexts, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.journal.chain import NO_HEAD, first_broken
from pilotage.runtime.journal.draft import CommitDraft, Opening

RUN = RunKey("default", "run-1")
STATE = AgentState("run-1", "clerk", AgentSituation.RUNNING.status)
CLAIM = RowTexts.of({"claimed_by": "ada"}, {"claimed_by": "ada"})


BY = AgentEventAttribution("clerk", "run-1", "talk")
STARTED = RunStartedEvent(BY)
LARGE = ArtifactEvent(BY, "a-1", "x" * 3000)


def add_row(draft: CommitDraft, action_id: str, stage: JournalStage = JournalStage.AFTER) -> None:
    draft.add_row(
        RowTexts.of({"result": 1}, {"result": 1}),
        action_id,
        AgentActionKind.VALUE,
        stage,
        1,
        "ab",
        Idempotency.IDEMPOTENT,
    )


def a_draft(head: JournalHead = NO_HEAD, opening: Opening | None = None, writer_id: str = "w") -> CommitDraft:
    return CommitDraft(RUN, head, writer_id, log=PendingEvents(), opening=opening)


def test_a_change_without_a_row_gets_one_so_that_the_head_moves() -> None:
    draft = a_draft()
    draft.state = STATE
    commit = draft.draw_up(STATE)
    assert [(row.seq, row.stage, row.record) for row in commit.rows] == [
        (1, JournalStage.CLAIMED, {"state": "active"})
    ]
    assert (commit.state, draft.changes) == (STATE, 1)


def test_events_without_another_row_are_a_row() -> None:
    draft = a_draft()
    draft.log.add(STARTED, BY)
    (row,) = draft.draw_up(STATE).rows
    assert (row.action_id, row.stage, row.record) == ("told#1", JournalStage.TOLD, None)
    assert row.view == {"first": 1, "events": [{"kind": "run_started"}]}


def test_the_last_row_of_an_action_has_the_events_of_its_commit() -> None:
    draft = a_draft()
    add_row(draft, "run/now#1")
    draft.log.add(STARTED, BY)
    add_row(draft, "run/now#2")
    first = draft.draw_up(STATE)
    add_row(draft, "run/now#3")
    draft.log.add(STARTED, BY)
    second = draft.draw_up(STATE)
    texts = [(row.seq, row.events) for row in (*first.rows, *second.rows)]
    assert texts == [(1, ""), (2, '[1,{"kind":"run_started"}]'), (3, '[2,{"kind":"run_started"}]')]
    assert first_broken([*first.rows, *second.rows]) is None


@pytest.mark.parametrize(
    ("event", "is_claim"), [(STARTED, True), (LARGE, False)], ids=["after a claim", "a large one"]
)
def test_other_events_have_a_row_of_their_own(event: AgentEvent, *, is_claim: bool) -> None:
    draft = a_draft()
    if is_claim:
        draft.add_claim(CLAIM)
    else:
        add_row(draft, "run/now#1")
    draft.log.add(event, BY)
    rows = draft.draw_up(STATE).rows
    assert [(row.stage is JournalStage.TOLD, row.events) for row in rows] == [(False, ""), (True, "")]
    assert first_broken(rows) is None


def test_the_events_of_a_refused_end_are_not_in_a_row_before_it() -> None:
    draft = a_draft()
    add_row(draft, "run/now#1")
    draft.mark(STATE)
    draft.log.promise(STARTED, BY)
    commit = draft.draw_up(STATE)
    assert [(row.stage, row.events) for row in commit.rows] == [
        (JournalStage.AFTER, ""),
        (JournalStage.TOLD, ""),
    ]
    draft.take_back(commit)
    (row,) = draft.draw_up(STATE).rows
    assert (row.action_id, row.digest, row.events) == ("run/now#1", commit.rows[0].digest, "")


def test_a_row_that_was_left_out_of_a_commit_is_chained_all_the_same() -> None:
    draft = a_draft()
    add_row(draft, "run/now#1")
    assert [row.seq for row in draft.rows] == [1]
    add_row(draft, "run/now#2")
    assert first_broken(draft.rows) is None


def test_only_the_first_commit_of_a_run_carries_its_opening() -> None:
    opening = Opening(RunKey("default", "parent"), "talk", LeaseRequest("me", 30))
    draft = a_draft(opening=opening)
    draft.add_claim(CLAIM)
    first = draft.draw_up(STATE)
    draft.committed = 1
    draft.add_claim(CLAIM)
    second = draft.draw_up(STATE)
    assert (first.parent, first.conversation, first.lease) == (
        opening.parent,
        opening.conversation,
        opening.lease,
    )
    assert (second.parent, second.conversation, second.lease) == (None, None, None)
    assert (first.expected_head, second.expected_head) == (0, 1)
    assert first_broken([*first.rows, *second.rows]) is None


def test_a_commit_empties_the_draft() -> None:
    draft = a_draft()
    draft.add_claim(CLAIM)
    draft.consumed.append("s-1")
    draft.state = STATE
    first, second = draft.draw_up(STATE), draft.draw_up(STATE)
    assert (first.consumed_signals, first.state) == (("s-1",), STATE)
    assert (second.consumed_signals, second.state) == ((), None)


def test_every_commit_and_every_writer_has_a_token_of_its_own() -> None:
    mine, other = a_draft(), a_draft(writer_id="x")
    tokens = [draft.draw_up(STATE).token for draft in (mine, mine, other)]
    assert len(set(tokens)) == 3
