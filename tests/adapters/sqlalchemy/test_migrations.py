"""Databases of earlier versions are brought up to date, with what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.schema import VERSION, current_version
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.agent import BudgetPeriod, MemoryItem, MemoryKind, MemoryScope
from pilotage.agent.ports.journal import Committed
from pilotage.safety.trust import TrustLabel
from pilotage.testing.conformance.samples import RUN, claim, commit_of, commit_one, numbers_of, row
from tests.adapters.sqlalchemy.databases import (
    need_server,
    opened,
    postgresql_settings,
    schema_named,
    sqlite_settings,
)

FIRST = "0001"

_SWITCHED_OFF = (
    "INSERT INTO pilotage_switches (kind, name, reason, since) VALUES ('tool', 'pay', 'old', :since)"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def old_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseSettings]:
    """A database with the first tables, and one row of a run in them."""
    if request.param == "sqlite":
        yield _at_first_version(sqlite_settings(tmp_path))
        return
    need_server()
    schema = f"pilotage_old_{os.getpid()}"
    with schema_named(schema):
        yield _at_first_version(postgresql_settings(schema))


def _at_first_version(settings: DatabaseSettings) -> DatabaseSettings:
    database = Database(settings)
    config = Config()
    config.set_main_option("script_location", "pilotage.adapters.sqlalchemy:migrations")
    with database.engines.writing.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, FIRST)
        connection.execute(text(_SWITCHED_OFF), {"since": 0 if database.is_sqlite else datetime.now(UTC)})
    database.close()
    return settings


async def test_what_was_kept_is_there_and_what_is_new_works(old_database: DatabaseSettings) -> None:
    with opened(old_database) as store:
        with store.database.engines.reading.connect() as connection:
            assert current_version(connection) == VERSION
        (off,) = await store.switches.list_off()
        assert off.reason == "old"
        assert isinstance(await commit_one(store.journal, commit_of(claim(1, 1), row(2))), Committed)
        assert await numbers_of(store.journal, RUN) == [1, 2]
        ada = MemoryScope("acme", "ada")
        await store.memory.remember(ada, MemoryItem("tea", MemoryKind.FACT, "prefers tea", TrustLabel()))
        assert [item.id for item in await store.memory.recall(ada, "tea")] == ["tea"]
        assert (await store.spending.spent("acme", BudgetPeriod.DAY)).steps == 0
