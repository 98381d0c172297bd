"""Small pieces of work that wait together are done in one transaction; one that fails harms nobody else."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import Connection, Engine, event, literal

from pilotage.adapters.sqlalchemy.columns import seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError, StoreUnreachableError
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import leases
from pilotage.agent.ports.persistence import RunKey

LEASE = {"tenant_id": "a", "run_id": "twice", "owner": "ada", "granted_seconds": 1.0}


def transactions_of(store: SqlAlchemyStore) -> list[Engine]:
    """Every transaction of a thread that writes, from now on."""
    seen: list[Engine] = []
    engines = store.database.engines
    begin = engines.transaction

    def noted(engine: Engine) -> AbstractContextManager[Connection]:
        seen.append(engine)
        return begin(engine)

    engines.transaction = noted  # type: ignore[method-assign]
    return seen


async def test_many_leases_take_few_transactions(store: SqlAlchemyStore) -> None:
    seen = transactions_of(store)
    asked = [store.leases.acquire(RunKey("a", f"run-{number}"), "ada", 30) for number in range(50)]
    assert all(await asyncio.gather(*asked))
    assert 1 <= len(seen) < 50
    assert await store.leases.holder(RunKey("a", "run-49")) is not None


async def test_one_that_fails_does_so_alone(store: SqlAlchemyStore) -> None:
    def twice(connection: Connection) -> None:
        for _ in range(2):
            connection.execute(leases.insert().values(**LEASE, expires_at=seconds_from_now(literal(30.0))))

    asked = [store.leases.acquire(RunKey("a", f"run-{number}"), "ada", 30) for number in range(20)]
    *granted, failed = await asyncio.gather(*asked, store.database.hint(twice), return_exceptions=True)
    assert isinstance(failed, ConflictingWriteError)
    assert not [each for each in granted if isinstance(each, BaseException) or each is None]
    assert await store.leases.holder(RunKey("a", "twice")) is None


async def test_whoever_stops_waiting_harms_nobody(store: SqlAlchemyStore) -> None:
    asked = [
        asyncio.ensure_future(store.leases.acquire(RunKey("a", f"run-{number}"), "ada", 30))
        for number in range(10)
    ]
    await asyncio.sleep(0)
    asked[3].cancel()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, asyncio.CancelledError) for each in found) == 1
    assert all(found[:3] + found[4:])


async def test_a_closed_store_says_so(store: SqlAlchemyStore) -> None:
    store.close()
    for _ in range(2):
        with pytest.raises(StoreUnreachableError, match="is closed"):
            await store.leases.acquire(RunKey("a", "run-1"), "ada", 30)


async def test_a_server_that_is_away_is_not_asked_for_each_of_them() -> None:
    nobody = DatabaseSettings("postgresql://nobody@127.0.0.1:9/none", timeout_seconds=1)
    database = Database(nobody)
    tries: list[object] = []
    event.listen(database.engines.writing, "do_connect", lambda *given: tries.append(given))
    try:
        asked = [database.hint(lambda connection: None) for _ in range(40)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(each) for each in found} == {StoreUnreachableError}
        assert len(tries) < 40
    finally:
        database.close()
