"""Fault injection: a journal that stops, loses a reply or fails at a chosen commit.

Commits are counted by calls of `commit`, from 1, whatever each of them carries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias, assert_never

from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.checks import reject_not_positive
from pilotage.values import value


class ProcessStopped(BaseException):
    """The process stopped here, as by `kill -9`."""


@value
class _AtCommit:
    number: int

    def __post_init__(self) -> None:
        reject_not_positive(self, number=self.number)


@value
class StopBefore(_AtCommit):
    """The process stops before commit `number` reaches the store."""


@value
class StopAfter(_AtCommit):
    """The process stops when commit `number` is durable, before it is acknowledged."""


@value
class LoseReply(_AtCommit):
    """Commit `number` is durable, but its reply is lost: the caller gets an `OSError`."""


@value
class FailWrite(_AtCommit):
    """Commit `number` fails with an `OSError`; nothing was written."""


Fault: TypeAlias = StopBefore | StopAfter | LoseReply | FailWrite
STOPS: tuple[Callable[[int], Fault], ...] = (StopBefore, StopAfter)
FAULTS: tuple[Callable[[int], Fault], ...] = (*STOPS, LoseReply, FailWrite)


class FaultyJournal(IAgentJournal):
    """Any journal, with one fault. After a stop every further call raises `ProcessStopped`.

    Without a fault it only counts: `commits` is the number of calls, which are the places for faults. `lost` holds the
    commits that did not reach the store. `before_stop` is awaited before the fault stops the process.
    """

    def __init__(
        self,
        journal: IAgentJournal,
        fault: Fault | None = None,
        *,
        before_stop: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._journal, self._fault, self._before_stop = journal, fault, before_stop
        self._is_stopped = False
        self.commits = 0
        self.lost: list[JournalCommit] = []

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self._require_alive()
        self.commits += 1
        fault = self._fault
        if fault is None or fault.number != self.commits:
            return await self._journal.commit(commits)
        return await self._fail(fault, commits)

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        self._require_alive()
        async for row in self._journal.read(run, after):
            yield row

    async def head(self, run: RunKey) -> JournalHead | None:
        self._require_alive()
        return await self._journal.head(run)

    async def _fail(self, fault: Fault, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        match fault:
            case StopBefore():
                self.lost.extend(commits)
                raise await self._stop(f"before commit {fault.number}")
            case StopAfter():
                await self._journal.commit(commits)
                raise await self._stop(f"after commit {fault.number}")
            case LoseReply():
                await self._journal.commit(commits)
                raise OSError(f"the reply of commit {fault.number} was lost")
            case FailWrite():
                raise OSError(f"commit {fault.number} could not be written")
            case _:
                assert_never(fault)

    async def _stop(self, where: str) -> ProcessStopped:
        self._is_stopped = True
        if self._before_stop is not None:
            await self._before_stop()
        return ProcessStopped(f"the process stopped {where}")

    def _require_alive(self) -> None:
        if self._is_stopped:
            raise ProcessStopped("the process has stopped already")
