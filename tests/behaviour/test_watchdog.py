"""A run that holds the event loop: its process ends before another owner acts, or it begins nothing more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.cli.exit_codes import ExitCode

HOUSE = """
import asyncio
import sys
import time

from pilotage import Agent, AgentExecutionSpec, Application, Idempotency, Pod, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import ToolApprovalRequirement
from pilotage.container import ILifecycle
from pilotage.runtime import AgentRuns, LeaseSettings, WatchdogSettings
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore

store = MemoryStore()


@Pod
class Till:
    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def pay(self, amount: int) -> str:
        print("paid", amount, flush=True)
        return "paid"


@Agent(spec=AgentExecutionSpec(name="clerk", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, seconds: float) -> str:
        hold_the_loop(seconds)
        return await self.till.pay(5)


def hold_the_loop(seconds: float) -> None:
    print("holding", flush=True)
    time.sleep(seconds)


def made(*more: object) -> Application:
    app = Application("house").add(Clerk, Till, LeaseSettings(1.5), *store.ports, *more)
    initialize(app)
    return app


@Pod
class Customer(ILifecycle):
    def __init__(self, runs: AgentRuns) -> None:
        self.runs = runs

    async def start(self) -> None:
        await self.runs.start(Clerk, {"seconds": 60.0})


async def embedded(seconds: float, settings: WatchdogSettings) -> None:
    app = made(settings)
    async with app:
        handle = await app.get(AgentRuns).start(Clerk, {"seconds": seconds})
        (end,) = await asyncio.gather(handle.result(), return_exceptions=True)
        print(type(end).__name__, end, flush=True)


app = made(Customer)
kept = made(Customer, WatchdogSettings(ends_process=False))
if __name__ == "__main__":
    asyncio.run(embedded(float(sys.argv[1]), WatchdogSettings(ends_process=sys.argv[2] == "ends")))
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "my_house.py").write_text(HOUSE)
    return tmp_path


def ran(house: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, *command], cwd=house, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_worker_whose_loop_stands_still_ends_with_a_code_of_its_own(house: Path) -> None:
    ended = ran(house, "-m", "pilotage.cli.main", "worker", "my_house:app")
    assert ended.returncode == ExitCode.STALLED
    assert "holding" in ended.stdout
    assert "paid" not in ended.stdout
    assert "pilotage: the event loop has stood still for" in ended.stderr
    assert "this process ends and leaves its runs to others: " in ended.stderr
    assert "in hold_the_loop" in ended.stderr


def test_an_application_within_another_process_begins_no_further_effect_and_says_so(house: Path) -> None:
    ended = ran(house, "my_house.py", "1.3", "stays")
    assert (ended.returncode, ended.stdout.split()[:2]) == (0, ["holding", "EventLoopStalled"])
    assert "and the run is left to another owner" in ended.stdout
    assert "in hold_the_loop" in ended.stderr


def test_ending_the_process_can_be_switched_on(house: Path) -> None:
    assert ran(house, "my_house.py", "60", "ends").returncode == 75


def test_a_short_stop_is_no_stall(house: Path) -> None:
    ended = ran(house, "my_house.py", "0.1", "ends")
    assert ended.stdout.split()[:4] == ["holding", "paid", "5", "RunResult"]
