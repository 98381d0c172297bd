"""The promises that the journal and the repositories keep together: one commit is one transaction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    OutboxEvent,
    RunKey,
)
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.state import AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.refused_commits import (
    EVENT,
    EVIDENCE,
    FULL,
    SIGNAL,
    STATE,
    ReadOutbox,
    RefusedCommits,
    in_status,
)
from pilotage.testing.conformance.samples import OTHER_RUN, RUN, claim, commit_of, commit_one, numbers_of, row

__all__ = ["ReadOutbox", "TransactionConformance"]


class TransactionConformance(RefusedCommits):
    """What a journal and the repositories over its store must do together.

    Fixtures to give: `journal`, `states`, `signals` and `evidence`, all over one empty store, and `read_outbox`,
    an async function that returns the store's outbox events in order.
    """

    pytestmark = pytest.mark.asyncio

    async def test_everything_in_a_commit_is_there_afterwards(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        read_outbox: ReadOutbox,
    ) -> None:
        await signals.append(SIGNAL)
        assert await commit_one(journal, FULL) == Committed(1)
        assert await numbers_of(journal) == [1]
        assert (await states.get(RUN.run_id)).status is AgentStatus.ACTIVE
        assert await signals.list_pending(RUN.run_id) == []
        assert [each.payload for each in await evidence.list_by_state(RUN.run_id)] == [EVIDENCE.payload]
        assert await read_outbox() == [EVENT]

    async def test_a_state_comes_with_the_head_that_the_journal_had_then(
        self, journal: IAgentJournal, states: IAgentStateRepository
    ) -> None:
        assert await states.get_with_head(RUN.run_id) is None
        await commit_one(journal, in_status(AgentStatus.ACTIVE))
        await commit_one(journal, in_status(AgentStatus.INTERRUPTED, head=1))
        await commit_one(journal, commit_of(row(3), row(4)))
        state = await states.get(RUN.run_id)
        assert state.status is AgentStatus.INTERRUPTED
        assert await states.get_with_head(RUN.run_id) == (state, 4)

    async def test_a_state_without_a_journal_comes_with_no_head(self, states: IAgentStateRepository) -> None:
        saved = await states.save(STATE)
        assert await states.get_with_head(RUN.run_id) == (saved, 0)

    async def test_a_commit_that_lost_the_run_changes_nothing_anywhere(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        read_outbox: ReadOutbox,
    ) -> None:
        await signals.append(SIGNAL)
        await journal.commit([commit_of(claim(1, epoch=2))])
        assert await commit_one(journal, FULL) == HeadMoved(1, 2)
        assert await states.get_or_none(RUN.run_id) is None
        assert [each.id for each in await signals.list_pending(RUN.run_id)] == [SIGNAL.id]
        assert await evidence.list_by_state(RUN.run_id) == []
        assert await read_outbox() == []

    async def test_a_commit_sent_again_repeats_nothing(
        self,
        journal: IAgentJournal,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        read_outbox: ReadOutbox,
    ) -> None:
        await signals.append(SIGNAL)
        await journal.commit([FULL])
        assert await commit_one(journal, FULL) == Committed(1)
        assert len(await evidence.list_by_state(RUN.run_id)) == 1
        assert await read_outbox() == [EVENT]

    async def test_on_a_journaled_run_only_the_journal_writes(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
    ) -> None:
        await journal.commit([replace(FULL, consumed_signals=())])
        await signals.append(SIGNAL)
        with pytest.raises(AgentDefinitionError):
            await states.save(replace(STATE, status=AgentStatus.COMPLETED))
        with pytest.raises(AgentDefinitionError):
            await signals.mark_consumed(SIGNAL.id)
        with pytest.raises(AgentDefinitionError):
            await evidence.append(replace(EVIDENCE, id="evidence-2"))
        assert (await states.get(RUN.run_id)).status is AgentStatus.ACTIVE
        assert len(await signals.list_pending(RUN.run_id)) == 1
        assert len(await evidence.list_by_state(RUN.run_id)) == 1

    async def test_the_state_counts_the_signals_that_are_pending_now(
        self, journal: IAgentJournal, states: IAgentStateRepository, signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([JournalCommit(RUN, "first", 0, (claim(1, epoch=1),), STATE)])
        await signals.append(SIGNAL)
        await signals.append(replace(SIGNAL, id="signal-2"))
        assert (await states.get(RUN.run_id)).pending_signal_count == 2
        await journal.commit([replace(commit_of(row(2)), consumed_signals=(SIGNAL.id,))])
        assert (await states.get(RUN.run_id)).pending_signal_count == 1

    async def test_a_committed_state_has_the_stores_timestamps(
        self, journal: IAgentJournal, states: IAgentStateRepository
    ) -> None:
        await journal.commit([JournalCommit(RUN, "first", 0, (claim(1, epoch=1),), STATE)])
        first = await states.get(RUN.run_id)
        await journal.commit([JournalCommit(RUN, "second", 1, (row(2),), STATE)])
        second = await states.get(RUN.run_id)
        assert first.created_at is not None
        assert second.created_at == first.created_at
        assert second.updated_at is not None
        assert second.updated_at >= first.created_at

    async def test_outbox_events_leave_in_the_order_of_the_commits(
        self, journal: IAgentJournal, read_outbox: ReadOutbox
    ) -> None:
        events = [OutboxEvent("Step", 1, {"number": number}) for number in range(4)]
        await journal.commit([replace(commit_of(row(1)), outbox=(events[0], events[1]))])
        await journal.commit([replace(commit_of(row(1), run=OTHER_RUN), outbox=(events[2],))])
        await journal.commit([replace(commit_of(row(2)), outbox=(events[3],))])
        assert await read_outbox() == events

    async def test_runs_are_listed_by_the_conversation_they_hold_or_held(
        self, journal: IAgentJournal, states: IAgentStateRepository
    ) -> None:
        done = replace(STATE, status=AgentStatus.COMPLETED)
        other = replace(STATE, id=OTHER_RUN.run_id)
        third = RunKey(RUN.tenant_id, "run-3")
        for run, state, conversation in (
            (RUN, done, "chat"),
            (OTHER_RUN, other, "chat"),
            (third, replace(STATE, id=third.run_id), None),
        ):
            begins = JournalCommit(run, "first", 0, (claim(1, epoch=1),), state, conversation=conversation)
            assert await commit_one(journal, begins) == Committed(1)
        found = await states.list_runs(RUN.tenant_id, conversation_id="chat")
        assert [each.id for each in found.runs] == [OTHER_RUN.run_id, RUN.run_id]
        assert (await states.list_runs(RUN.tenant_id, conversation_id="other")).runs == ()
