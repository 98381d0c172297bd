"""Follow a run in this process until it ends, or waits for somebody who is not here."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentStatus
from pilotage.cli.driving.asking import Asker, PromptAnswer
from pilotage.cli.driving.telling import Telling
from pilotage.cli.exit_codes import ExitCode, code_of_status
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime.answers import Question, run_of
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.opened import OpenedRun
from pilotage.runtime.runs import AgentRuns

T = TypeVar("T")


async def follow(run: Followed, telling: Telling, asker: Asker | None) -> ExitCode:
    """Tell what a run does, ask what it asks where somebody is there to answer, cancel it at Ctrl-C.

    Raises:
        RunConflictError: another process has taken the run.
    """
    with interruptions() as interrupted:
        result = await Follower(telling, asker, interrupted).follow(run)
    questions = await run.questions() if isinstance(run, KeptRun) else ()
    telling.end(result, questions, is_kept=run.is_kept)
    return ending_code(result, was_interrupted=interrupted.is_set())


def ending_code(result: RunResult | None, *, was_interrupted: bool) -> ExitCode:
    """What the command ends with; None stands for a run that was left, of which nothing is kept."""
    status = AgentStatus.CANCELLED if result is None else result.state.status
    if was_interrupted and status is AgentStatus.CANCELLED:
        return ExitCode.INTERRUPTED
    return code_of_status(status)


class Follower:
    """Follows one run through all of its attempts."""

    def __init__(self, telling: Telling, asker: Asker | None, interrupted: asyncio.Event) -> None:
        self._telling = telling
        self._asker = asker
        self._interrupted = interrupted
        self._left_open: set[str] = set()

    async def follow(self, run: Followed) -> RunResult | None:
        """How the run stands in the end."""
        result = await self._attempt(run)
        while isinstance(run, KeptRun) and _waits(result) and await self._answered(run):
            result = await run.standing()
            if result.state.is_terminal:
                break  # somebody else answered too, and drove it to its end
            run = await run.resumed()
            result = await self._attempt(run)
        # Whoever gave up at a question has cancelled the run, which says so itself.
        return await run.standing() if isinstance(run, KeptRun) and _waits(result) else result

    async def _attempt(self, run: Followed) -> RunResult | None:
        reading = asyncio.ensure_future(self._read(run))
        try:
            if not await self._is_done_first(reading):
                self._telling.cancelling()
                await run.cancel()
            await reading
        finally:
            await _ended(reading)
        return await run.result()

    async def _read(self, run: Followed) -> None:
        events = run.events()
        async for event in events:
            self._telling.tell(event, getattr(events, "cursor", None))

    async def _answered(self, run: KeptRun) -> bool:
        """Whether something was answered with which the run may go on."""
        if self._asker is None or self._interrupted.is_set():
            return False
        fresh = [each for each in await run.questions() if each.id not in self._left_open]
        answered = False
        for question in fresh:
            asking = asyncio.ensure_future(self._answer(run, question, self._asker))
            if not await self._is_done_first(asking):
                await _ended(asking)
                self._telling.cancelling()
                await run.cancel()
                return False
            answered = asking.result() or answered
        return answered

    async def _answer(self, run: KeptRun, question: Question, asker: Asker) -> bool:
        """Ask until the run takes the answer; False where the person leaves the question open."""
        while (answer := await asker.ask(question)) is not None:
            if answer.decision is ApprovalDecision.DEFER:
                self._left_open.add(question.id)  # it is asked again as soon as the run goes on
            try:
                await run.answer(question, answer)
            except CallerError as error:
                asker.refuse(str(error))
                if question.id not in {each.id for each in await run.questions()}:
                    return True  # somebody else was faster
            else:
                return True
        self._left_open.add(question.id)
        return False

    async def _is_done_first(self, work: asyncio.Future[T]) -> bool:
        """Whether the work was done before somebody hit Ctrl-C."""
        if self._interrupted.is_set():
            return work.done()
        told = asyncio.ensure_future(self._interrupted.wait())
        try:
            await asyncio.wait((work, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
        return work.done()


async def _ended(task: asyncio.Future[T]) -> None:
    """Nobody is interested in the task any more, and it has gone when this returns."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _waits(result: RunResult | None) -> bool:
    return result is not None and result.state.status is AgentStatus.INTERRUPTED


class UnkeptRun:
    """A run without a journal: it lives as long as its reader."""

    is_kept = False

    def __init__(self, run: OpenedRun) -> None:
        self.id = run.id
        self.events = run.events
        self._run = run
        self._is_left = False

    async def result(self) -> RunResult | None:
        """Return the result after the events; None for a run that was left, of which nothing is kept."""
        return None if self._is_left else await self._run.result()

    async def cancel(self) -> None:
        """End the run; its events come to their end then."""
        self._is_left = True
        await self._run.leave()


class KeptRun:
    """A run with a journal, which can wait, be answered and go on."""

    is_kept = True

    def __init__(self, runs: AgentRuns, handle: RunHandle | OpenedRun, principal: Principal) -> None:
        self.id = handle.id
        self.events = handle.events
        self._runs = runs
        self._handle = handle
        self._principal = principal

    async def result(self) -> RunResult:
        """Return how the run stands after its events.

        Raises:
            RunConflictError: another process has taken it.
        """
        try:
            return await self._handle.result()
        except RunInterruption as lost:
            raise RunConflictError(
                f"run {self.id!r} was taken over by another process. "
                f"Follow it there: pilotage runs events {self.id} --follow."
            ) from lost

    async def standing(self) -> RunResult:
        """Return how the run stands now, from its record."""
        return await self._runs.result(self.id, principal=self._principal)

    async def cancel(self) -> None:
        """End the run; its events come to their end then."""
        await self._runs.cancel(self.id, reason="Ctrl-C", principal=self._principal)

    async def questions(self) -> tuple[Question, ...]:
        """Return the open questions of the run."""
        return await self._runs.questions(self.id, principal=self._principal)

    async def answer(self, question: Question, answer: PromptAnswer) -> None:
        """Give an answer.

        Raises:
            CallerError: the run cannot take it; the question stays open.
        """
        asked_by = run_of(question.id)
        await self._runs.answer(
            asked_by, question.id, answer.decision, resume=False, principal=self._principal, **answer.details
        )

    async def resumed(self) -> KeptRun:
        """Resume the run, which goes on with what it was answered."""
        handle = await self._runs.resume(self.id, principal=self._principal)
        return KeptRun(self._runs, handle, self._principal)


Followed: TypeAlias = UnkeptRun | KeptRun


@contextmanager
def interruptions() -> Generator[asyncio.Event]:
    """Set the event at Ctrl-C, even while something holds up the event loop; leave at once at a second one."""
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    first, is_interrupted = asyncio.Event(), False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            leave_at_once()
        is_interrupted = True
        loop.call_soon_threadsafe(first.set)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield first
    finally:
        signal.signal(signal.SIGINT, before)


def leave_at_once() -> None:
    """End the process without waiting for anything.

    A tool in a thread may go on for long and cannot be stopped. The journal is made for processes that die anywhere:
    a run that is left like this is where its last commit says.
    """
    # Not through the stream: somebody may be in the middle of writing to it.
    os.write(sys.stderr.fileno(), b"\nleft: a durable run stays where it is and can be resumed\n")
    os._exit(ExitCode.INTERRUPTED)
