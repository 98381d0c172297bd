"""`pilotage worker`, started as a user starts it and stopped as an operator stops it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.terminal import CTRL_C, Terminal
from tests.behaviour.till import Till

from pilotage.cli.main import main

SHOP = """
import asyncio
import sys
from collections.abc import AsyncIterator

from pilotage import Agent, AgentExecutionSpec, Application, Idempotency, Pod, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import ToolApprovalRequirement
from pilotage.container import ILifecycle
from pilotage.runtime import AgentRuns, WorkerSettings
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore

store = MemoryStore()


@Pod
class Mail:
    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def send(self, what: str) -> str:
        print("sending", what, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("sent", what, flush=True)
        return what


@Agent(spec=AgentExecutionSpec(name="clerk", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    def __init__(self, mail: Mail) -> None:
        self.mail = mail

    async def execute(self, order: str) -> str:
        await self.mail.send("first")
        return await self.mail.send("second")


@Pod
class Customer(ILifecycle):
    def __init__(self, runs: AgentRuns) -> None:
        self.runs = runs

    async def start(self) -> None:
        await self.runs.start(Clerk, "A-17")


class Farewell: ...


@Pod
async def farewell() -> AsyncIterator[Farewell]:
    yield Farewell()
    runs = await store.states.list_resume_candidates()
    print("left", [str(run.status) for run in runs], list(store.tables.leases), flush=True)


app = Application("shop").add(Clerk, Mail, Customer, farewell, *store.ports)
initialize(app)
plain = Application("plain")
broken = Application("broken").add(Clerk, Mail, WorkerSettings(concurrency=2))
initialize(broken)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "my_worker_shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture
def worker(shop: Path) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "pilotage.cli.main",
        "worker",
        "my_worker_shop:app",
        "--concurrency",
        "4",
    ]
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=shop, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_finishes_its_action_and_leaves_the_run(
    worker: subprocess.Popen[str], told: signal.Signals
) -> None:
    assert worker.stdout
    assert worker.stdin
    lines = {worker.stdout.readline().strip(), worker.stdout.readline().strip()}
    assert lines == {"sending first", "application 'shop' takes up runs, 4 at once at most"}
    worker.send_signal(told)
    stopping = "stopping: runs have 30 seconds to finish their current action"
    assert worker.stdout.readline().strip() == stopping
    worker.stdin.write("go on\n")
    worker.stdin.flush()
    rest, errors = worker.communicate(timeout=240)
    assert rest.splitlines() == ["sent first", "left ['active'] []", "stopped"]
    assert (worker.returncode, errors) == (0, "")


def test_a_worker_prints_the_runs_that_it_takes_up_and_their_status(
    tmp_path: Path, sqlite_template: Path
) -> None:
    till = Till(tmp_path, sqlite_template)
    first, second = till.waiting_run(), till.waiting_run("wire amount 5")
    till.call("runs", "approve", first, "--no-resume")
    till.call("runs", "retry", second, "--no-resume")
    with Terminal("worker", "till:app", folder=tmp_path) as terminal:
        terminal.expect("application 'till' takes up runs, 200 at once at most")
        for run, status in ((first, "completed"), (second, "waits (recovery_requires_hitl)")):
            while f"run {run}: {status}" not in terminal.text:
                terminal.read_more()
            assert terminal.text.index(f"run {run}: taken up") < terminal.text.index(f"run {run}: {status}")
        terminal.type(CTRL_C)
        assert terminal.ended() == 0


def test_an_application_that_cannot_work_is_told_everything(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.setattr(sys, "path", [str(shop), *sys.path])
    assert main(["worker", "my_worker_shop:broken"]) == 1
    errors = capsys.readouterr().err
    assert "WorkerSettings asks for a worker, and nothing provides IAgentBacklog, IAgentLeases." in errors
    assert 'pip install "pilotage[sqlalchemy]"' in errors
    assert main(["worker", "my_worker_shop:plain"]) == 2
    assert "has no runs to work on. Load the plugins in it: app.load_plugins()." in capsys.readouterr().err


def test_options_that_make_no_sense_are_refused(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.setattr(sys, "path", [str(shop), *sys.path])
    assert main(["worker", "my_worker_shop:app", "--concurrency", "0"]) == 2
    assert "WorkerSettings.concurrency is 0. Use a positive number." in capsys.readouterr().err
