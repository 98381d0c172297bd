"""Secrets of a server come from the application's port, and a cancelled run cancels its task at the server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pilotage import AgentRuns, AgentStatus, Application
from pilotage.adapters.mcp import McpServer, McpStartError, McpTool
from pilotage.agent import ISecrets, RunContext, ToolEffects
from pilotage.safety.fields import SecretRef
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from tests.adapters.mcp.bank import QUICK, Bank, Teller, script

ECHO = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, known = asked["method"], {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        result = {**known, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif method == "tools/list":
        result = {**known, "tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    else:
        result = {"resultType": "complete", "content": [{"type": "text", "text": "it is " + os.environ["API_KEY"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return f"{ref.id}-s3cr3t-value"


def echo() -> McpServer:
    return McpServer(
        "echo",
        command=[sys.executable, "-S", "-c", ECHO],
        environment={"API_KEY": SecretRef("vault")},
        tools={"echo": McpTool(effects=ToolEffects.read_only())},
        limits=QUICK,
        accept="first use",
    )


async def test_a_secret_that_the_server_sends_back_is_masked() -> None:
    store, model = MemoryStore(), ScriptedModel([calls("echo_echo"), says("Done.")])
    async with Application("echo").add(Teller, echo(), Vault(), model, *store.ports).load_plugins() as app:
        run = await app.get(AgentRuns).start(Teller, "go")
        assert (await run.result()).output == "Done."
        shown = str(app.get(ScriptedModel).requests[-1].messages[-1].content)
    assert shown.startswith("it is ")
    assert "s3cr3t" not in shown


async def test_a_secret_that_nothing_provides() -> None:
    with pytest.raises(McpStartError, match="it needs the secret 'vault', and nothing provides ISecrets"):
        async with (
            Application("echo").add(Teller, echo(), ScriptedModel([]), *MemoryStore().ports).load_plugins()
        ):
            pass


async def test_a_cancelled_run_cancels_its_task(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.application(MemoryStore(), script("export")) as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Teller, "go")
        assert (await run.result()).status is AgentStatus.INTERRUPTED  # the task asks a question
        await runs.cancel(run.id)
        assert (await (await runs.resume(run.id)).result()).status is AgentStatus.CANCELLED
    assert json.loads((tmp_path / "cancelled").read_text())["taskId"].startswith("t")
