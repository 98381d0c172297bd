"""One connection stays with those who commit; it stands in nobody's way, and is given back when it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import QueuePool

from pilotage.adapters.sqlalchemy.postgresql import ReservedConnection
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.agent.ports.journal import Committed
from pilotage.testing.conformance.kit import RUN, claim, commit_of, commit_one, row
from tests.adapters.sqlalchemy.databases import opened


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = create_engine("sqlite://", poolclass=QueuePool, pool_size=3, max_overflow=0)
    yield engine
    engine.dispose()


def taken_from(engine: Engine) -> int:
    assert isinstance(engine.pool, QueuePool)
    return engine.pool.checkedout()


def test_the_next_one_gets_the_same_connection(engine: Engine) -> None:
    kept = ReservedConnection(engine)
    with kept.connection() as first:
        pass
    with kept.connection() as second:
        assert second is first
    assert taken_from(engine) == 1
    kept.close()
    assert taken_from(engine) == 0


def test_two_at_once_have_one_each_and_one_of_these_is_kept(engine: Engine) -> None:
    kept = ReservedConnection(engine)
    with kept.connection() as one, kept.connection() as other:
        assert one is not other
        assert taken_from(engine) == 2
    assert taken_from(engine) == 1
    kept.close()
    assert taken_from(engine) == 0


def test_one_that_failed_is_given_back(engine: Engine) -> None:
    kept = ReservedConnection(engine)
    with pytest.raises(ZeroDivisionError), kept.connection() as failed:
        _ = 1 / 0
    assert failed.closed
    assert taken_from(engine) == 0
    with kept.connection() as next_one:
        assert not next_one.closed
    kept.close()


async def test_whoever_reads_finds_a_connection_in_the_smallest_pool(
    postgresql_database: DatabaseSettings,
) -> None:
    with opened(replace(postgresql_database, pool_size=1, timeout_seconds=5)) as store:
        assert await commit_one(store.journal, commit_of(claim(1, epoch=1))) == Committed(1)
        assert await store.journal.head(RUN) is not None
        assert await store.leases.acquire(RUN, "ada", 30) is not None
        assert await commit_one(store.journal, commit_of(row(2))) == Committed(2)
