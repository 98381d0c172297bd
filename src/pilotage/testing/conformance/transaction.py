"""The promises that the journal and the repositories keep together: one commit is one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.journal import (
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    OutboxEvent,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError, PilotageError
from pilotage.jsonvalue import JsonObject
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    OTHER_RUN,
    RUN,
    UNSTORABLE,
    Kit,
    claim,
    commit_of,
    commit_one,
    numbers_of,
    row,
)

ReadOutbox = Callable[[], Awaitable[Sequence[OutboxEvent]]]

STATE = AgentState(RUN.run_id, "shop:Refunds", AgentStatus.ACTIVE, tenant_id=RUN.tenant_id)
SIGNAL = AgentSignal("signal-1", RUN.run_id, AgentSignalKind.USER_MESSAGE, {"text": "hurry"})
EVIDENCE = AgentEvidence("evidence-1", RUN.run_id, AgentEvidenceKind.TOOL, {"result": 1})
EVENT = OutboxEvent("RunStarted", 1, {"run": RUN.run_id})
CHILD = JournalCommit(
    OTHER_RUN, "child", 0, (claim(1, epoch=1),), replace(STATE, id=OTHER_RUN.run_id), parent=RUN
)
FULL = JournalCommit(
    run=RUN,
    token="full",
    expected_head=0,
    rows=(claim(1, epoch=1),),
    state=STATE,
    consumed_signals=(SIGNAL.id,),
    evidence=(EVIDENCE,),
    outbox=(EVENT,),
)

_NO_JSON = cast(JsonObject, UNSTORABLE)
UNSTORABLE_EVIDENCE = replace(EVIDENCE, id="evidence-2", payload=_NO_JSON)
WRONG = {
    "no row": replace(FULL, rows=()),
    "a state without a JSON form": replace(FULL, state=replace(STATE, metadata=_NO_JSON)),
    "the state of another run": replace(FULL, state=replace(STATE, id=OTHER_RUN.run_id)),
    "the state of another tenant": replace(FULL, state=replace(STATE, tenant_id="elsewhere")),
    "an unknown signal": replace(FULL, consumed_signals=(SIGNAL.id, "signal-9")),
    "a signal twice": replace(FULL, consumed_signals=(SIGNAL.id, SIGNAL.id)),
    "evidence without a JSON form": replace(FULL, evidence=(EVIDENCE, UNSTORABLE_EVIDENCE)),
    "evidence of another run": replace(FULL, evidence=(replace(EVIDENCE, agent_state_id=OTHER_RUN.run_id),)),
    "evidence with an id twice": replace(FULL, evidence=(EVIDENCE, EVIDENCE)),
    "an event without a JSON form": replace(FULL, outbox=(EVENT, replace(EVENT, payload=_NO_JSON))),
}

CLOSED = [status for status in AgentStatus if status.is_terminal or status is AgentStatus.CANCELLING]
OPEN = [status for status in AgentStatus if status not in CLOSED]


def in_status(status: AgentStatus, head: int = 0) -> JournalCommit:
    """Return a commit of the run that puts it into a status."""
    return JournalCommit(RUN, f"{status} {head}", head, (row(head + 1),), replace(STATE, status=status))


class TransactionConformance(Kit):
    """Conformance tests of a journal and the repositories over its store together.

    Fixtures to give: `journal`, `states`, `signals` and `evidence`, all over one empty store, and `read_outbox`,
    an async function that returns the store's outbox events in order.
    """

    async def test_everything_in_a_commit_is_there_afterwards(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        read_outbox: ReadOutbox,
    ) -> None:
        await signals.append(SIGNAL)
        assert await commit_one(journal, FULL) == Committed(1, last_signal=1)
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
        assert await states.get_with_head(RUN.run_id) == (state, await journal.head(RUN))

    async def test_a_state_without_a_journal_comes_with_no_head(self, states: IAgentStateRepository) -> None:
        saved = await states.save(STATE)
        found = await states.get_with_head(RUN.run_id)
        assert found is not None
        state, head = found
        assert state == saved
        assert head is not None
        assert head.seq == 0

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
        assert await commit_one(journal, FULL) == Committed(1, last_signal=1)
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

    async def test_applications_add_evaluations_to_a_journaled_run(
        self, journal: IAgentJournal, evidence: IAgentEvidenceRepository
    ) -> None:
        await journal.commit([replace(FULL, consumed_signals=())])
        judged = replace(EVIDENCE, id="evidence-2", kind=AgentEvidenceKind.EVALUATION)
        await evidence.append(judged)
        with suppress(PilotageError):  # an adapter may refuse the id or ignore what comes with it
            await evidence.append(replace(judged, payload={"forged": True}))
        first, second = await evidence.list_by_state(RUN.run_id)
        assert (first.id, second.id) == (EVIDENCE.id, "evidence-2")
        assert second.payload == EVIDENCE.payload

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

    @pytest.mark.parametrize("commit", WRONG.values(), ids=WRONG.keys())
    async def test_a_refused_commit_changes_nothing_anywhere(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        read_outbox: ReadOutbox,
        commit: JournalCommit,
    ) -> None:
        await signals.append(SIGNAL)
        refused, committed = await journal.commit([commit, commit_of(row(1), run=OTHER_RUN)])
        assert isinstance(refused, CommitRefused)
        assert refused.reason
        assert committed == Committed(1)
        assert await journal.head(RUN) is None
        assert await states.get_or_none(RUN.run_id) is None
        assert await states.get_or_none(OTHER_RUN.run_id) is None
        assert [each.id for each in await signals.list_pending(RUN.run_id)] == [SIGNAL.id]
        assert await evidence.list_by_state(RUN.run_id) == []
        assert await read_outbox() == []

    async def test_a_signal_is_consumed_once(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(SIGNAL)
        await journal.commit([replace(FULL, evidence=())])
        again = replace(commit_of(row(2)), consumed_signals=(SIGNAL.id,))
        assert isinstance(await commit_one(journal, again), CommitRefused)
        assert await numbers_of(journal) == [1]

    async def test_a_run_cannot_consume_the_signal_of_another(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(replace(SIGNAL, agent_state_id=OTHER_RUN.run_id))
        assert isinstance(await commit_one(journal, FULL), CommitRefused)
        assert [each.id for each in await signals.list_pending(OTHER_RUN.run_id)] == [SIGNAL.id]

    async def test_a_tenant_cannot_consume_the_signal_of_another(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(SIGNAL)
        foreign = RunKey("elsewhere", RUN.run_id)
        taking = replace(commit_of(row(1), run=foreign), consumed_signals=(SIGNAL.id,))
        assert isinstance(await commit_one(journal, taking), CommitRefused)

    @pytest.mark.parametrize("status", OPEN)
    async def test_a_parent_that_goes_on_or_waits_can_have_children(
        self, journal: IAgentJournal, status: AgentStatus
    ) -> None:
        await journal.commit([in_status(status)])
        assert await commit_one(journal, CHILD) == Committed(1)

    @pytest.mark.parametrize("status", CLOSED)
    async def test_a_parent_that_is_cancelling_or_has_ended_starts_nothing(
        self, journal: IAgentJournal, states: IAgentStateRepository, status: AgentStatus
    ) -> None:
        await journal.commit([in_status(AgentStatus.ACTIVE)])
        _, refused = await journal.commit([in_status(status, head=1), CHILD])
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.PARENT_CLOSED
        assert f"'{RUN.run_id}'" in refused.reason
        assert status.value in refused.reason
        assert await journal.head(OTHER_RUN) is None
        assert await states.get_or_none(OTHER_RUN.run_id) is None

    async def test_a_parent_that_does_not_exist_starts_nothing(self, journal: IAgentJournal) -> None:
        elsewhere = replace(STATE, tenant_id="elsewhere")
        namesake = JournalCommit(RunKey("elsewhere", RUN.run_id), "first", 0, (row(1),), elsewhere)
        _, refused = await journal.commit([namesake, CHILD])
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.PARENT_CLOSED
        assert await journal.head(OTHER_RUN) is None

    async def test_a_child_that_has_started_goes_on_whatever_becomes_of_its_parent(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit(
            [in_status(AgentStatus.ACTIVE), CHILD, in_status(AgentStatus.CANCELLING, head=1)]
        )
        assert await commit_one(journal, CHILD) == Committed(1)
        assert await commit_one(journal, commit_of(row(2), run=OTHER_RUN)) == Committed(2)

    async def test_evidence_is_recorded_once_for_a_tenant(
        self, journal: IAgentJournal, evidence: IAgentEvidenceRepository
    ) -> None:
        first = replace(commit_of(claim(1, epoch=1)), evidence=(EVIDENCE,))
        assert await commit_one(journal, first) == Committed(1)
        again = replace(commit_of(row(2)), evidence=(replace(EVIDENCE, payload={"result": 2}),))
        elsewhere = replace(EVIDENCE, agent_state_id=OTHER_RUN.run_id)
        others = replace(commit_of(row(1), run=OTHER_RUN), evidence=(elsewhere,))
        for refused in (await commit_one(journal, again), await commit_one(journal, others)):
            assert refused == CommitRefused(f"evidence {EVIDENCE.id!r} is recorded already")
        assert [each.payload for each in await evidence.list_by_state(RUN.run_id)] == [EVIDENCE.payload]
        assert await journal.head(OTHER_RUN) is None
        foreign = replace(commit_of(row(1), run=FOREIGN_RUN), evidence=(EVIDENCE,))
        assert await commit_one(journal, foreign) == Committed(1)

    async def test_each_commit_of_a_call_sees_what_those_before_it_have_done(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(SIGNAL)
        outcomes = await journal.commit(
            [
                replace(FULL, outbox=()),
                replace(commit_of(row(2), token="signal"), consumed_signals=(SIGNAL.id,)),
                replace(commit_of(row(2), token="evidence"), evidence=(EVIDENCE,)),
                commit_of(row(2), token="right"),
            ]
        )
        assert [type(outcome) for outcome in outcomes] == [Committed, CommitRefused, CommitRefused, Committed]
        assert await numbers_of(journal) == [1, 2]

    async def test_a_rule_is_applied_before_a_payload_is_looked_at(self, journal: IAgentJournal) -> None:
        orphan = replace(CHILD, rows=(row(1, record=UNSTORABLE),))
        refused = await commit_one(journal, orphan)
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.PARENT_CLOSED
