"""The one writer of a store in this process: gathers what all runs want to commit and commits it together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, RunKey
from pilotage.runtime.actions.interruptions import StoreUnavailable

_TRIES = 3


class ICommitting(Protocol):
    """Who has something to commit: the ledger of a run."""

    @property
    def run(self) -> RunKey:
        """Whose commit it is."""
        ...

    def next_commit(self) -> JournalCommit | None:
        """Everything there is by now; None where there is nothing any more."""
        ...

    def answered(self, commit: JournalCommit, outcome: CommitOutcome | BaseException) -> None:
        """What became of it. It must not raise: others wait for their answers."""
        ...


class JournalWriter:
    """Group commit: while one batch is being written, the next one gathers.

    Who wants to commit is asked what, when it is its turn: by then there may be more. A commit whose reply was lost is
    sent again with its token; the store recognises its own rows. Until the outcome is known nobody is told anything.
    """

    def __init__(self, journal: IAgentJournal) -> None:
        self._journal = journal
        self._waiting: list[ICommitting] = []
        self._writing: asyncio.Task[None] | None = None

    def enlist(self, ledger: ICommitting) -> None:
        """Commit for a run, with the next batch. Whoever waits for it may stop waiting: it is written all the same."""
        self._waiting.append(ledger)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                ledgers, self._waiting = self._waiting, []
                await self._write(ledgers)
        finally:
            self._writing = None

    async def _write(self, ledgers: list[ICommitting]) -> None:
        if len(ledgers) > 1:
            ledgers.sort(key=_name)
        drawn_up = [(ledger, ledger.next_commit()) for ledger in ledgers]
        batch = [(ledger, commit) for ledger, commit in drawn_up if commit is not None]
        if not batch:
            return
        try:
            outcomes = await self._send([commit for _, commit in batch])
            answers = list(zip(batch, outcomes, strict=True))
        except BaseException as error:  # noqa: BLE001 - it goes to everyone who waits
            for ledger, commit in batch:
                ledger.answered(commit, error)
            return
        for (ledger, commit), outcome in answers:
            ledger.answered(commit, outcome)

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


def _name(ledger: ICommitting) -> tuple[str, str]:
    return ledger.run.tenant_id, ledger.run.run_id
