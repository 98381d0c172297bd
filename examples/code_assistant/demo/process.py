"""One process of the demo: it starts the run, or resumes the open one, and answers its questions.

python -m examples.code_assistant.demo.process FOLDER GOAL
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from examples.code_assistant.application import code_assistant, offline_model
from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.console import Console, RunView
from examples.code_assistant.task import CodeTask
from pilotage import AgentSignalKind, RunResult
from pilotage.agent import AgentApprovalRequest, AgentRecoveryRequest, RecoveryDecision
from pilotage.errors import RunConflictError
from pilotage.runtime import AgentRuns, LeaseSettings, RunHandle

# The lease of a process that dies expires; the demo does not wait half a minute for that.
LEASE = LeaseSettings(seconds=3)
LOOK_AGAIN_SECONDS = 0.2
EXTRA = "git.status, please"


async def drive(folder: Path, goal: str, console: Console) -> RunResult:
    """Drive the run of this folder to its end."""
    pace = float(os.environ.get("DEMO_TOKENS_PER_SECOND", "0")) or None
    async with code_assistant(folder, *offline_model(pace), LEASE) as app:
        runs = app.get(AgentRuns)
        run = await _begun(runs, goal)
        view = RunView(console)
        while True:
            async for event in run.events():
                view.show(event)
            questions = await runs.questions(run.id)
            if not questions:
                return await run.result()
            for question in questions:
                view.ask(question)
                await _answer(runs, run.id, question, console)
            run = await runs.resume(run.id)


async def _begun(runs: AgentRuns, goal: str) -> RunHandle:
    """Return a new run, or the open run of another process, once the lease of that process has expired."""
    left = (await runs.list(agent=CodeAssistant)).runs
    if not left:
        return await runs.start(CodeAssistant, CodeTask(goal=goal))
    while True:
        try:
            return await runs.resume(left[0].id)
        except RunConflictError:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _answer(
    runs: AgentRuns, run_id: str, question: AgentApprovalRequest | AgentRecoveryRequest, console: Console
) -> None:
    """Give the answer of the demo: yes, and once a message more. The caller resumes the run and shows it."""
    if isinstance(question, AgentRecoveryRequest):
        console.line("  > retry", "green")
        await runs.answer(run_id, question.id, RecoveryDecision.RETRY, resume=False)
        return
    console.line("  > approve", "green")
    await runs.approve(question.id, comment="the person of the demo", resume=False)
    if "git.commit" in question.prompt:
        console.line(f"  > {EXTRA}", "green")
        await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": EXTRA}, id="extra")


def main() -> None:
    folder, goal = Path(sys.argv[1]), sys.argv[2]
    result = asyncio.run(drive(folder, goal, Console()))
    if result.error is not None:
        raise SystemExit(f"the run is {result.status}: {result.error.get('message')}")


if __name__ == "__main__":
    main()
