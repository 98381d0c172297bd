"""A commit carries everything since the last one, and always moves the head."""

from __future__ import annotations

from pilotage.agent.ports.journal import JournalHead, LeaseRequest
from pilotage.agent.ports.persistence import JournalStage, RowTexts, RunKey
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.runtime.events.event_log import PendingEvents
from pilotage.runtime.journal.chain import NO_HEAD, first_broken
from pilotage.runtime.journal.draft import CommitDraft, Opening

RUN = RunKey("default", "run-1")
STATE = AgentState("run-1", "clerk", AgentSituation.RUNNING.status)
CLAIM = RowTexts.of({"claimed_by": "ada"}, {"claimed_by": "ada"})


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


def test_events_are_the_last_row_and_need_no_other() -> None:
    draft = a_draft()
    draft.log.add({"kind": "said"})
    (row,) = draft.draw_up(STATE).rows
    assert (row.action_id, row.stage, row.record) == ("told#1", JournalStage.TOLD, None)
    assert row.view == {"first": 1, "events": [{"kind": "said"}]}


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
