"""The promises of the backlog port about claims: their counting, when a run is due, the owner of suspects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from pilotage.agent.ports.journal import IAgentJournal, JournalCommit
from pilotage.agent.ports.leases import (
    LETS_GO_ON,
    LETS_POISONED_GO_ON,
    LONGEST_DELAY,
    NO_CLAIMS,
    SUSPECT_FROM,
    WAITS_FOR_PERSON,
    IAgentBacklog,
    IAgentLeases,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.kit import FOREIGN_RUN, LONG, OTHER_RUN, RUN, PassTime, TimedKit, claim, row

AGENT = "shop:Refunds"
MANY = 100
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class ClaimCounting(TimedKit):
    """Conformance tests of every backlog about claims without progress; a part of `BacklogConformance`."""

    async def test_a_claim_counts_until_there_is_progress(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        for _ in range(2):
            await backlog.begin(RUN, 0.0)
        first = await backlog.claims_of(RUN)
        assert (first.count, first.problem) == (2, None)
        assert first.last_claim is not None
        await journal.commit([JournalCommit(RUN, "taken over", 1, (claim(2, epoch=2),))])
        assert (await backlog.claims_of(RUN)).count == 2
        await journal.commit([JournalCommit(RUN, "a row", 2, (row(3),))])
        assert (await backlog.claims_of(RUN)).count == 0

    @pytest.mark.parametrize("has_state", [True, False])
    async def test_a_row_beside_a_claim_is_progress(
        self, journal: IAgentJournal, backlog: IAgentBacklog, has_state: bool
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await backlog.begin(RUN, 0.0)
        state = AgentState(RUN.run_id, AGENT, AgentStatus.ACTIVE) if has_state else None
        rows = (claim(2, epoch=2), row(3))
        await journal.commit([JournalCommit(RUN, "both", 1, rows, state)])
        assert (await backlog.claims_of(RUN)).count == 0

    async def test_a_claim_that_does_not_count_is_taken_back_and_never_below_zero(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await backlog.begin(RUN, 0.0)
        await backlog.settle(RUN, counts=True, problem="first")
        await backlog.begin(RUN, 0.0)
        await backlog.settle(RUN, counts=False)
        known = await backlog.claims_of(RUN)
        assert (known.count, known.problem, known.next_claim) == (1, "first", None)
        for _ in range(3):
            await backlog.settle(RUN, counts=False, problem="second")
        known = await backlog.claims_of(RUN)
        assert (known.count, known.problem) == (0, "second")

    async def test_a_run_is_not_given_out_before_its_delay_is_over(
        self,
        journal: IAgentJournal,
        backlog: IAgentBacklog,
        second_backlog: IAgentBacklog,
        pass_time: PassTime,
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await backlog.begin(RUN, self.short)
        delay = (await backlog.claims_of(RUN)).delay
        assert delay is not None
        assert abs(delay.total_seconds() - self.short) < 0.01
        assert await claimed(second_backlog) == []
        assert await backlog.agents() == frozenset()
        await pass_time(2 * self.short)
        assert await claimed(second_backlog) == [RUN]

    async def test_the_end_of_a_claim_sets_its_own_delay(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await backlog.begin(RUN, 0.0)
        await backlog.settle(RUN, counts=True, delay_seconds=LONGEST_DELAY.total_seconds())
        assert await claimed(backlog) == []
        await backlog.settle(RUN, counts=True)
        assert await claimed(backlog) == [RUN]

    async def test_suspects_are_given_out_one_at_a_time_and_on_request(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog
    ) -> None:
        for run in (RUN, OTHER_RUN, FOREIGN_RUN):
            await stand(journal, AgentStatus.ACTIVE, run=run)
        for _ in range(SUSPECT_FROM):
            await backlog.begin(RUN, 0.0)
            await backlog.begin(OTHER_RUN, 0.0)
        assert await claimed(backlog, suspects=True) == [FOREIGN_RUN, RUN]
        assert await claimed(backlog) == []
        (last,) = await backlog.claim("ada", LONG, 1, agents=[AGENT], suspects=True)
        assert (last.run, last.claims.count) == (OTHER_RUN, SUSPECT_FROM)

    @pytest.mark.parametrize("kind", sorted(LETS_GO_ON))
    @pytest.mark.parametrize("reason", sorted(WAITS_FOR_PERSON))
    async def test_a_poisoned_or_diverged_run_waits_for_a_person(
        self,
        journal: IAgentJournal,
        signals: IAgentSignalRepository,
        backlog: IAgentBacklog,
        kind: AgentSignalKind,
        reason: AgentStateReason,
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED, reason=reason, wake_at=_LONG_AGO, awaits=kind)
        assert await claimed(backlog, suspects=True) == []
        await signals.append(AgentSignal("signal-1", RUN.run_id, kind))
        assert await claimed(backlog) == ([RUN] if kind in LETS_POISONED_GO_ON else [])
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN)
        await stand(journal, AgentStatus.INTERRUPTED, run=OTHER_RUN, head=1, reason=reason)
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN, head=2)
        assert await claimed(backlog) == [OTHER_RUN]

    async def test_a_run_that_a_person_resumes_has_no_claims(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN)
        for run in (RUN, OTHER_RUN):
            await backlog.begin(run, LONGEST_DELAY.total_seconds())
        await backlog.settle(RUN, counts=True, delay_seconds=1.0, problem="it broke")
        await backlog.forget(RUN)
        assert await backlog.claims_of(RUN) == NO_CLAIMS
        assert (await backlog.claims_of(OTHER_RUN)).count == 1
        assert await claimed(backlog) == [RUN]

    @pytest.mark.parametrize("seconds", [-1.0, float("nan"), 2 * LONGEST_DELAY.total_seconds()], ids=repr)
    async def test_a_delay_has_bounds(
        self, journal: IAgentJournal, backlog: IAgentBacklog, seconds: float
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        with pytest.raises(AgentDefinitionError):
            await backlog.begin(RUN, seconds)
        with pytest.raises(AgentDefinitionError):
            await backlog.settle(RUN, counts=True, delay_seconds=seconds)
        assert await backlog.claims_of(RUN) == NO_CLAIMS


async def stand(
    journal: IAgentJournal,
    status: AgentStatus,
    *,
    run: RunKey = RUN,
    agent: str = AGENT,
    parent: str | None = None,
    wake_at: datetime | None = None,
    awaits: str | None = None,
    head: int = 0,
    reason: AgentStateReason | None = None,
    last_signal: int = 0,
) -> None:
    """Commit a run, or its next row, with a status."""
    facts = {"parent": parent} if parent else {}
    state = AgentState(
        run.run_id,
        agent,
        status,
        reason=reason,
        tenant_id=run.tenant_id,
        metadata=facts,
        wake_at=wake_at,
        awaits=str(awaits) if awaits else None,
    )
    rows = (row(head + 1) if head else claim(1, epoch=1),)
    above = RunKey(run.tenant_id, parent) if parent else None
    commit = JournalCommit(
        run, f"token-{head}", head, rows, state=state, parent=above, last_signal=last_signal
    )
    await journal.commit([commit])


async def claimed(
    backlog: IAgentBacklog, *, limit: int = MANY, leaving: Sequence[RunKey] = (), suspects: bool = False
) -> list[RunKey]:
    """Return the runs that one claim gives."""
    given = await backlog.claim("ada", LONG, limit, agents=[AGENT], leaving=leaving, suspects=suspects)
    return [entry.run for entry in given]
