"""One damaged row never keeps a worker from the other runs, and what is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.journal import JournalCommit
from pilotage.agent.ports.leases import POISONED_FROM, ClaimRecord
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.testing.conformance.kit import claim
from tests.adapters.sqlalchemy.crowd import AGENT
from tests.adapters.sqlalchemy.databases import opened, sqlite_settings

DAMAGED, SOUND = RunKey("default", "damaged"), RunKey("default", "sound")
GARBAGE = ("-1", "'x'", "x'00ff'", "9223372036854775807", "1.5")
COLUMNS = {
    "pilotage_runs": (
        *("claims", "claimed_at", "claim_problem", "claim_after"),
        *("updated_at", "wake_at", "agent_type", "status", "last_signal"),
    ),
    "pilotage_leases": ("granted_seconds", "expires_at", "owner"),
}


async def open_run(store: SqlAlchemyStore, run: RunKey) -> None:
    """Store a run whose owner has died."""
    state = AgentState(run.run_id, AGENT, AgentStatus.ACTIVE, tenant_id=run.tenant_id)
    await store.journal.commit([JournalCommit(run, run.run_id, 0, (claim(1, epoch=1),), state=state)])
    await store.leases.acquire(run, "dead", 1)
    await store.leases.release_all("dead")


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize(
    "column", [f"{table}.{column}" for table, columns in COLUMNS.items() for column in columns]
)
async def test_a_damaged_run_does_not_keep_others_from_workers(
    tmp_path: Path, column: str, garbage: str
) -> None:
    table, _, name = column.partition(".")
    with opened(sqlite_settings(tmp_path)) as store:
        for run in (DAMAGED, SOUND):
            await open_run(store, run)
        with store.database.engines.writing.begin() as connection:
            connection.execute(text(f"UPDATE {table} SET {name} = {garbage} WHERE run_id = 'damaged'"))  # noqa: S608
        await store.leases.owners()
        given = await store.backlog.claim("new", 30, 8, agents=[AGENT])
        assert SOUND in [each.lease.run for each in given]


@pytest.mark.parametrize("garbage", ["-1", "'x'", "1.5"])
async def test_damaged_claims_count_as_too_many(tmp_path: Path, garbage: str) -> None:
    with opened(sqlite_settings(tmp_path)) as store:
        await open_run(store, DAMAGED)
        with store.database.engines.writing.begin() as connection:
            connection.execute(text(f"UPDATE pilotage_runs SET claims = {garbage}"))  # noqa: S608
        found = await store.backlog.claims_of(DAMAGED)
        assert found == ClaimRecord(POISONED_FROM, problem="the stored count of its claims is damaged")
        (given,) = await store.backlog.claim("new", 30, 8, agents=[AGENT])
        assert given.claims.is_poisoned
