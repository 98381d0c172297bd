"""A run that this process drives, kept or not, as whoever follows it sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from pilotage.agent.events import AgentEvent
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.cli.driving.asking import Answer
from pilotage.errors import RunConflictError
from pilotage.runtime.answers import Question, run_of
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.run.opened import OpenedRun
from pilotage.runtime.run.supervise import RunHandle
from pilotage.runtime.runs import AgentRuns


class Followed(ABC):
    """A run that somebody follows."""

    id: str
    is_kept: bool

    @abstractmethod
    def events(self) -> AsyncIterator[AgentEvent]:
        """What the run does, until it ends or waits."""

    @abstractmethod
    async def result(self) -> RunResult | None:
        """How the run stands after its events; None where nothing is left of it.

        Raises:
            RunConflictError: another process has taken it.
        """

    @abstractmethod
    async def cancel(self) -> None:
        """End the run; its events come to their end then."""


class UnkeptRun(Followed):
    """A run that lives as long as its reader."""

    is_kept = False

    def __init__(self, run: OpenedRun) -> None:
        self.id = run.id
        self._run = run
        self._is_left = False

    def events(self) -> AsyncIterator[AgentEvent]:
        return self._run.events()

    async def result(self) -> RunResult | None:
        return None if self._is_left else await self._run.result()

    async def cancel(self) -> None:
        self._is_left = True
        await self._run.leave()


class KeptRun(Followed):
    """A run with a journal, which can wait, be answered and go on."""

    is_kept = True

    def __init__(self, runs: AgentRuns, handle: RunHandle | OpenedRun, principal: Principal) -> None:
        self.id = handle.id
        self._runs = runs
        self._handle = handle
        self._principal = principal

    def events(self) -> AsyncIterator[AgentEvent]:
        return self._handle.events()

    async def result(self) -> RunResult:
        try:
            return await self._handle.result()
        except RunInterruption as lost:
            raise RunConflictError(
                f"run {self.id!r} was taken over by another process. "
                f"Follow it there: pilotage runs events {self.id} --follow."
            ) from lost

    async def standing(self) -> RunResult:
        """How the run stands now, from its record."""
        return await self._runs.result(self.id, principal=self._principal)

    async def cancel(self) -> None:
        await self._runs.cancel(self.id, reason="Ctrl-C", principal=self._principal)

    async def questions(self) -> tuple[Question, ...]:
        """What the run waits for."""
        return await self._runs.questions(self.id, principal=self._principal)

    async def answer(self, question: Question, answer: Answer) -> None:
        """Give an answer.

        Raises:
            CallerError: the run cannot take it; the question stays open.
        """
        asked_by = run_of(question.id)
        await self._runs.answer(
            asked_by,
            question.id,
            answer.decision,
            resume=False,
            principal=self._principal,
            **answer.details,
        )

    async def resumed(self) -> KeptRun:
        """The run, which goes on with what it was answered."""
        handle = await self._runs.resume(self.id, principal=self._principal)
        return KeptRun(self._runs, handle, self._principal)
