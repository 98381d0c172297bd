"""SIGKILL of our process in the middle of a call: another process brings the run to its end, and nothing is done twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage import AgentRuns, AgentStatus
from tests.adapters.mcp.bank import Bank
from tests.adapters.mcp.mortal import process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the /proc of Linux"),
]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize(
    "moment", ["look:after", "pay:before", "pay:after", "charge:after", "book:after", "export:look"]
)
async def test_a_call_is_brought_to_its_end_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", f"sqlite:///{tmp_path / 'runs.db'}")
    (tmp_path / "key").write_bytes(b"the same in every process")
    bank, tool = Bank(tmp_path, kind), moment.partition(":")[0]
    async with bank.serving():
        run_id = await killed(bank, tool, moment)
        async with process(bank, tool) as app:
            runs = app.get(AgentRuns)
            result = await (await runs.resume(run_id)).result()
            while result.status is AgentStatus.INTERRUPTED:
                await bank.answer(runs, run_id)
                result = await (await runs.resume(run_id)).result()
            await runs.verify(run_id)
    assert result.output == "Done."
    assert len(bank.effects(tool)) == (0 if tool == "look" else 1)
    assert ("unknown" in bank.answered) == (tool in ("pay", "book"))


async def killed(bank: Bank, tool: str, moment: str) -> str:
    """Kill a process of ours whose call has come to a moment at the server, and return the id of its run."""
    if tool != "book":
        bank.fault(f"hang {moment}")
    arguments = [str(bank.folder), bank.kind, str(bank.port), tool]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.adapters.mcp.mortal", *arguments, cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        run_id = (await child.stdout.readline()).decode().strip()
        if tool == "book":
            run_id = await _with_an_answer(bank, run_id, moment)
        while not bank.reached:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0)
    finally:
        child.kill()
        await child.wait()
    return run_id


async def _with_an_answer(bank: Bank, run_id: str, moment: str) -> str:
    """Answer the question of a run: the process that drives it goes on to the moment."""
    async with process(bank, "book") as app:
        runs = app.get(AgentRuns)
        while not await runs.questions(run_id):  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0)
        bank.fault(f"hang {moment}")
        await bank.answer(runs, run_id)
        driving = asyncio.create_task(_resumed(runs, run_id))
        while not bank.reached:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0)
        driving.cancel()
    return run_id


async def _resumed(runs: AgentRuns, run_id: str) -> None:
    await (await runs.resume(run_id)).result()
