"""The promises of the backlog port."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pilotage.agent.ports.journal import IAgentJournal, JournalCommit
from pilotage.agent.ports.leases import LETS_GO_ON, IAgentBacklog, IAgentLeases
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.claims import AGENT, MANY, ClaimCounting, claimed, stand
from pilotage.testing.conformance.kit import FOREIGN_RUN, LONG, OTHER_RUN, RUN, PassTime, row

OPEN = [status for status in AgentStatus if not status.is_terminal]
UNDER_WAY = [AgentStatus.ACTIVE, AgentStatus.CANCELLING]
NO_HELP = sorted(set(AgentSignalKind) - LETS_GO_ON)
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_NEVER = datetime(2999, 1, 1, tzinfo=UTC)


class BacklogConformance(ClaimCounting):
    """Conformance tests of every backlog.

    Fixtures to give: `journal`, `states`, `signals`, `leases` and `backlog` over one empty store; `pass_time`, an
    async function after which the store's clock has gone on by that many seconds; and, where a store can be opened
    twice, `second_backlog`: another adapter over the same store, as a second process has it. Where time can only be
    waited for, set `short` to less.
    """

    @pytest.fixture
    def second_backlog(self, backlog: IAgentBacklog) -> IAgentBacklog:
        return backlog

    async def test_an_empty_store_has_no_backlog(self, backlog: IAgentBacklog) -> None:
        assert await claimed(backlog) == []
        assert await backlog.agents() == frozenset()

    @pytest.mark.parametrize("status", list(AgentStatus))
    async def test_runs_under_way_are_given_out_and_no_others(
        self, journal: IAgentJournal, backlog: IAgentBacklog, status: AgentStatus
    ) -> None:
        await stand(journal, status)
        assert await claimed(backlog) == ([RUN] if status in UNDER_WAY else [])

    async def test_a_lease_that_is_claimed_is_a_lease_like_any_other(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        (given,) = await backlog.claim("ada", LONG, MANY, agents=[AGENT])
        lease = given.lease
        assert (lease.run, lease.owner, lease.granted_seconds) == (RUN, "ada", LONG)
        assert await leases.holder(RUN) == lease
        assert await leases.acquire(RUN, "bob", LONG) is None
        assert await leases.renew(RUN, "ada", LONG) is not None
        await leases.release(RUN, "ada")
        assert await leases.holder(RUN) is None

    async def test_a_run_with_an_owner_is_passed_over(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN)
        held = await leases.acquire(RUN, "bob", LONG)
        await leases.acquire(OTHER_RUN, "ada", LONG)
        assert await claimed(backlog) == []
        assert await backlog.agents() == frozenset()
        assert await leases.holder(RUN) == held

    async def test_a_run_whose_lease_has_run_out_is_given_out(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog, pass_time: PassTime
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await leases.acquire(RUN, "bob", self.short)
        await pass_time(self.short)
        assert await claimed(backlog) == [RUN]
        assert await holder(leases) == "ada"
        assert await leases.renew(RUN, "bob", LONG) is None

    async def test_a_run_that_was_claimed_comes_again_when_its_lease_is_given_back(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        assert await claimed(backlog) == [RUN]
        assert await claimed(backlog) == []
        await leases.release(RUN, "ada")
        assert await claimed(backlog) == [RUN]

    @pytest.mark.parametrize("is_released", [True, False])
    async def test_a_run_that_was_driven_comes_again_only_while_it_is_under_way(
        self,
        journal: IAgentJournal,
        leases: IAgentLeases,
        backlog: IAgentBacklog,
        pass_time: PassTime,
        is_released: bool,
    ) -> None:
        for run in (RUN, OTHER_RUN, FOREIGN_RUN):
            await stand(journal, AgentStatus.ACTIVE, run=run)
            await leases.acquire(run, "bob", self.short)
        await stand(journal, AgentStatus.INTERRUPTED, head=1)
        await stand(journal, AgentStatus.COMPLETED, run=FOREIGN_RUN, head=1)
        if is_released:
            await leases.release_all("bob")
            for run in (RUN, OTHER_RUN):
                await leases.release(run, "bob")
        else:
            await pass_time(self.short)
        assert await claimed(backlog) == [OTHER_RUN]
        assert await claimed(backlog) == []
        # The run that waits has no lease, and any process can drive it.
        assert await leases.acquire(RUN, "cleo", LONG) is not None
        await leases.release(RUN, "cleo")
        await stand(journal, AgentStatus.ACTIVE, head=2)
        assert await claimed(backlog) == [RUN]

    async def test_of_many_who_claim_at_once_each_run_goes_to_one(
        self, journal: IAgentJournal, backlog: IAgentBacklog, second_backlog: IAgentBacklog
    ) -> None:
        runs = [RunKey("default", f"run-{number}") for number in range(10)]
        for run in runs:
            await stand(journal, AgentStatus.ACTIVE, run=run)
        ports = [backlog, second_backlog] * 3
        claims = await asyncio.gather(
            *(port.claim(f"owner-{number}", LONG, 3, agents=[AGENT]) for number, port in enumerate(ports))
        )
        given = [lease.run for claim in claims for lease in claim]
        assert len(given) == len(set(given))
        rest = await claimed(backlog)
        assert {*given, *rest} == set(runs)

    async def test_who_takes_a_lease_while_others_claim_does_not_share_the_run(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        lease, given = await asyncio.gather(
            leases.acquire(RUN, "bob", LONG), backlog.claim("ada", LONG, MANY, agents=[AGENT])
        )
        assert (lease is None) is (len(given) == 1)
        assert await holder(leases) == ("bob" if lease else "ada")

    async def test_a_limit_leaves_the_rest_to_others_and_the_longest_untouched_come_first(
        self, journal: IAgentJournal, backlog: IAgentBacklog, pass_time: PassTime
    ) -> None:
        runs = [RunKey("default", f"run-{number}") for number in (3, 1, 2)]
        for run in runs:
            await stand(journal, AgentStatus.ACTIVE, run=run)
            await pass_time(self.short / 10)
        assert await claimed(backlog, limit=2) == runs[:2]
        assert await claimed(backlog, limit=2) == runs[2:]

    async def test_runs_of_other_agents_are_passed_over_and_reported(
        self, journal: IAgentJournal, leases: IAgentLeases, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE, agent="shop:Unknown")
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN)
        assert await backlog.agents() == {"shop:Unknown", AGENT}
        assert await claimed(backlog) == [OTHER_RUN]
        assert await backlog.agents() == {"shop:Unknown"}
        assert await backlog.claim("ada", LONG, MANY, agents=[]) == []
        assert await leases.holder(RUN) is None

    async def test_excluded_runs_are_not_given_out(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        for run in (RUN, OTHER_RUN, FOREIGN_RUN):
            await stand(journal, AgentStatus.ACTIVE, run=run)
        assert await claimed(backlog, leaving=[RUN, OTHER_RUN], limit=2) == [FOREIGN_RUN]
        assert sorted(run.run_id for run in await claimed(backlog)) == ["run-1", "run-2"]

    @pytest.mark.parametrize("kind", sorted(LETS_GO_ON))
    async def test_a_run_that_waits_is_given_out_when_an_answer_has_come(
        self,
        journal: IAgentJournal,
        signals: IAgentSignalRepository,
        backlog: IAgentBacklog,
        kind: AgentSignalKind,
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED)
        await signals.append(AgentSignal("signal-1", RUN.run_id, kind, {"text": "well?"}))
        assert await backlog.agents() == {AGENT}
        assert await claimed(backlog) == [RUN]

    @pytest.mark.parametrize("kind", NO_HELP)
    async def test_a_run_that_waits_is_not_given_out_for_what_does_not_help_it(
        self,
        journal: IAgentJournal,
        signals: IAgentSignalRepository,
        backlog: IAgentBacklog,
        kind: AgentSignalKind,
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED)
        await signals.append(AgentSignal("signal-1", RUN.run_id, kind, {"text": "well?"}))
        assert await claimed(backlog) == []

    async def test_an_answer_that_was_taken_in_counts_no_more(
        self, journal: IAgentJournal, signals: IAgentSignalRepository, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED)
        await signals.append(AgentSignal("signal-1", RUN.run_id, AgentSignalKind.RESUME))
        taking = JournalCommit(RUN, "taken", 1, (row(2),), consumed_signals=("signal-1",))
        await journal.commit([taking])
        assert await claimed(backlog) == []

    async def test_an_answer_to_one_run_does_not_wake_another(
        self, journal: IAgentJournal, signals: IAgentSignalRepository, backlog: IAgentBacklog
    ) -> None:
        for run in (RUN, OTHER_RUN):
            await stand(journal, AgentStatus.INTERRUPTED, run=run)
        await signals.append(AgentSignal("signal-1", OTHER_RUN.run_id, AgentSignalKind.RESUME))
        assert await claimed(backlog) == [OTHER_RUN]

    async def test_a_signal_to_a_run_that_has_ended_makes_no_work(
        self, journal: IAgentJournal, signals: IAgentSignalRepository, backlog: IAgentBacklog
    ) -> None:
        await signals.append(AgentSignal("signal-1", RUN.run_id, AgentSignalKind.RESUME))
        await stand(journal, AgentStatus.COMPLETED, last_signal=1)
        assert await claimed(backlog) == []

    async def test_a_run_goes_on_when_the_message_has_come_that_it_awaits(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        backlog: IAgentBacklog,
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED, awaits=AgentSignalKind.EXTERNAL_EVENT)
        await stand(journal, AgentStatus.INTERRUPTED, run=OTHER_RUN)
        assert (await states.get(RUN.run_id)).awaits == AgentSignalKind.EXTERNAL_EVENT.value
        for run in (RUN, OTHER_RUN):
            await signals.append(
                AgentSignal(
                    f"message-{run.run_id}", run.run_id, AgentSignalKind.USER_MESSAGE, {"text": "well?"}
                )
            )
        assert await claimed(backlog) == []
        for run in (RUN, OTHER_RUN):
            event = AgentSignal(f"event-{run.run_id}", run.run_id, AgentSignalKind.EXTERNAL_EVENT)
            await signals.append(event)
        assert await claimed(backlog) == [RUN]

    @pytest.mark.parametrize("kind", sorted(LETS_GO_ON))
    async def test_a_cancelled_run_that_awaits_an_answer_is_given_out_for_nothing_else(
        self,
        journal: IAgentJournal,
        signals: IAgentSignalRepository,
        backlog: IAgentBacklog,
        kind: AgentSignalKind,
    ) -> None:
        answer = AgentSignalKind.APPROVAL_DECISION
        await stand(journal, AgentStatus.CANCELLING, awaits=answer)
        assert await backlog.agents() == frozenset()
        await signals.append(AgentSignal("signal-1", RUN.run_id, kind))
        assert await claimed(backlog) == ([RUN] if kind is answer else [])

    async def test_a_cancelled_run_that_awaits_an_answer_is_given_out_when_its_time_is_up(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        answer = AgentSignalKind.APPROVAL_DECISION
        await stand(journal, AgentStatus.CANCELLING, awaits=answer, wake_at=_NEVER)
        assert await claimed(backlog) == []
        await stand(journal, AgentStatus.CANCELLING, awaits=answer, wake_at=_LONG_AGO, head=1)
        assert await claimed(backlog) == [RUN]

    async def test_a_run_waits_until_its_time_is_up(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        backlog: IAgentBacklog,
        pass_time: PassTime,
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED, wake_at=_NEVER)
        stored = await states.get(RUN.run_id)
        assert (stored.wake_at, stored.created_at is not None) == (_NEVER, True)
        soon = (stored.created_at or _NEVER) + timedelta(seconds=self.short)
        await stand(journal, AgentStatus.INTERRUPTED, wake_at=soon, head=1)
        assert await claimed(backlog) == []
        await pass_time(self.short)
        assert await claimed(backlog) == [RUN]

    @pytest.mark.parametrize("status", [AgentStatus.COMPLETED, AgentStatus.FAILED])
    async def test_a_run_that_has_ended_never_wakes(
        self, journal: IAgentJournal, backlog: IAgentBacklog, status: AgentStatus
    ) -> None:
        await stand(journal, status, wake_at=_LONG_AGO)
        assert await claimed(backlog) == []

    @pytest.mark.parametrize("status", UNDER_WAY)
    async def test_a_run_that_belongs_to_another_goes_with_that_one(
        self, journal: IAgentJournal, backlog: IAgentBacklog, status: AgentStatus
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await stand(journal, status, run=OTHER_RUN, parent=RUN.run_id)
        assert await claimed(backlog) == [RUN]

    async def test_a_run_whose_parent_waits_is_given_out_without_an_owner(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN, parent=RUN.run_id)
        await stand(journal, AgentStatus.INTERRUPTED, head=1)
        assert await claimed(backlog) == [OTHER_RUN]

    @pytest.mark.parametrize("status", OPEN)
    async def test_a_run_whose_parent_has_ended_is_given_out_whatever_it_waits_for(
        self, journal: IAgentJournal, backlog: IAgentBacklog, status: AgentStatus
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await stand(journal, status, run=OTHER_RUN, parent=RUN.run_id)
        await stand(journal, AgentStatus.FAILED, head=1)
        assert await claimed(backlog) == [OTHER_RUN]

    async def test_a_run_that_has_ended_after_its_parent_is_over(
        self, journal: IAgentJournal, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        await stand(journal, AgentStatus.ACTIVE, run=OTHER_RUN, parent=RUN.run_id)
        await stand(journal, AgentStatus.CANCELLED, head=1)
        await stand(journal, AgentStatus.CANCELLED, run=OTHER_RUN, head=1)
        assert await claimed(backlog) == []

    async def test_a_run_that_belongs_to_another_is_given_out_when_its_answer_has_come(
        self, journal: IAgentJournal, signals: IAgentSignalRepository, backlog: IAgentBacklog
    ) -> None:
        await stand(journal, AgentStatus.INTERRUPTED)
        await stand(journal, AgentStatus.INTERRUPTED, run=OTHER_RUN, parent=RUN.run_id)
        await signals.append(AgentSignal("signal-1", OTHER_RUN.run_id, AgentSignalKind.APPROVAL_DECISION))
        assert await claimed(backlog) == [OTHER_RUN]

    async def test_a_state_without_a_journal_is_nobodys_run(
        self, states: IAgentStateRepository, backlog: IAgentBacklog
    ) -> None:
        await states.save(AgentState(RUN.run_id, AGENT, AgentStatus.ACTIVE))
        assert await claimed(backlog) == []

    @pytest.mark.parametrize(
        "asked",
        [(" ", LONG, 1), ("ada", 0.0, 1), ("ada", -1.0, 1), ("ada", float("inf"), 1), ("ada", LONG, 0)],
        ids=repr,
    )
    async def test_a_claim_of_runs_has_an_owner_an_end_and_a_size(
        self, journal: IAgentJournal, backlog: IAgentBacklog, asked: tuple[str, float, int]
    ) -> None:
        await stand(journal, AgentStatus.ACTIVE)
        with pytest.raises(AgentDefinitionError):
            await backlog.claim(*asked, agents=[AGENT])
        assert await claimed(backlog) == [RUN]


async def holder(leases: IAgentLeases) -> str | None:
    """Return the owner of the run's lease."""
    lease = await leases.holder(RUN)
    return lease.owner if lease else None
