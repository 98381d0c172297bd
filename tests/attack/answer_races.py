"""One of two processes that answer the same questions: `python -m tests.attack.answer_races approve|reject`.

It reads lines `WAY RUN REQUEST`, answers by that way in, and writes what it was told: accepted, or a conflict.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO

import httpx
from fastapi import FastAPI

from pilotage import Agent, AgentExecutionSpec, Application, Pod, Principal, RecoveryStrategy, agent_tool
from pilotage.adapters.agui import driver_for
from pilotage.adapters.agui.encoding import line_of
from pilotage.adapters.agui.transport import frames_for
from pilotage.adapters.fastapi import agent_routes
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.agent.tools.metadata import ToolApprovalRequirement
from pilotage.cli.application import acting
from pilotage.cli.main import main as command_line
from pilotage.errors import AnswerConflictError
from pilotage.inbound.authentication import BearerTokens
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns

ACCEPTED, CONFLICT = "accepted", "conflict"
MODULE = "tests.attack.answer_races"


@Pod
class Bank:
    @agent_tool(approval=ToolApprovalRequirement.REQUIRED)
    async def pay(self, amount: int) -> str:
        """Pay."""
        return f"paid {amount}"


@Agent(spec=AgentExecutionSpec(name="payer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Payer:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, text: str) -> str:
        return await self.bank.pay(5)


def made() -> Application:
    """A new application over the database of the environment."""
    return Application("race").add(Bank, Payer, OfflineModel).load_plugins()


app = made()
"""The application of one command."""


class Answerer:
    """Answers questions in one way each, as one person."""

    def __init__(self, application: Application, runs: AgentRuns, decision: ApprovalDecision) -> None:
        self._app = application
        self._runs = runs
        self._decision = decision
        self._by = Principal(f"who-{decision.value}s")
        api = FastAPI()
        api.include_router(
            agent_routes(application, principal=BearerTokens({"a-token-of-sixteen": self._by}))
        )
        transport = httpx.ASGITransport(app=api)
        headers = {"authorization": "Bearer a-token-of-sixteen"}
        self._client = httpx.AsyncClient(transport=transport, base_url="http://race", headers=headers)

    async def runs(self, run_id: str, request_id: str) -> str:
        await self._runs.answer(run_id, request_id, self._decision, resume=False, principal=self._by)
        return ACCEPTED

    async def signal(self, run_id: str, request_id: str) -> str:
        kind, payload = (
            AgentSignalKind.APPROVAL_DECISION,
            {"request_id": request_id, "decision": self._decision},
        )
        await self._runs.signal(run_id, kind, payload, principal=self._by)
        return ACCEPTED

    async def http(self, run_id: str, request_id: str) -> str:
        body = {"request_id": request_id, "decision": self._decision.value, "resume": False}
        response = await self._client.post(f"/runs/{run_id}/answers", json=body)
        return {202: ACCEPTED, 409: f"{CONFLICT} {response.json().get('detail')}"}[response.status_code]

    async def cli(self, run_id: str, request_id: str) -> str:
        # Each command starts an application of its own.
        sys.modules[MODULE].app = made()  # type: ignore[attr-defined]
        said = StringIO()
        options = ["--app", f"{MODULE}:app", "--as", self._by.id]
        with redirect_stdout(said), redirect_stderr(said):
            words = ["runs", self._decision.value, request_id, "--no-resume", *options]
            code = await asyncio.to_thread(command_line, words)
        return {0: ACCEPTED, 5: f"{CONFLICT} {said.getvalue()}"}.get(code, f"{code}: {said.getvalue()}")

    async def agui(self, run_id: str, request_id: str) -> str:
        entry = {
            "interruptId": request_id,
            "status": "resolved",
            "payload": {"decision": self._decision.value},
        }
        given = {"threadId": "t", "runId": f"{run_id}-{self._decision}", "messages": [], "resume": [entry]}
        given |= {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        factory = driver_for(self._app, Payer, principal=self._by)
        frames = [json.loads(line_of(each)) async for each in frames_for(factory, json.dumps(given))]
        last = frames[-1]
        for frame in frames:
            if frame.get("name") == AnswerConflictError.code:
                return f"{CONFLICT} {frame['value']['message']}"
        return ACCEPTED if last["type"] == "RUN_FINISHED" else str(last)

    async def answered(self, way: str, run_id: str, request_id: str) -> str:
        """What the sender of an answer is told."""
        answer: Callable[[str, str], Awaitable[str]] = getattr(self, way)
        try:
            return await answer(run_id, request_id)
        except AnswerConflictError as error:
            return f"{CONFLICT} {error}"


WAYS = ("runs", "signal", "http", "cli", "agui")


async def answer_all(decision: ApprovalDecision) -> None:
    application, out = made(), sys.stdout
    async with acting(application) as runs:
        answerer = Answerer(application, runs, decision)
        out.write("ready\n")
        out.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            told = await answerer.answered(*line.split())
            out.write(" ".join(told.split()) + "\n")
            out.flush()


if __name__ == "__main__":
    # Commands find the application in the module of this name, which is not the one that runs.
    asyncio.run(import_module(MODULE).answer_all(ApprovalDecision(sys.argv[1])))
