"""A process that died on this machine: its runs are taken up at once, and by the same rules as after any crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilotage import AgentStatus, Application
from pilotage.agent import AgentRecoveryRequest, RecoveryDecision
from pilotage.errors import RunConflictError
from pilotage.runtime import AgentRuns, LeaseSettings
from tests.crash.mortal import process

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the /proc of Linux")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", f"sqlite:///{tmp_path / 'runs.db'}")


@asynccontextmanager
async def mortal(folder: Path, tool: str) -> AsyncIterator[tuple[Process, str]]:
    """A process in the middle of a tool, and the id of its run."""
    command = [sys.executable, "-m", "tests.crash.mortal", str(folder), tool]
    child = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        async with asyncio.timeout(60):
            run_id = (await child.stdout.readline()).decode().strip()
        assert run_id, "the process did not get to its tool"
        yield child, run_id
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def killed(child: Process) -> None:
    child.kill()
    await child.wait()


@asynccontextmanager
async def heir(folder: Path, tool: str, *more: object, works: bool = False) -> AsyncIterator[AgentRuns]:
    app: Application = process(folder, tool, waits=False, works=works).add(*more)
    async with app.load_plugins():
        yield app.get(AgentRuns)


def noted(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().split()


async def test_a_killed_process_has_no_run_any_more(tmp_path: Path) -> None:
    async with mortal(tmp_path, "look") as (child, run_id):
        await killed(child)
        async with heir(tmp_path, "look") as runs:
            result = await (await runs.resume(run_id)).result()
            assert await runs.verify(run_id) > 0
    assert (result.status, noted(tmp_path)) == (AgentStatus.COMPLETED, ["look", "look"])


async def test_an_unrepeatable_effect_of_a_killed_process_is_a_question_and_is_not_repeated(
    tmp_path: Path,
) -> None:
    async with mortal(tmp_path, "pay") as (child, run_id):
        await killed(child)
        async with heir(tmp_path, "pay") as runs:
            waiting = await (await runs.resume(run_id)).result()
            (question,) = await runs.questions(run_id)
            assert isinstance(question, AgentRecoveryRequest)
            assert (waiting.status, noted(tmp_path)) == (AgentStatus.INTERRUPTED, ["pay"])
            assert question.begun is not None
            assert question.begun.may_be_alive is False
            await runs.answer(run_id, question.id, RecoveryDecision.DONE, result="done", resume=False)
            result = await (await runs.resume(run_id)).result()
    assert (result.status, noted(tmp_path)) == (AgentStatus.COMPLETED, ["pay"])


async def test_a_process_that_is_stopped_and_lives_keeps_its_run(tmp_path: Path) -> None:
    async with mortal(tmp_path, "look") as (child, run_id), heir(tmp_path, "look") as runs:
        child.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(RunConflictError):
            await runs.resume(run_id)
    assert noted(tmp_path) == ["look"]


async def test_a_dead_owner_keeps_its_run_where_that_is_switched_off(tmp_path: Path) -> None:
    async with mortal(tmp_path, "look") as (child, run_id):
        await killed(child)
        async with heir(tmp_path, "look", LeaseSettings(frees_dead_owners=False)) as runs:
            with pytest.raises(RunConflictError):
                await runs.resume(run_id)


async def test_a_worker_takes_up_the_runs_of_a_dead_process_at_once(tmp_path: Path) -> None:
    async with mortal(tmp_path, "look") as (child, run_id), heir(tmp_path, "look", works=True) as runs:
        await killed(child)
        # Long before the lease would have run out.
        async with asyncio.timeout(120):
            async for _ in runs.events(run_id):
                """The worker drives it to its end."""
        result = await runs.result(run_id)
    assert (result.status, noted(tmp_path)) == (AgentStatus.COMPLETED, ["look", "look"])
