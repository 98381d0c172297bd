"""Letting a process be killed, and taking up what it left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from pilotage.errors import RunConflictError
from pilotage.runtime import AgentRuns, RunHandle

ROOT = Path(__file__).parents[2]


def kill_in_the_middle(command: str) -> None:
    """Run a process in this folder until it kills itself."""
    module = [sys.executable, "-m", "tests.acceptance.dying", command]
    died = subprocess.run(module, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=240, check=False)
    assert died.returncode == -signal.SIGKILL


async def taken_up(runs: AgentRuns, run_id: str) -> RunHandle:
    """The run, as soon as the lease of the dead process is over."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await runs.resume(run_id)
            except RunConflictError:
                await asyncio.sleep(0.05)
