"""The one writer of a store in this process: gathers what all runs want to commit and commits it together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit
from pilotage.runtime.actions.interruptions import StoreUnavailable

_TRIES = 3


class JournalWriter:
    """Group commit: while one batch is being written, the next one gathers.

    A commit whose reply was lost is sent again with its token; the store recognises its own rows. Until the
    outcome is known nobody is told anything.
    """

    def __init__(self, journal: IAgentJournal) -> None:
        self._journal = journal
        self._waiting: list[tuple[JournalCommit, asyncio.Future[CommitOutcome]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, commit: JournalCommit) -> CommitOutcome:
        """Commit for one run; durable on return.

        Raises:
            StoreUnavailable: the store did not answer; whether the rows are in it is unknown.
        """
        future: asyncio.Future[CommitOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((commit, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        # A caller that is cancelled stops waiting; its rows are written all the same.
        return await asyncio.shield(future)

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: Sequence[tuple[JournalCommit, asyncio.Future[CommitOutcome]]]) -> None:
        ordered = sorted(batch, key=lambda waiting: (waiting[0].run.tenant_id, waiting[0].run.run_id))
        try:
            outcomes = await self._send([commit for commit, _ in ordered])
            answered = list(zip(ordered, outcomes, strict=True))
        except BaseException as error:  # noqa: BLE001 - it goes to everyone who waits
            for _, future in ordered:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), outcome in answered:
            if not future.done():
                future.set_result(outcome)

    async def _send(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for _ in range(_TRIES - 1):
            try:
                return await self._journal.commit(commits)
            except OSError:
                continue
        try:
            return await self._journal.commit(commits)
        except OSError as error:
            raise StoreUnavailable(f"the journal did not answer {_TRIES} times: {error}") from error
