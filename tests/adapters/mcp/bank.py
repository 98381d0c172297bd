"""The ledger server in a folder, the application of an agent that uses it, and a person who answers truthfully."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from pilotage import Agent, AgentRuns, AgentStatus, Application, RecoveryDecision, ToolEffects
from pilotage.adapters.mcp import McpLimits, McpServer, McpServerSettings, McpTool
from pilotage.agent import AgentRecoveryRequest, Idempotency, ToolApprovalRequirement
from pilotage.agent.run_values import RunResult
from pilotage.agent.tool_review import FIRST_USE
from pilotage.runtime import AgentRuns as Runs
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from tests.adapters.mcp.ledger import Ledger

SCRIPT = Path(__file__).with_name("ledger.py")
MOST_PAUSES = 300
"""Of one process: a run that pauses more often does not come to its end."""
UNASKED = ToolApprovalRequirement.NOT_REQUIRED
OUTSIDE = ToolEffects.external_side_effect()
ONCE = McpTool(effects=OUTSIDE, approval=UNASKED, accepts_untrusted=True)
TOOLS = {
    "look": McpTool(effects=ToolEffects.read_only()),
    "put": McpTool(
        effects=OUTSIDE, approval=UNASKED, accepts_untrusted=True, idempotency=Idempotency.IDEMPOTENT
    ),
    "pay": ONCE,
    "charge": ONCE,
    "book": ONCE,
    "export": ONCE,
}
QUICK = McpLimits(connect_seconds=10, call_seconds=10, stop_seconds=1)


class InProcess:
    """A transport to the ledger without a process: it answers each message at once."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder)
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> tuple[object, object]:
        to_server, requests = anyio.create_memory_object_stream[SessionMessage](10)
        replies, to_client = anyio.create_memory_object_stream[SessionMessage](10)
        self.task = asyncio.create_task(self._serve(requests, replies))
        return to_client, to_server

    async def __aexit__(self, *_: object) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _serve(
        self, requests: ObjectReceiveStream[SessionMessage], replies: ObjectSendStream[SessionMessage]
    ) -> None:
        async with requests, replies:
            async for each in requests:
                sent = each.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                if (reply := self.ledger.handle(sent)) is not None:
                    await replies.send(SessionMessage(jsonrpc_message_adapter.validate_python(reply)))


class Bank:
    """The world outside of the agent: it outlives every process of it."""

    def __init__(self, folder: Path, kind: str = "stdio") -> None:
        self.folder, self.kind = folder, kind
        self.port = 0
        self.answered: list[str] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Keep the server of HTTP running, and start it anew at the same port when it dies; the port is kept meanwhile."""
        if self.kind != "http":
            yield
            return
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = listening.getsockname()[1]
            started = asyncio.Event()
            task = asyncio.create_task(self._serve(listening.fileno(), started))
            try:
                await started.wait()
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})

    async def _serve(self, descriptor: int, started: asyncio.Event) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-S",
                str(SCRIPT),
                str(self.folder),
                f"--http={descriptor}",
                pass_fds=(descriptor,),
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            try:
                await process.stdout.readline()
                started.set()
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    def settings(self, **options: object) -> McpServerSettings:
        """Return the settings of the server."""
        over: dict[str, object] = {"command": [sys.executable, "-S", str(SCRIPT), str(self.folder)]}
        if self.kind == "http":
            over = {"url": f"http://127.0.0.1:{self.port}/mcp"}
        given: dict[str, object] = {"tools": TOOLS, "accept": FIRST_USE, "limits": QUICK, **over, **options}
        return McpServerSettings("bank", **given)  # type: ignore[arg-type]

    def server(self, **options: object) -> McpServer:
        """Return the server as the application has it."""
        over = (lambda: InProcess(self.folder)) if self.kind == "memory" else None
        return McpServer(self.settings(**options), transport=over)

    def application(self, store: MemoryStore, model: ScriptedModel, **options: object) -> Application:
        """Return the application of one process."""
        server = self.server(**options)
        return Application("bank").add(Teller, server, model, *store.ports).load_plugins()

    def fault(self, fault: str) -> None:
        """Let the server do something at one of its moments, once."""
        (self.folder / "fault").write_text(fault)

    @property
    def reached(self) -> bool:
        """Whether the fault has happened."""
        return (self.folder / "reached").exists()

    def effects(self, tool: str) -> list[dict[str, object]]:
        """Return the effects of a tool."""
        path = self.folder / "effects"
        lines = [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []
        return [each for each in lines if each["tool"] == tool]

    async def answer(self, runs: Runs, run_id: str) -> None:
        """Answer the open questions of a run: names when asked for, and what really happened."""
        for question in await runs.questions(run_id):
            assert isinstance(question, AgentRecoveryRequest)
            if question.input_schema is not None:
                self.answered.append("input")
                await runs.answer(
                    run_id, question.id, RecoveryDecision.DONE, result={"name": "Ann"}, resume=False
                )
                continue
            self.answered.append("unknown")
            tool = str(question.action_name).removeprefix("step:bank_")
            if self.effects(tool):
                result = f"{tool} done"
                await runs.answer(run_id, question.id, RecoveryDecision.DONE, result=result, resume=False)
            else:
                await runs.answer(run_id, question.id, RecoveryDecision.RETRY, resume=False)


@Agent(durable=True)
class Teller:
    """Use the bank."""

    def __init__(self, bank: McpServer) -> None:
        self.bank = bank


def script(tool: str) -> ScriptedModel:
    """Return a model that calls one tool of the bank."""
    return ScriptedModel([calls(f"bank_{tool}", amount=7), says("Done.")])


async def carried_through(
    bank: Bank, store: MemoryStore, tool: str, *, processes: int = 1, **options: object
) -> tuple[RunResult, str]:
    """Bring one call to its end, with a new process of ours after every pause; return result and the model's last view."""
    run_id, result, model = "", None, script(tool)
    for number in range(12):
        async with bank.application(store, model, **options) as app:
            runs = app.get(AgentRuns)
            if number == 0:
                run = await runs.start(Teller, "go")
                run_id, result = run.id, await run.result()
            else:
                await bank.answer(runs, run_id)
                result = await (await runs.resume(run_id)).result()
            for _ in range(MOST_PAUSES if processes == 1 else 0):
                if result.status is not AgentStatus.INTERRUPTED:
                    break
                await bank.answer(runs, run_id)
                result = await (await runs.resume(run_id)).result()
            if result.state.is_terminal:
                assert result.status is AgentStatus.COMPLETED, result.state
                return result, str(app.get(ScriptedModel).requests[-1].messages[-1].content)
        model = model.restarted()
    raise AssertionError("the run does not come to its end")
