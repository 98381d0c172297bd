"""Processes that work, are killed and are started again; and a customer that is never killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias

from pilotage import AgentSignalKind, AgentStatus
from pilotage.agent import AgentRecoveryRequest, ApprovalDecision, RecoveryDecision
from pilotage.errors import PilotageError
from pilotage.runtime import AgentRuns
from pilotage.runtime.run.start import run_id_of
from tests.torture.shop import DATABASE, LAST, ORDERS, WORLD, is_gift, made
from tests.torture.world import World

ROOT = Path(__file__).parents[2]
UNREPEATABLE = ("pay", "give", "pack")


@dataclass
class Findings:
    """What came of a scenario."""

    runs: int = 0
    kills: int = 0
    stops: int = 0
    outages: int = 0
    effects: int = 0
    asked: int = 0
    lost_runs: list[str] = field(default_factory=list[str])
    lost_signals: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost and nothing done twice."""
        return not (self.lost_runs or self.lost_signals or self.doubled or self.missing)

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.kills} kills, {self.stops} orderly stops, {self.outages} outages, {self.effects} effects; asked a person "
            f"{self.asked} times; unrepeatable effects done twice: {len(self.doubled)}, missing: {len(self.missing)}; "
            f"lost runs: {len(self.lost_runs)}, lost signals: {len(self.lost_signals)}"
        )


class Rig:
    """Some worker processes over one database."""

    def __init__(self, folder: Path, database: str, orders: Sequence[str], seed: int = 0) -> None:
        self.random = Random(seed)
        self.world = World(folder / "world.txt")
        self.orders = list(orders)
        self.findings = Findings(runs=len(self.orders))
        self._log = (folder / "workers.log").open("ab")
        self._workers: list[subprocess.Popen[bytes]] = []
        os.environ |= {DATABASE: database, WORLD: str(folder / "world.txt"), ORDERS: " ".join(self.orders)}

    def start_worker(self, last_moment: int = 0) -> subprocess.Popen[bytes]:
        """Start a worker as a user would; it dies at a moment of its own, if one is given."""
        worker = subprocess.Popen(
            [sys.executable, "-m", "pilotage.cli.main", "worker", "tests.torture.worker:app"],
            cwd=ROOT,
            env={**os.environ, LAST: str(last_moment)},
            stdout=self._log,
            stderr=self._log,
        )
        self._workers.append(worker)
        return worker

    async def kill_one(self) -> None:
        """Kill a worker at once, and start another."""
        worker = self.random.choice(self._workers)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self._workers.remove(worker)
        self.findings.kills += 1
        self.start_worker()

    async def restart_one(self) -> None:
        """Stop a worker in good order, and start another."""
        worker = self._workers.pop(0)
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.wait)
        self.findings.stops += 1
        self.start_worker()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._log.close()


class Customer:
    """Sends what orders wait for, and answers questions by looking into the world."""

    def __init__(self, rig: Rig, runs: AgentRuns) -> None:
        self._rig = rig
        self._runs = runs
        self._open = {order: run_id_of("default", order) for order in rig.orders}
        self._told: set[str] = set()
        self._asked: set[str] = set()

    async def serve(self) -> bool:
        """Look after all orders once; whether all have come to their end."""
        for order, run_id in list(self._open.items()):
            try:
                if (await self._runs.get(run_id)).is_terminal:
                    del self._open[order]
                else:
                    await self._look_after(order, run_id)
            except (PilotageError, OSError):
                # Not there yet, ended meanwhile, or the database is away.
                continue
        return not self._open

    async def _look_after(self, order: str, run_id: str) -> None:
        if order not in self._told:
            parcel = {"parcel": f"parcel {order}"}
            await self._runs.signal(run_id, AgentSignalKind.EXTERNAL_EVENT, parcel, id=f"parcel {order}")
            self._told.add(order)
        for question in await self._runs.questions(run_id):
            if not isinstance(question, AgentRecoveryRequest):
                await self._runs.answer(run_id, question.id, ApprovalDecision.APPROVE, resume=False)
                continue
            self._asked.add(question.id)
            effect = str(question.action_name)
            if self._rig.world.happened(effect, order):
                done = f"{effect} {order}"
                await self._runs.answer(run_id, question.id, RecoveryDecision.DONE, result=done, resume=False)
            else:
                await self._runs.answer(run_id, question.id, RecoveryDecision.RETRY, resume=False)

    async def check(self) -> None:
        """Compare what the runs say with what has happened."""
        findings, counts = self._rig.findings, self._rig.world.counts()
        findings.effects = sum(counts.values())
        findings.asked = len(self._asked)
        for order in self._rig.orders:
            await self._check(order, counts)

    async def _check(self, order: str, counts: Counter[tuple[str, str]]) -> None:
        findings, run_id = self._rig.findings, run_id_of("default", order)
        wanted = {effect for effect in UNREPEATABLE if effect != "give" or is_gift(order)}
        findings.doubled += [f"{each} {order}" for each in UNREPEATABLE if counts[each, order] > 1]
        findings.missing += [f"{each} {order}" for each in wanted if not counts[each, order]]
        try:
            result = await self._runs.result(run_id)
            await self._runs.verify(run_id)
        except PilotageError as error:
            findings.lost_runs.append(f"{order}: {error}")
            return
        if result.status != AgentStatus.COMPLETED:
            findings.lost_runs.append(f"{order}: {result.status} {result.error}")
        elif f"parcel {order}" not in str(result.output):
            findings.lost_signals.append(order)


Disturbance: TypeAlias = Callable[[Rig], Awaitable[None]]


async def served(
    rig: Rig,
    seconds: float,
    disturb: float = 0.0,
    *,
    disturbance: Disturbance | None = None,
    heir_of: subprocess.Popen[bytes] | None = None,
) -> Findings:
    """Serve all orders while something happens every so often; the findings.

    A worker that dies by itself has an heir, who is started then.
    """
    app, store = made(works=False)
    try:
        async with app:
            customer = Customer(rig, app.get(AgentRuns))
            async with asyncio.timeout(seconds):
                disturbing = (
                    asyncio.create_task(_disturbed(rig, disturb, disturbance)) if disturbance else None
                )
                while not await customer.serve():
                    if heir_of is not None and heir_of.poll() is not None:
                        rig.findings.kills += 1
                        rig.start_worker()
                        heir_of = None
                    await asyncio.sleep(0.05)
                if disturbing is not None:
                    disturbing.cancel()
                    await asyncio.wait([disturbing])
            await customer.check()
    finally:
        store.close()
    return rig.findings


async def _disturbed(rig: Rig, every: float, disturbance: Disturbance) -> None:
    while True:
        await asyncio.sleep(rig.random.uniform(0, 2 * every))
        await disturbance(rig)
