"""The application that is tortured: orders that are looked up, paid, packed and sent, some of them with a person's word.

It is read from the environment, so that any number of processes can be started as a user would start them.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import ToolApprovalRequirement
from pilotage.container import ILifecycle
from pilotage.errors import PilotageError
from pilotage.runtime import AgentRuns, LeaseSettings, WorkerSettings, next_signal
from pilotage.runtime.plugin import initialize
from tests.torture.moments import Moments, MortalJournal
from tests.torture.world import World

DATABASE, WORLD, ORDERS, LAST = "TORTURE_DATABASE", "TORTURE_WORLD", "TORTURE_ORDERS", "TORTURE_LAST_MOMENT"
HURRIES = "TORTURE_HURRIES"
"""Set where commits need not be forced to the disk: in an SQLite file the event loop itself writes them then."""

LEASE = LeaseSettings(seconds=1.5)
_DURABLE = RecoveryStrategy.ACTION_BOUNDARY
_FREE = ToolApprovalRequirement.NOT_REQUIRED


def is_gift(order: str) -> bool:
    """Whether a person must allow the order: every fourth one."""
    return int(order.partition("-")[2]) % 4 == 0


@Pod
class Warehouse:
    """Has an effect of every class. Each takes a moment, so that kills find it at work."""

    def __init__(self, world: World, moments: Moments) -> None:
        self._world = world
        self._moments = moments

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, order: str) -> str:
        """Look an order up."""
        return f"order {order}"

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=_FREE)
    async def reserve(self, order: str) -> str:
        """Reserve what was ordered; doing that again changes nothing."""
        return await self._do("reserve", order)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=_FREE,
        reads_untrusted=False,
    )
    async def pay(self, order: str) -> str:
        """Take the money."""
        return await self._do("pay", order)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reads_untrusted=False,
    )
    async def give(self, order: str) -> str:
        """Add a gift; a person must allow it."""
        return await self._do("give", order)

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=_FREE,
        reads_untrusted=False,
    )
    async def pack(self, order: str) -> str:
        """Pack it."""
        return await self._do("pack", order)

    async def _do(self, effect: str, order: str) -> str:
        self._moments.pass_by()
        self._world.happen(effect, order)
        self._moments.pass_by()
        await asyncio.sleep(0.002)
        self._moments.pass_by()
        return f"{effect} {order}"


@Agent(spec=AgentExecutionSpec(name="packer", recovery=_DURABLE))
class Packer:
    """Packs an order, as a child of whoever asks."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    async def execute(self, order: str) -> str:
        return await self.warehouse.pack(order)


@Agent(
    spec=AgentExecutionSpec(
        name="clerk",
        recovery=_DURABLE,
        delegation_allowed=True,
        accepted_signals=(AgentSignalKind.EXTERNAL_EVENT,),
    )
)
class Clerk:
    """Brings an order to its end."""

    def __init__(self, warehouse: Warehouse, packer: Packer) -> None:
        self.warehouse = warehouse
        self.packer = packer

    async def execute(self, order: str) -> str:
        done = [await self.warehouse.look(order)]
        done += await asyncio.gather(self.warehouse.reserve(order), self.warehouse.pay(order))
        if is_gift(order):
            done.append(await self.warehouse.give(order))
        parcel = await next_signal(AgentSignalKind.EXTERNAL_EVENT)
        done.append(str(parcel.payload["parcel"]))
        done.append(await self.packer.execute(order))
        return ", ".join(done)


@Pod
class Counter(ILifecycle):
    """Takes orders in: each process starts those that are not there, in an order of its own."""

    def __init__(self, runs: AgentRuns) -> None:
        self._runs = runs
        self._taking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._taking = asyncio.create_task(self._take())

    async def stop(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait([self._taking])

    async def _take(self) -> None:
        orders = os.environ.get(ORDERS, "").split()
        for order in Random(os.getpid()).sample(orders, len(orders)):
            try:
                await self._runs.start(Clerk, order, id=order)
            except (PilotageError, OSError):
                # Somebody else has started it in this moment, or the database is away: it is looked at again later.
                continue


def made(*, works: bool, last_moment: int = 0) -> tuple[Application, SqlAlchemyStore]:
    """The application of one process; one that does not work drives nothing."""
    moments = Moments(last_moment)
    in_place = HURRIES in os.environ
    store = SqlAlchemyStore.open(
        DatabaseSettings(os.environ[DATABASE], timeout_seconds=10, may_lose_commits_on_power_failure=in_place)
    )
    journal, *others = store.ports
    app = Application("shop").add(Warehouse, Packer, Clerk, LEASE, moments, World(Path(os.environ[WORLD])))
    app.add(MortalJournal(journal, moments), *others)
    if works:
        app.add(Counter, WorkerSettings(concurrency=40, poll_seconds=0.2, grace_seconds=10))
    initialize(app)
    return app, store
