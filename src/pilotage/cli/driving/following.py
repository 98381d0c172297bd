"""`follow`: goes along with a run in this process until it ends, or waits for somebody who is not here."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentStatus
from pilotage.cli.driving.asking import Asker
from pilotage.cli.driving.followed import Followed, KeptRun
from pilotage.cli.driving.interrupts import Interrupts
from pilotage.cli.driving.telling import Telling
from pilotage.cli.exit_codes import ExitCode, code_of_status
from pilotage.errors import CallerError
from pilotage.runtime.answers import Question

T = TypeVar("T")


async def follow(run: Followed, telling: Telling, asker: Asker | None) -> ExitCode:
    """Tell what a run does, ask what it asks where somebody is there to answer, cancel it at Ctrl-C.

    Raises:
        RunConflictError: another process has taken the run.
    """
    interrupts = Interrupts()
    with interrupts.heard():
        follower = Follower(telling, asker, interrupts)
        result = await follower.follow(run)
    questions = await run.questions() if isinstance(run, KeptRun) else ()
    telling.end(result, questions, is_kept=run.is_kept)
    return ending_code(result, was_interrupted=interrupts.first.is_set())


def ending_code(result: RunResult | None, *, was_interrupted: bool) -> ExitCode:
    """What the command ends with; None stands for a run that was left, of which nothing is kept."""
    status = AgentStatus.CANCELLED if result is None else result.state.status
    if was_interrupted and status is AgentStatus.CANCELLED:
        return ExitCode.INTERRUPTED
    return code_of_status(status)


class Follower:
    """Follows one run through all of its attempts."""

    def __init__(self, telling: Telling, asker: Asker | None, interrupts: Interrupts) -> None:
        self._telling = telling
        self._asker = asker
        self._interrupts = interrupts
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
        if self._asker is None or self._interrupts.first.is_set():
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
        if self._interrupts.first.is_set():
            return work.done()
        told = asyncio.ensure_future(self._interrupts.first.wait())
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
