"""The life of a connection: begun anew when it is lost, and nothing of it is left behind, whatever ends it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pilotage import Agent, AgentRuns, AgentStatus, Application
from pilotage.adapters.mcp import McpLimits, McpServer, McpServers, McpTool
from pilotage.agent import Idempotency
from pilotage.agent.tool_review import FIRST_USE
from pilotage.errors import ToolError
from pilotage.runtime import timeout
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from tests.adapters.mcp.bank import OUTSIDE, QUICK, SCRIPT, TOOLS, UNASKED, Bank, Teller, script
from tests.adapters.mcp.holder import stubborn


def has_gone(pids: list[int], seconds: float = 10) -> bool:
    """Return whether processes are gone, after waiting for them."""
    until = time.monotonic() + seconds
    for pid in pids:
        try:
            watched = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([watched], [], [], max(until - time.monotonic(), 0))[0]:
                return False
        finally:
            os.close(watched)
    return True


def pids_in(folder: Path) -> list[int]:
    return [int(each) for each in (folder / "pids").read_text().split()]


async def until(has_come: Callable[[], bool]) -> None:
    """Let the loop go on until something outside of it has come."""
    while not has_come():  # noqa: ASYNC110 - it happens in another process
        await asyncio.sleep(0)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def children() -> set[str]:
    found = set[str]()
    for task in Path("/proc/self/task").iterdir():
        found |= set((task / "children").read_text().split())
    return found


@pytest.mark.slow
async def test_the_group_of_a_server_ends_when_we_are_killed(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.adapters.mcp.holder", str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"ready\n"
    pids = pids_in(tmp_path)
    holder.send_signal(signal.SIGKILL)
    await holder.wait()
    assert await asyncio.to_thread(has_gone, pids)


@pytest.mark.slow
async def test_the_group_of_a_server_ends_with_the_application(tmp_path: Path) -> None:
    server = McpServer(
        "bank", command=stubborn(tmp_path), limits=McpLimits(stop_seconds=0.2), accept=FIRST_USE
    )
    await server.start()
    pids = pids_in(tmp_path)
    await server.stop()
    assert has_gone(pids, 0)


@pytest.mark.slow
async def test_the_group_of_a_server_ends_with_its_guard(tmp_path: Path) -> None:
    before = children()
    server = McpServer("bank", command=stubborn(tmp_path), limits=QUICK, accept=FIRST_USE)
    await server.start()
    pids = pids_in(tmp_path)
    (guard,) = children() - before
    os.kill(int(guard), signal.SIGKILL)
    assert await asyncio.to_thread(has_gone, pids)
    await server.stop()


async def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.application(MemoryStore(), script("look")) as app:
        bank.fault("kill look:before")
        result = await (await app.get(AgentRuns).start(Teller, "go")).result()
        assert result.output == "Done."
        assert bank.reached
        assert app.get(McpServer).is_connected


@pytest.mark.slow
async def test_nothing_is_left_of_many_starts_crashes_and_cancellations(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    (tmp_path / "key").write_bytes(b"key")

    async def once(number: int) -> None:
        async with bank.application(MemoryStore(), script("look")) as app:
            if number % 3:
                bank.fault(f"{('kill', 'cut', 'hang')[number % 3]} look:before")
            run = await app.get(AgentRuns).start(Teller, "go")
            if number % 3 == 2:
                await until(lambda: bank.reached)
                await app.get(AgentRuns).cancel(run.id)
            await run.result()
        (tmp_path / "reached").unlink(missing_ok=True)

    await once(0)
    gc.collect()
    files, tasks, processes = open_files(), len(asyncio.all_tasks()), children()
    for number in range(30):
        await once(number)
    gc.collect()
    assert children() == processes
    assert len(asyncio.all_tasks()) == tasks
    assert open_files() <= files


async def test_an_idle_connection_uses_no_processor(tmp_path: Path) -> None:
    async with Bank(tmp_path).application(MemoryStore(), script("look")):
        began = time.process_time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1)
        assert time.process_time() - began < 0.1


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(tmp_path: Path, kind: str) -> None:
    bank = Bank(tmp_path, kind)
    bank.fault("hang look:before")
    async with bank.serving():
        limits = McpLimits(call_seconds=2)
        async with bank.application(MemoryStore(), script("look"), limits=limits) as app:
            result = await (await app.get(AgentRuns).start(Teller, "go")).result()
            assert result.output == "Done."  # it only reads, so it was asked again
            shown = app.get(ScriptedModel).requests[-1].messages[-1].content
    assert shown == "looked 7"
    if kind == "stdio":
        assert "requestId" in json.loads((tmp_path / "cancelled").read_text())


@Agent(durable=True)
class Hasty:
    """Waits for a short time only."""

    def __init__(self, bank: McpServer) -> None:
        self.bank = bank

    async def execute(self) -> str:
        look = self.bank.tool_catalog.by_schema_name("bank_look").callable
        try:
            async with timeout(0.2):
                return str(await look(amount=1))  # type: ignore[misc]
        except TimeoutError:
            return "too late"


async def test_a_call_that_its_program_cuts_short_is_cancelled_at_the_server(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    bank.fault("hang look:before")
    server = McpServer(bank.settings())
    async with Application("bank").add(Hasty, server, *MemoryStore().ports).load_plugins() as app:
        result = await (await app.get(AgentRuns).start(Hasty)).result()
        assert result.output == "too late"
        assert (tmp_path / "reached").exists()
        await until((tmp_path / "cancelled").exists)
    assert "requestId" in json.loads((tmp_path / "cancelled").read_text())


async def test_no_more_calls_are_under_way_than_allowed(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    server = bank.server(limits=McpLimits(most_calls=2))
    await server.start()
    tool = server.tool_catalog.by_schema_name("bank_look")
    found = await asyncio.gather(*(plain(tool, number) for number in range(20)))
    await server.stop()
    assert found == [f"looked {number}" for number in range(20)]


async def plain(tool: object, number: int) -> object:
    return await tool.callable(amount=number)  # type: ignore[attr-defined]


async def test_several_servers_are_one_provider(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    servers = McpServers(
        [
            McpServer(
                folder.name,
                command=[sys.executable, "-S", str(SCRIPT), str(folder)],
                tools=TOOLS,
                limits=QUICK,
                accept=FIRST_USE,
            )
            for folder in folders
        ]
    )

    @Agent(durable=True)
    class Both:
        """Use both."""

        def __init__(self, servers: McpServers) -> None:
            self.servers = servers

    model = ScriptedModel([calls("a_pay", amount=1), calls("b_pay", amount=2), says("Done.")])
    async with Application("two").add(Both, servers, model, *MemoryStore().ports).load_plugins() as app:
        result = await (await app.get(AgentRuns).start(Both, "go")).result()
    assert result.output == "Done."
    assert [len(Bank(folder).effects("pay")) for folder in folders] == [1, 1]


async def test_an_application_starts_without_a_server_that_is_not_required() -> None:
    server = McpServer("far", url="http://127.0.0.1:9/mcp", limits=QUICK, is_required=False)
    model = ScriptedModel([calls("far_look"), says("Done.")])
    async with Application("bank").add(Teller, server, model, *MemoryStore().ports).load_plugins() as app:
        result = await (await app.get(AgentRuns).start(Teller, "go")).result()
        assert result.output == "Done."
        assert "there is no tool 'far_look'" in str(app.get(ScriptedModel).requests[-1].messages[-1].content)


async def test_a_new_list_is_for_the_runs_that_begin_later(tmp_path: Path) -> None:
    (tmp_path / "tools").write_text(json.dumps([{"name": "look"}]))
    bank = Bank(tmp_path)
    tool = McpTool(effects=OUTSIDE, approval=UNASKED, idempotency=Idempotency.IDEMPOTENT)
    server = McpServer(bank.settings(tools={"look": tool}))
    model = ScriptedModel([says("One."), says("Two.")])
    async with Application("bank").add(Teller, server, model, *MemoryStore().ports).load_plugins() as app:
        runs = app.get(AgentRuns)
        before = server.tool_catalog
        assert server.tool_catalog is before
        await (await runs.start(Teller, "go")).result()
        (tmp_path / "tools").write_text(json.dumps([{"name": "look"}, {"name": "pay"}]))
        server.list_again()
        await until(lambda: bool(server.review.off))
        assert server.tool_catalog is before
        await server.accept(server.review.off, by="ada")
        await until(lambda: server.tool_catalog is not before)
        assert (await (await runs.start(Teller, "go")).result()).status is AgentStatus.COMPLETED
        first, second = (
            [tool.name for tool in each.tool_calling.tools] if each.tool_calling else []
            for each in model.requests
        )
    assert first == ["bank_look"]
    assert second == ["bank_look", "bank_pay"]


async def test_a_run_whose_tool_is_gone_says_so_and_calls_nothing(tmp_path: Path) -> None:
    bank, store = Bank(tmp_path), MemoryStore()
    (tmp_path / "key").write_bytes(b"the same in every process")
    model = ScriptedModel([calls("bank_pay", amount=7), calls("bank_book", amount=1), says("Done.")])
    async with bank.application(store, model) as app:
        run = await app.get(AgentRuns).start(Teller, "go")
        assert (await run.result()).status is AgentStatus.INTERRUPTED  # who books?
    (tmp_path / "tools").write_text(json.dumps([{"name": "book"}]))
    async with bank.application(store, model.restarted(), tools={"book": TOOLS["book"]}) as app:
        runs = app.get(AgentRuns)
        await bank.answer(runs, run.id)
        result = await (await runs.resume(run.id)).result()
        assert result.status is AgentStatus.INTERRUPTED
        assert "the tool 'bank_pay' was called, and is not on offer any more" in str(result.state.metadata)
    (tmp_path / "tools").unlink()
    async with bank.application(store, model.restarted()) as app:
        assert (await (await app.get(AgentRuns).resume(run.id)).result()).output == "Done."
    assert len(bank.effects("pay")) == 1


async def test_an_application_stops_while_a_server_is_started_again(tmp_path: Path) -> None:
    program = (
        "import pathlib, runpy, sys, time\n"
        f"once = pathlib.Path({str(tmp_path)!r}) / 'once'\n"
        "if once.exists():\n"
        "    once.with_name('again').touch(); time.sleep(1000)\n"
        "once.touch()\n"
        f"sys.argv = ['', {str(tmp_path)!r}]\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
    )
    bank = Bank(tmp_path)
    limits = McpLimits(connect_seconds=100, stop_seconds=0.2)
    server = McpServer(bank.settings(command=[sys.executable, "-S", "-c", program], limits=limits))
    await server.start()
    bank.fault("kill look:before")
    looking = asyncio.create_task(plain(server.tool_catalog.by_schema_name("bank_look"), 1))
    await until((tmp_path / "again").exists)
    async with asyncio.timeout(20):
        await server.stop()
    with pytest.raises(ToolError, match="is not connected"):
        await looking
