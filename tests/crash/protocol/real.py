"""The real ledger, writer and store, driven through the steps of the model and compared with it after each.

Nothing here decides anything: the model says which step comes next, the real code says what comes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from pilotage.agent.ports.journal import (
    CommitOutcome,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    JournalHead,
)
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.ids import IIds
from pilotage.runtime.journal.chain import NO_HEAD, first_broken
from pilotage.runtime.journal.commits import JournalWriter
from pilotage.runtime.journal.interruptions import RunOwnershipLost
from pilotage.runtime.journal.ledger import Ledger
from pilotage.testing.faults import ProcessStopped
from pilotage.testing.ids import SeededIds
from pilotage.testing.memory import MemoryStore
from tests.crash.protocol.flaws import Setting
from tests.crash.protocol.store import standing
from tests.crash.protocol.translation import RUN, append, expected, kept, recovery_agrees, status_of
from tests.crash.protocol.words import PROOF, Commit, Draft, Owner, Reply, Row, State, Step, Token, What

ANSWER, CANCEL = "the answer", "the cancellation"


class PatientLedger(Ledger):
    """Commits at barriers only: a walk says when, and what is committed ahead of one changes nothing for the law."""

    def commit_soon(self) -> None:
        return


def open_ledger(state: AgentState, head: JournalHead, journal: IAgentJournal, ids: IIds) -> Ledger:
    """The ledger of one attempt, as the runtime makes it."""
    return PatientLedger(RUN, state, head, JournalWriter(journal), ids.uid())


@dataclass
class Call:
    """A commit on its way: it arrives when the model says so, and is answered when the model says so."""

    commits: Sequence[JournalCommit]
    reply: asyncio.Future[Sequence[CommitOutcome]]
    outcomes: Sequence[CommitOutcome] | None = None


class HeldJournal(IAgentJournal):
    """A journal whose commits wait to be let through."""

    def __init__(self, journal: IAgentJournal) -> None:
        self._journal = journal
        self.calls: asyncio.Queue[Call] = asyncio.Queue()

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        call = Call(commits, asyncio.get_running_loop().create_future())
        self.calls.put_nowait(call)
        return await call.reply

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)


@dataclass
class Process:
    """One owner: its ledger, what it waits for, and how many rows it has appended since its last commit."""

    ledger: Ledger
    journal: HeldJournal
    appended: int = 0
    barrier: asyncio.Future[None] | None = None
    call: Call | None = None

    async def send(self, is_proof: bool) -> None:
        """Begin to wait at a barrier; its commit is held."""
        self.barrier = asyncio.ensure_future(
            self.ledger.prove_ownership() if is_proof else self.ledger.barrier()
        )
        self.call, self.appended = await self.journal.calls.get(), 0

    async def stop(self) -> None:
        """Die, wherever it is."""
        if self.call is not None and self.barrier is not None:
            self.call.reply.set_exception(ProcessStopped("the process stopped here"))
            await asyncio.gather(self.barrier, return_exceptions=True)


@dataclass
class RealRun:
    """One run in a real store, and the processes that own it or want to."""

    setting: Setting
    store: MemoryStore = field(default_factory=MemoryStore)
    ids: IIds = field(default_factory=SeededIds)
    processes: dict[int, Process] = field(default_factory=dict[int, Process])
    ghosts: dict[Token, Sequence[JournalCommit]] = field(default_factory=dict[Token, Sequence[JournalCommit]])
    answers: int = 0

    async def follow(self, before: State, step: Step, after: State) -> None:
        """Make the step that the model made, and see that the same comes of it."""
        match step.what:
            case What.EXPIRE:
                pass
            case What.ANSWER:
                self.answers += 1
                await self._signal(f"{ANSWER} {self.answers}", AgentSignalKind.APPROVAL_DECISION)
            case What.ASK_CANCEL:
                await self._signal(CANCEL, AgentSignalKind.CANCEL)
            case What.HAUNT if isinstance(step.detail, Commit):
                await self.store.journal.commit(self.ghosts.pop(step.detail.token))
            case _:
                await self._owner_step(before.owners[step.who], step, after.owners[step.who], after)
        await self._compare(after)

    async def stop(self) -> None:
        """Let everybody die, so that nothing is left waiting."""
        for process in self.processes.values():
            await process.stop()

    async def _owner_step(self, before: Owner, step: Step, after: Owner, state: State) -> None:
        if step.what is What.BEGIN:
            self.processes[step.who] = await self._begin()
        process = self.processes[step.who]
        match step.what:
            case What.ARRIVE:
                await self._arrive(process, before, step.detail, state)
            case What.HEAR:
                await self._hear(process, step.detail)
            case What.TIME_OUT:
                await self._time_out(process, before)
            case What.CRASH:
                self._keep_ghost(process, before)
                await self.processes.pop(step.who).stop()
            case _:
                if step.what is What.THINK and not before.pending:
                    rows = await self._rows()
                    assert recovery_agrees(self.setting, rows[: before.head], before.known)
                await self._append(process, before, after)

    async def _begin(self) -> Process:
        rows = await self._rows()
        created = AgentState(RUN.run_id, "model", AgentStatus.CREATED, tenant_id=RUN.tenant_id)
        state = await self.store.states.get_or_none(RUN.run_id) or created
        head = JournalHead(rows[-1].seq, rows[-1].epoch, rows[-1].digest) if rows else NO_HEAD
        journal = HeldJournal(self.store.journal)
        process = Process(open_ledger(state, head, journal, self.ids), journal)
        if not rows:
            process.ledger.change_state(state.moved_to(AgentSituation.RUNNING))
        return process

    async def _append(self, process: Process, before: Owner, after: Owner) -> None:
        """Append what the owner of the model appended, and commit it if that one did."""
        is_sent = after.commit is not None and after.commit is not before.commit
        rows: Sequence[Row | Draft] = after.commit.rows if is_sent and after.commit else after.pending
        is_proof = is_sent and rows[-1][1:5] == PROOF
        for at, row in enumerate(rows[: len(rows) - is_proof]):
            if at >= process.appended:
                answer = f"{ANSWER} {self.answers}"
                append(process.ledger, self.setting, row, is_first=at == 0, answer=answer, cancel=CANCEL)
        process.appended = len(rows)
        if is_sent:
            await process.send(is_proof)

    async def _arrive(self, process: Process, owner: Owner, reply: object, state: State) -> None:
        assert process.call is not None
        process.call.outcomes = await self.store.journal.commit(process.call.commits)
        assert owner.commit is not None
        committed = Committed(owner.commit.expected + len(owner.commit.rows))
        epoch = max(row.epoch for row in state.journal)
        moved = HeadMoved(len(state.journal), epoch)
        # What the store says of signals is no part of the protocol of ownership.
        got = [
            replace(each, last_signal=0) if isinstance(each, Committed) else each
            for each in process.call.outcomes
        ]
        assert got == [committed if reply is Reply.COMMITTED else moved]

    async def _hear(self, process: Process, reply: object) -> None:
        """Who is told that the head moved is dead, and stays so."""
        call, barrier = process.call, process.barrier
        assert call is not None
        assert barrier is not None
        assert call.outcomes is not None
        call.reply.set_result(call.outcomes)
        (end,) = await asyncio.gather(barrier, return_exceptions=True)
        process.call = process.barrier = None
        if reply is Reply.COMMITTED:
            assert end is None
            process.ledger.check_alive()
        else:
            assert isinstance(end, RunOwnershipLost)
            (again,) = await asyncio.gather(process.ledger.barrier(), return_exceptions=True)
            assert again is end

    async def _time_out(self, process: Process, owner: Owner) -> None:
        assert process.call is not None
        self._keep_ghost(process, owner)
        process.call.reply.set_exception(OSError("the reply was lost"))
        again = await process.journal.calls.get()
        assert again.commits == process.call.commits
        process.call = again

    def _keep_ghost(self, process: Process, owner: Owner) -> None:
        if process.call is not None and owner.commit is not None:
            self.ghosts[owner.commit.token] = process.call.commits

    async def _signal(self, signal_id: str, kind: AgentSignalKind) -> None:
        await self.store.signals.append(AgentSignal(signal_id, RUN.run_id, kind))

    async def _rows(self) -> list[JournalRow]:
        return [row async for row in self.store.journal.read(RUN)]

    async def _compare(self, state: State) -> None:
        """The store holds what the model's store holds."""
        rows = await self._rows()
        assert [kept(row) for row in rows] == [expected(self.setting, row) for row in state.journal]
        assert first_broken(rows) is None
        if rows:
            stored = await self.store.states.get(RUN.run_id)
            assert stored.status is status_of(standing(state.journal), state.journal)
        pending = {signal.id.split(" ")[1] for signal in await self.store.signals.list_pending(RUN.run_id)}
        assert ("answer" in pending) == (state.answer is not None)
        assert ("cancellation" in pending) == state.is_cancel_asked
