"""The assistant at a keyboard: `python -m examples.code_assistant.chat [FOLDER]`, or `make chat`.

Lines typed during a run are messages to the run, or /cancel. The assistant asks before it changes something. A run of
a process that ended is resumed by the next one. `pilotage chat` chats with any agent; this one adds the messages.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from examples.code_assistant.application import code_assistant, offline_model
from examples.code_assistant.console import Console, RunView
from examples.code_assistant.declarative import DeclarativeCodeAssistant
from examples.code_assistant.keyboard import Keyboard
from pilotage import AgentSignalKind, AgentStatus
from pilotage.agent import AgentApprovalRequest, AgentRecoveryRequest, RecoveryDecision
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime import AgentRuns, LeaseSettings, RunHandle

CONVERSATION = "keyboard"
LEASE = LeaseSettings(seconds=5)
LOOK_AGAIN_SECONDS = 0.5
_HELP = "Say what to do, for example: list files. An empty line ends it; /cancel stops what it is doing."
_OPEN = (AgentStatus.CREATED, AgentStatus.ACTIVE, AgentStatus.INTERRUPTED, AgentStatus.CANCELLING)


class Chat:
    """A conversation with the assistant, run after run."""

    def __init__(self, runs: AgentRuns, console: Console, keyboard: Keyboard) -> None:
        self._runs, self._console, self._keyboard = runs, console, keyboard

    async def go_on(self) -> None:
        """Resume the open runs of other processes, then start a run for each line."""
        for left in (await self._runs.list(agent=DeclarativeCodeAssistant, statuses=_OPEN)).runs:
            self._console.line(
                f"An open run was found here ({left.current_activity or left.status}). It is resumed.", "dim"
            )
            await self._follow(await self._taken_up(left.id))
        self._console.line(_HELP, "dim")
        while line := await self._line("> "):
            run = await self._runs.start(DeclarativeCodeAssistant, line, conversation_id=CONVERSATION)
            await self._follow(run)

    async def _taken_up(self, run_id: str) -> RunHandle:
        while True:
            try:
                return await self._runs.resume(run_id)
            except RunConflictError:
                # The owner has ended, and its lease expires soon.
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _follow(self, run: RunHandle) -> None:
        """Show a run to its end, and ask its questions."""
        view = RunView(self._console)
        while True:
            await self._watch(run, view)
            questions = await self._runs.questions(run.id)
            if not questions:
                break
            for question in questions:
                if not await self._ask(run.id, question, view):
                    self._console.line("The question stays open; the next chat here asks it again.", "dim")
                    return
            run = await self._runs.resume(run.id)
        result = await run.result()
        if result.error is not None:
            self._console.line(f"  {result.error.get('message')}", "red")

    async def _watch(self, run: RunHandle, view: RunView) -> None:
        listening = asyncio.create_task(self._listen(run.id)) if self._keyboard.is_interactive else None
        async for event in run.events():
            view.show(event)
        if listening is not None:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def _listen(self, run_id: str) -> None:
        """Send lines that are typed during a run to the run."""
        while line := await self._keyboard.line():
            passing = asyncio.ensure_future(self._pass_on(run_id, line))
            try:
                await asyncio.shield(passing)
            except asyncio.CancelledError:
                # The run has ended while the line was sent: it arrives, or is put back.
                await passing
                raise

    async def _pass_on(self, run_id: str, line: str) -> None:
        try:
            if line == "/cancel":
                await self._runs.cancel(run_id, reason="the person at the keyboard")
            else:
                await self._runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": line})
                self._console.line("  (sent to the run)", "dim")
        except CallerError:
            # The run has just ended: the line is for the next run.
            if line != "/cancel":
                self._keyboard.put_back(line)

    async def _ask(
        self, run_id: str, question: AgentApprovalRequest | AgentRecoveryRequest, view: RunView
    ) -> bool:
        """Ask the person; return False if the input has ended."""
        while True:
            view.ask(question)
            if isinstance(question, AgentRecoveryRequest):
                answer = await self._line("    retry, done, fail or cancel? ")
            else:
                answer = await self._line("    yes, or no and why? ")
            if answer is None:
                return False
            try:
                await self._answer(run_id, question, answer)
            except (CallerError, ValueError) as error:
                self._console.line(f"    {error}", "red")
            else:
                return True

    async def _answer(
        self, run_id: str, question: AgentApprovalRequest | AgentRecoveryRequest, answer: str
    ) -> None:
        """Store the answer; the run goes on when it is resumed to be shown."""
        word, _, rest = answer.partition(" ")
        if isinstance(question, AgentRecoveryRequest):
            decision = RecoveryDecision(word.lower())
            await self._runs.answer(run_id, question.id, decision, resume=False, result=rest or None)
        elif word.lower().rstrip(",") in ("y", "yes", "ok"):
            await self._runs.approve(question.id, resume=False)
        elif word.lower().rstrip(",") in ("n", "no"):
            await self._runs.reject(question.id, comment=rest.strip() or None, resume=False)
        else:
            raise ValueError("Please begin with yes or no.")

    async def _line(self, prompt: str) -> str | None:
        self._console.piece(self._console.styled(prompt, "bold"))
        line = await self._keyboard.line()
        if not self._keyboard.is_interactive:
            self._console.line(line or "")
        return line


async def chat(folder: Path) -> None:
    """Chat in a folder until the input ends."""
    async with code_assistant(folder, *offline_model(), LEASE) as app:
        await Chat(app.get(AgentRuns), Console(), Keyboard()).go_on()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").expanduser().resolve()
    if not folder.is_dir():
        raise SystemExit(f"there is no folder {folder}")
    with suppress(KeyboardInterrupt):
        asyncio.run(chat(folder))


if __name__ == "__main__":
    main()
