"""Healthy runs beside poison: runs that end their process, runs that hold its event loop, and workers started again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import AgentState, ToolApprovalRequirement
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.agent.state import AgentStateReason
from pilotage.runtime import AgentRuns, LeaseSettings, WorkerSettings
from pilotage.runtime.delivery.watchdog import STALLED_EXIT_CODE
from pilotage.runtime.plugin import initialize
from tests.torture.rig import ROOT, Findings
from tests.torture.shop import DATABASE

HEALTHY, DIES, BLOCKS = "healthy", "dies", "blocks"
DEATH_CODE = 13
_WORKS = "TORTURE_WARD_WORKS"
_LEASE = LeaseSettings(seconds=2.0)
_SETTINGS = WorkerSettings(concurrency=10, poll_seconds=0.1, grace_seconds=0.0, retry_seconds=0.05)


@Pod
class Pharmacy:
    """Has an effect that may be repeated: a neighbour ends the process in the middle of it."""

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def hand_out(self, what: str) -> str:
        """Hand something out."""
        await asyncio.sleep(0.01)
        return what


@Agent(spec=AgentExecutionSpec(name="patient", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Patient:
    """Is healthy, or poison to its process; in the process that starts the runs all of them wait."""

    def __init__(self, pharmacy: Pharmacy) -> None:
        self.pharmacy = pharmacy

    async def execute(self, kind: str) -> str:
        """Do what the kind says."""
        if _WORKS not in os.environ:
            await asyncio.Event().wait()
        if kind == DIES:
            os._exit(DEATH_CODE)
        if kind == BLOCKS:
            time.sleep(3600)  # noqa: ASYNC251 - that is the poison
        # Long enough to be at work when a neighbour strikes.
        await asyncio.sleep(0.1)
        return await self.pharmacy.hand_out(kind)


def made(*more: object) -> tuple[Application, SqlAlchemyStore]:
    """The application over the database of the environment."""
    store = SqlAlchemyStore.open(DatabaseSettings(os.environ[DATABASE]))
    app = Application("ward").add(Patient, Pharmacy, _LEASE, *store.ports, *more)
    initialize(app)
    return app, store


if _WORKS in os.environ:
    app, _store = made(_SETTINGS)


async def poisoned(
    folder: Path,
    database: str,
    healthy: int = 60,
    poison: Sequence[str] = (DIES, BLOCKS) * 3,
    workers: int = 3,
    seconds: float = 900.0,
    earlier_claims: int = 0,
) -> Findings:
    """Workers that are started again as often as poison ends them: healthy runs complete, poison is quarantined.

    `earlier_claims` of each run are counted already.
    """
    os.environ[DATABASE] = database
    findings = Findings(runs=healthy + len(poison))
    kinds = await _begun([HEALTHY] * healthy + list(poison), earlier_claims)
    async with _workers(folder, workers, findings), asyncio.timeout(seconds), _reading() as runs:
        waiting = dict(kinds)
        while waiting:
            for run_id in list(waiting):
                if _is_settled(await runs.get(run_id)):
                    del waiting[run_id]
            await asyncio.sleep(0.1)
        for run_id, kind in kinds.items():
            if problem := _problem(kind, await runs.get(run_id)):
                findings.lost_runs.append(f"{run_id} ({kind}): {problem}")
    return findings


async def _begun(kinds: Sequence[str], claims: int) -> dict[str, str]:
    """Start runs in a process that leaves them before they do anything."""
    app, store = made()
    try:
        async with app:
            runs = app.get(AgentRuns)
            begun = {(await runs.start(Patient, {"kind": kind})).id: kind for kind in kinds}
        for run_id in begun:
            for _ in range(claims):
                await store.backlog.begin(RunKey(DEFAULT_TENANT, run_id), 0.0)
        return begun
    finally:
        store.close()


@asynccontextmanager
async def _reading() -> AsyncGenerator[AgentRuns]:
    app, store = made()
    try:
        async with app:
            yield app.get(AgentRuns)
    finally:
        store.close()


@asynccontextmanager
async def _workers(folder: Path, count: int, findings: Findings) -> AsyncGenerator[None]:
    """So many workers, each started again when it ends."""
    log = (folder / "workers.log").open("ab")
    keeping = [asyncio.create_task(_kept_up(log.fileno(), findings)) for _ in range(count)]
    try:
        yield
    finally:
        for each in keeping:
            each.cancel()
        await asyncio.wait(keeping)
        log.close()


async def _kept_up(log: int, findings: Findings) -> None:
    while True:
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pilotage.cli.main", "worker", "tests.torture.ward:app"),
            cwd=ROOT,
            env={**os.environ, _WORKS: "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            code = await worker.wait()
        finally:
            with suppress(ProcessLookupError):
                worker.kill()
            await worker.wait()
        if code not in (DEATH_CODE, STALLED_EXIT_CODE):
            findings.lost_runs.append(f"a worker ended with {code}")
        findings.kills += 1


def _is_settled(state: AgentState) -> bool:
    return state.is_terminal or state.status is AgentStatus.INTERRUPTED


def _problem(kind: str, state: AgentState) -> str | None:
    """What is wrong with the end of a run."""
    if kind == HEALTHY:
        return None if state.status is AgentStatus.COMPLETED else f"{state.status}: {state.current_activity}"
    if state.reason is not AgentStateReason.POISONED:
        return f"{state.status}, {state.reason}"
    # A run that ends its process leaves no error of its own; it may have been beside one that held the loop.
    is_told = kind == DIES or "in execute" in str(state.metadata.get("poison"))
    return None if is_told else f"its last error: {state.metadata.get('poison')}"
