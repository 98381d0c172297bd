"""Follow a run in this process until it ends, or waits for an answer that is not given here."""

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
from pilotage.cli.exit_codes import ExitCode, code_of_status
from pilotage.cli.prompt import Prompt, PromptAnswer
from pilotage.cli.run_output import RunOutput
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.open_questions import Question, run_of
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.opened import OpenedRun
from pilotage.runtime.runs import AgentRuns

T = TypeVar("T")


async def follow(run: FollowedRun, output: RunOutput, prompt: Prompt | None) -> ExitCode:
    """Write the events of a run, ask its questions where there is a prompt, cancel it at Ctrl-C.

    Raises:
        RunConflictError: another process has claimed the run.
    """
    with interruptions() as interrupted:
        result = await Follower(output, prompt, interrupted).follow(run)
    questions = await run.questions() if isinstance(run, FollowedDurableRun) else ()
    output.end(result, questions, is_durable=run.is_durable)
    return ending_code(result, was_interrupted=interrupted.is_set())


def ending_code(result: RunResult | None, *, was_interrupted: bool) -> ExitCode:
    """Return the exit code of the command; None is a cancelled ephemeral run."""
    status = AgentStatus.CANCELLED if result is None else result.state.status
    if was_interrupted and status is AgentStatus.CANCELLED:
        return ExitCode.INTERRUPTED
    return code_of_status(status)


class Follower:
    """Follows one run through all of its attempts."""

    def __init__(self, output: RunOutput, prompt: Prompt | None, interrupted: asyncio.Event) -> None:
        self._output = output
        self._prompt = prompt
        self._interrupted = interrupted
        self._left_open: set[str] = set()

    async def follow(self, run: FollowedRun) -> RunResult | None:
        """Return the result of the run."""
        result = await self._attempt(run)
        while isinstance(run, FollowedDurableRun) and _waits(result) and await self._answered(run):
            result = await run.stored_result()
            if result.state.is_terminal:
                break  # another person answered too, and the run has ended
            run = await run.resumed()
            result = await self._attempt(run)
        # A run that was cancelled at a question has another state by now.
        return await run.stored_result() if isinstance(run, FollowedDurableRun) and _waits(result) else result

    async def _attempt(self, run: FollowedRun) -> RunResult | None:
        reading = asyncio.ensure_future(self._read(run))
        async with self._output.spinner.running():
            try:
                if not await self._is_done_first(reading):
                    self._output.write_cancelling()
                    await run.cancel()
                await reading
            finally:
                await _ended(reading)
            return await run.result()

    async def _read(self, run: FollowedRun) -> None:
        events = run.events()
        async for event in events:
            self._output.write(event, getattr(events, "cursor", None))

    async def _answered(self, run: FollowedDurableRun) -> bool:
        """Ask the open questions; return whether one was answered."""
        if self._prompt is None or self._interrupted.is_set():
            return False
        fresh = [each for each in await run.questions() if each.id not in self._left_open]
        answered = False
        for question in fresh:
            asking = asyncio.ensure_future(self._answer(run, question, self._prompt))
            if not await self._is_done_first(asking):
                await _ended(asking)
                self._output.write_cancelling()
                await run.cancel()
                return False
            answered = asking.result() or answered
        return answered

    async def _answer(self, run: FollowedDurableRun, question: Question, prompt: Prompt) -> bool:
        """Ask until the run accepts the answer; return False if the person leaves the question open."""
        while (answer := await prompt.ask(question)) is not None:
            if answer.decision is ApprovalDecision.DEFER:
                self._left_open.add(question.id)  # it is asked again as soon as the run goes on
            try:
                await run.answer(question, answer)
            except CallerError as error:
                prompt.refuse(str(error))
                if question.id not in {each.id for each in await run.questions()}:
                    return True  # another person answered first
            else:
                return True
        self._left_open.add(question.id)
        return False

    async def _is_done_first(self, work: asyncio.Future[T]) -> bool:
        """Return whether the work was done before Ctrl-C."""
        if self._interrupted.is_set():
            return work.done()
        interrupted = asyncio.ensure_future(self._interrupted.wait())
        try:
            await asyncio.wait((work, interrupted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted.cancel()
        return work.done()


async def _ended(task: asyncio.Future[T]) -> None:
    """Cancel a task that is not needed any more, and wait for its end."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _waits(result: RunResult | None) -> bool:
    return result is not None and result.state.status is AgentStatus.INTERRUPTED


class FollowedEphemeralRun:
    """A run without a journal: it ends with its subscriber."""

    is_durable = False

    def __init__(self, run: OpenedRun) -> None:
        self.id = run.id
        self.events = run.events
        self._run = run
        self._is_left = False

    async def result(self) -> RunResult | None:
        """Return the result after the events; None for a run that was cancelled."""
        return None if self._is_left else await self._run.result()

    async def cancel(self) -> None:
        """Cancel the run; its events end then."""
        self._is_left = True
        await self._run.leave()


class FollowedDurableRun:
    """A run with a journal: it can wait for answers and be resumed."""

    is_durable = True

    def __init__(self, runs: AgentRuns, handle: RunHandle | OpenedRun, principal: Principal) -> None:
        self.id = handle.id
        self.events = handle.events
        self._runs = runs
        self._handle = handle
        self._principal = principal

    async def result(self) -> RunResult:
        """Return the result after the events.

        Raises:
            RunConflictError: another process has claimed it.
        """
        try:
            return await self._handle.result()
        except RunInterruption as lost:
            raise RunConflictError(
                f"run {self.id!r} was claimed by another process. "
                f"Follow it there: pilotage runs events {self.id} --follow."
            ) from lost

    async def stored_result(self) -> RunResult:
        """Return the result of the run from its record."""
        return await self._runs.result(self.id, principal=self._principal)

    async def cancel(self) -> None:
        """Cancel the run; its events end then."""
        await self._runs.cancel(self.id, reason="Ctrl-C", principal=self._principal)

    async def questions(self) -> tuple[Question, ...]:
        """Return the open questions of the run."""
        return await self._runs.questions(self.id, principal=self._principal)

    async def answer(self, question: Question, answer: PromptAnswer) -> None:
        """Give an answer.

        Raises:
            CallerError: the run does not accept it; the question stays open.
        """
        asked_by = run_of(question.id)
        await self._runs.answer(
            asked_by, question.id, answer.decision, resume=False, principal=self._principal, **answer.details
        )

    async def resumed(self) -> FollowedDurableRun:
        """Resume the run with the answers it has."""
        handle = await self._runs.resume(self.id, principal=self._principal)
        return FollowedDurableRun(self._runs, handle, self._principal)


FollowedRun: TypeAlias = FollowedEphemeralRun | FollowedDurableRun


@contextmanager
def interruptions() -> Generator[asyncio.Event]:
    """Set the event at Ctrl-C, even while the event loop is blocked; end the process at a second one."""
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

    A tool in a thread may take long and cannot be stopped. A durable run is resumed from its last commit.
    """
    # Not through the stream: another thread may be writing to it.
    os.write(sys.stderr.fileno(), b"\nleft: a durable run can be resumed\n")
    os._exit(ExitCode.INTERRUPTED)
