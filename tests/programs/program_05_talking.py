"""Talking to a running agent, word for word as users write it."""

from __future__ import annotations

from pilotage import AgentSignalKind
from pilotage.runtime import AgentRuns, RunHandle


async def main(runs: AgentRuns, run: RunHandle, cursor: str) -> None:
    await runs.signal(run.id, AgentSignalKind.STEERING_INSTRUCTION, {"text": "only touch the tests"}, id="msg-7")   # the id is a dedupe key
    await runs.cancel(run.id, reason="wrong branch")
    async for event in runs.events(run.id, after=cursor): ...       # reconnect exactly where you were
