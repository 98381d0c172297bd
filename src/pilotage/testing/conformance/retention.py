"""The promises of the retention port."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns, ITaskStore
from pilotage.agent.ports.journal import Committed, IAgentJournal, JournalCommit
from pilotage.agent.ports.persistence import ErasedRecord, JournalRow, RunKey, SealedRecord
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentRetention,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError, CallerError, RunNotFoundError
from pilotage.runtime.journal.chain import NO_HEAD, chained, first_broken
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    OTHER_RUN,
    PAYLOAD,
    RUN,
    Kit,
    claim,
    commit_one,
    row,
    rows_of,
)

# Later than the clock of any store under test.
LATER = datetime(2100, 1, 1, tzinfo=UTC)
LONG = "long " * 10_000
NOT_ENDED = [status for status in AgentStatus if not status.is_terminal]


def chain(*rows: JournalRow) -> tuple[JournalRow, ...]:
    """Return rows as a ledger chains them, each with a salt."""
    linked: list[JournalRow] = []
    for each in rows:
        previous = linked[-1].digest if linked else NO_HEAD.digest
        linked.append(chained(replace(each, salt="a salt"), previous))
    return tuple(linked)


ROWS = chain(
    claim(1, epoch=1),
    replace(row(2, record=PAYLOAD, view={"to": "[REDACTED]"}), events='[1,"Ada"]'),
    row(3, record=SealedRecord("key", "c2VhbGVk"), view={"secret": LONG}),
    row(4, record={"said": LONG}, view={"said": LONG}),
)


def ended(
    run: RunKey = RUN, status: AgentStatus = AgentStatus.COMPLETED, parent: RunKey | None = None
) -> JournalCommit:
    """Return all of a run in one commit."""
    state = AgentState(
        run.run_id, "shop:Helpdesk", status, metadata={"input": "Ada"}, tenant_id=run.tenant_id
    )
    turns = ConversationTurns(
        "chat", (ConversationTurn("user", "I am Ada"), ConversationTurn("assistant", "Hi, Ada"))
    )
    evidence = AgentEvidence(
        f"evidence of {run.run_id}", run.run_id, AgentEvidenceKind.TOOL, {"result": "Ada"}
    )
    return JournalCommit(
        run, "all", 0, ROWS, state, evidence=(evidence,), parent=parent, conversation="chat", turns=turns
    )


class RetentionConformance(Kit):
    """Conformance tests of every retention port.

    Fixtures to give: `retention`, `journal`, `states`, `signals`, `evidence` and `conversations`, over one empty store.
    """

    async def test_an_erased_run_says_nothing_and_its_chain_holds(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        await journal.commit([ended()])
        await retention.erase(RUN)
        stored = await rows_of(journal)
        assert [each.digest for each in stored] == [each.digest for each in ROWS]
        assert all(isinstance(each.record, ErasedRecord) and each.view is None for each in stored)
        assert {(each.salt, each.events) for each in stored} == {("", "")}
        assert first_broken(stored) is None

    async def test_how_an_erased_run_ended_is_still_known(
        self, retention: IAgentRetention, journal: IAgentJournal, states: IAgentStateRepository
    ) -> None:
        await journal.commit([ended(status=AgentStatus.FAILED)])
        await retention.erase(RUN)
        state = await states.get(RUN.run_id)
        assert (state.status, state.agent_type) == (AgentStatus.FAILED, "shop:Helpdesk")
        assert "Ada" not in str(state)
        head = await journal.head(RUN)
        assert head is not None
        assert (head.seq, head.digest) == (4, ROWS[-1].digest)

    async def test_evidence_signals_and_events_are_erased_too(
        self,
        retention: IAgentRetention,
        journal: IAgentJournal,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        conversations: ITaskStore,
    ) -> None:
        await conversations.append_tenant_turns(
            "default", "chat", [ConversationTurn("user", "somebody else")]
        )
        signal = AgentSignal("signal-1", RUN.run_id, AgentSignalKind.USER_MESSAGE, {"text": "Ada"})
        taken = replace(signal, id="signal-2")
        for each in (signal, taken):
            await signals.append(each)
        await journal.commit([replace(ended(), consumed_signals=(taken.id,), last_signal=2)])
        await retention.erase(RUN)
        assert await evidence.list_by_state(RUN.run_id) == []
        assert [each.payload for each in await signals.list_pending(RUN.run_id)] == [{}]
        assert (await signals.append(taken)).payload == {}
        contents = [turn.content for turn in await conversations.tenant_history("default", "chat")]
        assert contents[0] == "somebody else"
        assert len(contents) == 3
        assert "Ada" not in str(contents)

    async def test_erasing_again_does_nothing(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        await journal.commit([ended()])
        await retention.erase(RUN)
        once = await rows_of(journal)
        await retention.erase(RUN)
        assert await rows_of(journal) == once

    async def test_a_run_is_erased_alone(self, retention: IAgentRetention, journal: IAgentJournal) -> None:
        await journal.commit([ended(), replace(ended(OTHER_RUN), turns=None), ended(FOREIGN_RUN)])
        await retention.erase(RUN)
        for run in (OTHER_RUN, FOREIGN_RUN):
            assert [replace(each, created_at=None) for each in await rows_of(journal, run)] == list(ROWS)

    @pytest.mark.parametrize("status", NOT_ENDED)
    async def test_a_run_that_has_not_ended_is_neither_erased_nor_pruned(
        self, retention: IAgentRetention, journal: IAgentJournal, status: AgentStatus
    ) -> None:
        await journal.commit([ended(status=status)])
        with pytest.raises(CallerError):
            await retention.erase(RUN)
        assert await retention.prune("default", ended_before=LATER) == 0
        assert [replace(each, created_at=None) for each in await rows_of(journal)] == list(ROWS)

    async def test_an_unknown_run_is_not_erased(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        await journal.commit([ended(FOREIGN_RUN)])
        with pytest.raises(RunNotFoundError):
            await retention.erase(RUN)

    @pytest.mark.parametrize("named_by", ["the commit", "the state"])
    async def test_a_child_stays_whole_until_its_parent_has_ended(
        self, retention: IAgentRetention, journal: IAgentJournal, named_by: str
    ) -> None:
        parent = replace(ended(status=AgentStatus.INTERRUPTED), conversation=None, turns=None)
        child = replace(ended(OTHER_RUN, parent=RUN), conversation=None, turns=None)
        if named_by == "the state" and child.state is not None:
            named = replace(child.state, metadata={"parent": RUN.run_id})
            child = replace(child, parent=None, state=named)
        await journal.commit([parent, child])
        with pytest.raises(CallerError):
            await retention.erase(OTHER_RUN)
        assert await retention.prune("default", ended_before=LATER) == 0
        over = replace(ended().state or AgentState("", "", AgentStatus.FAILED), status=AgentStatus.CANCELLED)
        assert await commit_one(journal, JournalCommit(RUN, "over", 4, (row(5),), over)) == Committed(5)
        await retention.erase(OTHER_RUN)
        assert await retention.prune("default", ended_before=LATER) == 2

    async def test_a_pruned_run_is_gone_with_everything_about_it(
        self,
        retention: IAgentRetention,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        evidence: IAgentEvidenceRepository,
        conversations: ITaskStore,
    ) -> None:
        await signals.append(
            AgentSignal("signal-1", RUN.run_id, AgentSignalKind.USER_MESSAGE, {"text": "Ada"})
        )
        await journal.commit([replace(ended(), last_signal=1)])
        assert await retention.prune("default", ended_before=LATER) == 1
        assert await journal.head(RUN) is None
        assert await rows_of(journal) == []
        assert await states.get_or_none(RUN.run_id) is None
        assert await signals.list_pending(RUN.run_id) == []
        assert await evidence.list_by_state(RUN.run_id) == []
        assert len(await conversations.tenant_history("default", "chat")) == 2
        assert await commit_one(journal, ended()) == Committed(4)

    async def test_only_what_ended_before_the_moment_is_pruned_in_the_tenant_that_is_named(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        await journal.commit([ended(), ended(FOREIGN_RUN)])
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        assert await retention.prune("default", ended_before=long_ago) == 0
        assert await retention.prune("elsewhere", ended_before=LATER) == 1
        assert await journal.head(RUN) is not None
        assert await journal.head(FOREIGN_RUN) is None

    async def test_runs_are_pruned_oldest_first_and_not_more_than_asked_for(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        keys = [RunKey("default", f"run-{number}") for number in range(5)]
        for key in keys:
            await journal.commit([replace(ended(key), conversation=None, turns=None)])
        assert await retention.prune("default", ended_before=LATER, limit=2) == 2
        assert [await journal.head(key) is not None for key in keys] == [False, False, True, True, True]
        assert await retention.prune("default", ended_before=LATER, limit=9) == 3

    async def test_a_payload_that_two_runs_share_is_there_until_both_are_gone(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        await journal.commit([ended(), replace(ended(OTHER_RUN), conversation="other", turns=None)])
        await retention.erase(RUN)
        assert [replace(each, created_at=None) for each in await rows_of(journal, OTHER_RUN)] == list(ROWS)
        await retention.erase(OTHER_RUN)
        assert first_broken(await rows_of(journal, OTHER_RUN)) is None

    async def test_a_reader_of_what_is_pruned_comes_to_an_end(
        self, retention: IAgentRetention, journal: IAgentJournal
    ) -> None:
        await journal.commit([ended()])
        reading = journal.read(RUN)
        assert (await anext(reading)).seq == 1
        await retention.prune("default", ended_before=LATER)
        assert [each.seq async for each in reading] in ([], [2, 3, 4])
        if isinstance(reading, AsyncGenerator):
            await reading.aclose()

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_something_is_to_be_pruned(self, retention: IAgentRetention, limit: int) -> None:
        with pytest.raises(AgentDefinitionError):
            await retention.prune("default", ended_before=LATER, limit=limit)

    async def test_retention_refuses_a_moment_without_a_time_zone(self, retention: IAgentRetention) -> None:
        with pytest.raises(AgentDefinitionError):
            await retention.prune("default", ended_before=datetime(2020, 1, 1))  # noqa: DTZ001 - the mistake
