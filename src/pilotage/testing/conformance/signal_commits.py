"""The promises that the journal and the queue of signals keep together: no accepted signal is ignored."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    ClosedSignal,
    CommitOutcome,
    CommitRefused,
    Committed,
    IAgentJournal,
    JournalCommit,
    SignalsUnread,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import CallerError
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    OTHER_RUN,
    RUN,
    Kit,
    claim,
    commit_of,
    commit_one,
    numbers_of,
    row,
)

ENDS = [status for status in AgentStatus if status.is_terminal]
LATE = ClosedSignal("signal-1", AgentSignalEnd.TOO_LATE)
WRONG = {
    "an unknown signal": (replace(LATE, signal_id="signal-9"),),
    "a signal twice": (LATE, LATE),
    "a signal of another run": (replace(LATE, signal_id="signal-2"),),
}


def message(number: int, run: RunKey = RUN) -> AgentSignal:
    """Return a signal for a run."""
    return AgentSignal(
        f"signal-{number}", run.run_id, AgentSignalKind.USER_MESSAGE, {"number": number, "text": "well?"}
    )


def begin(run: RunKey = RUN) -> JournalCommit:
    """Return the first commit of a run."""
    state = AgentState(run.run_id, "shop:Refunds", AgentStatus.ACTIVE, tenant_id=run.tenant_id)
    return replace(commit_of(claim(1, epoch=1), run=run), state=state)


def end(
    last_signal: int, run: RunKey = RUN, status: AgentStatus = AgentStatus.COMPLETED, head: int = 1
) -> JournalCommit:
    """Return the commit that ends a run, of a writer that has read the signals up to a number."""
    state = AgentState(run.run_id, "shop:Refunds", status, tenant_id=run.tenant_id)
    rows = commit_of(row(head + 1), run=run, token=f"end {last_signal} {head}")
    return replace(rows, state=state, last_signal=last_signal)


class SignalCommitConformance(Kit):
    """Conformance tests of a journal and the signal repository over its store together.

    Fixtures to give: `journal`, `states` and `signals` over one empty store, and `second_signals`, over the same store
    as another process has it.
    """

    async def test_every_commit_brings_back_the_number_of_the_last_signal(
        self, journal: IAgentJournal, second_signals: IAgentSignalRepository
    ) -> None:
        assert await commit_one(journal, begin()) == Committed(1, last_signal=0)
        for number in (1, 2):
            await second_signals.append(message(number))
        assert await commit_one(journal, commit_of(row(2))) == Committed(2, last_signal=2)
        taking = replace(commit_of(row(3)), consumed_signals=("signal-1", "signal-2"))
        assert await commit_one(journal, taking) == Committed(3, last_signal=2)
        assert await commit_one(journal, taking) == Committed(3, last_signal=2)
        await second_signals.append(message(3))
        waiting = AgentState(RUN.run_id, "shop:Refunds", AgentStatus.INTERRUPTED, tenant_id=RUN.tenant_id)
        assert await commit_one(journal, replace(commit_of(row(4)), state=waiting)) == Committed(4, 3)

    async def test_each_run_has_the_number_of_its_own_last_signal(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin(), begin(OTHER_RUN), begin(RunKey("default", "run-3"))])
        await signals.append(message(1))
        await signals.append(message(2, OTHER_RUN))
        await signals.append(message(3, OTHER_RUN))
        commits = [commit_of(row(2), run=run) for run in (OTHER_RUN, RUN, RunKey("default", "run-3"))]
        assert await journal.commit(commits) == [Committed(2, 2), Committed(2, 1), Committed(2, 0)]

    async def test_a_signal_that_came_before_its_run_counts(
        self, journal: IAgentJournal, states: IAgentStateRepository, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(message(1))
        assert await states.get_or_none(RUN.run_id) is None
        assert await journal.head(RUN) is None
        assert isinstance(await commit_one(journal, end(0, head=0)), SignalsUnread)
        assert await commit_one(journal, begin()) == Committed(1, last_signal=1)

    async def test_an_id_that_is_sent_again_has_one_number(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin()])
        await asyncio.gather(*(signals.append(message(1)) for _ in range(3)))
        assert await commit_one(journal, end(1)) == Committed(2, last_signal=1)

    @pytest.mark.parametrize("status", ENDS)
    async def test_a_run_does_not_end_over_a_signal_that_its_writer_has_not_read(
        self,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        second_signals: IAgentSignalRepository,
        status: AgentStatus,
    ) -> None:
        await journal.commit([begin()])
        await signals.append(message(1))
        assert await commit_one(journal, commit_of(row(2))) == Committed(2, last_signal=1)
        await second_signals.append(message(2))
        closing = replace(end(1, status=status, head=2), closed_signals=(LATE,))
        assert await commit_one(journal, closing) == SignalsUnread(2)
        assert await numbers_of(journal) == [1, 2]
        assert (await states.get(RUN.run_id)).status is AgentStatus.ACTIVE
        assert [each.id for each in await signals.list_pending(RUN.run_id)] == ["signal-1", "signal-2"]
        assert await commit_one(journal, end(2, status=status, head=2)) == Committed(3, last_signal=2)

    async def test_a_run_that_others_end_beside_is_not_held_up(
        self, journal: IAgentJournal, second_signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin(), begin(OTHER_RUN)])
        await second_signals.append(message(1))
        outcomes = await journal.commit([end(0), end(0, OTHER_RUN)])
        assert outcomes == [SignalsUnread(1), Committed(2, last_signal=0)]

    async def test_the_signals_of_other_runs_and_tenants_do_not_count(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin(), begin(OTHER_RUN), begin(FOREIGN_RUN)])
        await signals.append(message(1, OTHER_RUN))
        assert await commit_one(journal, end(0)) == Committed(2, last_signal=0)
        assert await commit_one(journal, end(0, FOREIGN_RUN)) == Committed(2, last_signal=0)

    async def test_only_the_commit_that_ends_a_run_must_know_its_signals(
        self, journal: IAgentJournal, signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin()])
        await signals.append(message(1))
        for number, status in enumerate((AgentStatus.INTERRUPTED, AgentStatus.CANCELLING), start=1):
            assert await commit_one(journal, end(0, status=status, head=number)) == Committed(number + 1, 1)
        assert await commit_one(journal, end(1, head=3)) == Committed(4, 1)
        assert await commit_one(journal, end(0, head=4)) == Committed(5, 1)

    async def test_a_signal_has_the_end_that_a_commit_gave_it(
        self, journal: IAgentJournal, signals: IAgentSignalRepository, second_signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin()])
        numbers = (1, 2, 3, 4)
        for number in numbers:
            assert (await signals.append(message(number))).end is None
        assert [each.end for each in await signals.list_pending(RUN.run_id)] == [None] * 4
        closed = (
            ClosedSignal("signal-2", AgentSignalEnd.SUPERSEDED),
            ClosedSignal("signal-3", AgentSignalEnd.TOO_LATE),
            ClosedSignal("signal-4", AgentSignalEnd.REFUSED),
        )
        await journal.commit([replace(end(4), consumed_signals=("signal-1",), closed_signals=closed)])
        assert await signals.list_pending(RUN.run_id) == []
        again = [await second_signals.append(message(number)) for number in numbers]
        assert [each.end for each in again] == list(AgentSignalEnd)
        assert [each.payload for each in again] == [{"number": number, "text": "well?"} for number in numbers]

    async def test_a_run_that_has_ended_refuses_signals(
        self, journal: IAgentJournal, states: IAgentStateRepository, second_signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin()])
        await journal.commit([end(0)])
        for kind in AgentSignalKind:
            with pytest.raises(CallerError, match="takes no signals any more"):
                await second_signals.append(AgentSignal("signal-1", RUN.run_id, kind))
        assert await second_signals.list_pending(RUN.run_id) == []
        assert (await states.get(RUN.run_id)).pending_signal_count == 0
        assert await commit_one(journal, commit_of(row(3))) == Committed(3, last_signal=0)

    async def test_a_run_that_has_ended_keeps_a_refused_answer(
        self, journal: IAgentJournal, states: IAgentStateRepository, second_signals: IAgentSignalRepository
    ) -> None:
        await journal.commit([begin()])
        await journal.commit([end(0)])
        before = await states.get(RUN.run_id)
        answer = AgentSignal("late", RUN.run_id, AgentSignalKind.APPROVAL_DECISION, {"decision": "reject"})
        refused = await second_signals.record_refused(answer)
        assert await second_signals.list_answers(RUN.run_id) == [refused]
        assert refused.end is AgentSignalEnd.REFUSED
        assert await second_signals.list_pending(RUN.run_id) == []
        assert await states.get(RUN.run_id) == before

    @pytest.mark.parametrize("closed", WRONG.values(), ids=WRONG.keys())
    async def test_only_a_pending_signal_of_the_run_can_be_closed(
        self, journal: IAgentJournal, signals: IAgentSignalRepository, closed: tuple[ClosedSignal, ...]
    ) -> None:
        await journal.commit([begin(), begin(OTHER_RUN)])
        await signals.append(message(1))
        await signals.append(message(2, OTHER_RUN))
        outcome = await commit_one(journal, replace(end(1), closed_signals=closed))
        assert isinstance(outcome, CommitRefused)
        taking = replace(end(1), consumed_signals=("signal-1",))
        assert isinstance(await commit_one(journal, replace(taking, closed_signals=(LATE,))), CommitRefused)
        assert await commit_one(journal, taking) == Committed(2, last_signal=1)

    async def test_a_signal_is_known_to_the_end_or_refused_however_close_they_come(
        self, journal: IAgentJournal, states: IAgentStateRepository, second_signals: IAgentSignalRepository
    ) -> None:
        for number in range(12):
            run = RunKey(RUN.tenant_id, f"close-{number}")
            await journal.commit([begin(run)])
            ending, sending = _ending(journal, run, number % 4), _sending(second_signals, run)
            outcome, is_accepted = await asyncio.gather(ending, sending)
            state = await states.get(run.run_id)
            assert isinstance(outcome, SignalsUnread) is is_accepted
            assert state.is_terminal is not is_accepted
            assert len(await second_signals.list_pending(run.run_id)) == is_accepted


async def _ending(journal: IAgentJournal, run: RunKey, turns: int) -> CommitOutcome:
    for _ in range(turns):
        await asyncio.sleep(0)
    return await commit_one(journal, end(0, run))


async def _sending(signals: IAgentSignalRepository, run: RunKey) -> bool:
    """Return whether a signal was accepted."""
    try:
        await signals.append(AgentSignal(f"to {run.run_id}", run.run_id, AgentSignalKind.PAUSE))
    except CallerError:
        return False
    return True
