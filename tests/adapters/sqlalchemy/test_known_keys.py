"""The keys of a database: which application may open it, and what the first one with a key covers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.sealing import SealingSettings, create_key_file
from pilotage.adapters.sqlalchemy import DatabaseSettings, StoreOnDemand
from pilotage.adapters.sqlalchemy.errors import DatabaseKeyError
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import runs as runs_table
from pilotage.errors import CallerError, DamagedEntryError
from pilotage.runtime import AgentRuns
from tests.golden.stored import KINDS, Golden

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@Agent(spec=DURABLE)
class Greeter:
    async def execute(self, name: str) -> str:
        return f"Hello, {name}."


class Folder:
    """A database in a folder, and applications over it."""

    def __init__(self, path: Path) -> None:
        self.database, self.key = path / "pilotage.db", path / "pilotage.key"

    def application(self, *pods: object) -> Application:
        settings = DatabaseSettings(f"sqlite:///{self.database}", may_lose_commits_on_power_failure=True)
        return Application("greetings").add(Greeter, settings, *pods).load_plugins()

    async def greet(self, *pods: object) -> str:
        async with self.application(*pods) as app:
            run = await app.get(AgentRuns).start(Greeter, "Ada")
            await run.result()
            return run.id

    async def verify(self, run_id: str, *pods: object) -> int:
        async with self.application(*pods) as app:
            return await app.get(AgentRuns).verify(run_id)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def test_a_lost_key_file_is_an_error_that_names_the_way_out(folder: Folder) -> None:
    run_id = await folder.greet()
    kept = folder.key.rename(folder.key.with_name("kept"))
    with pytest.raises(DatabaseKeyError, match="Put the key file back"):
        await folder.greet()
    assert not folder.key.exists()
    kept.rename(folder.key)
    assert await folder.verify(run_id) > 1


async def test_another_key_in_its_place_is_refused(folder: Folder) -> None:
    await folder.greet()
    folder.key.unlink()
    create_key_file(folder.key)
    with pytest.raises(DatabaseKeyError, match="which this application does not have"):
        await folder.greet()


async def test_a_new_key_beside_the_old_one_checks_what_both_wrote(folder: Folder) -> None:
    first = await folder.greet()
    new = folder.key.with_name("new.key")
    create_key_file(new)
    rotated = SealingSettings(new, old_key_files=(folder.key,))
    second = await folder.greet(rotated)
    assert await folder.verify(first, rotated) == await folder.verify(second, rotated)


async def test_what_was_there_before_the_key_is_covered_by_its_first_use(folder: Folder) -> None:
    settings = DatabaseSettings(f"sqlite:///{folder.database}", may_lose_commits_on_power_failure=True)
    with SqlAlchemyStore.open(settings) as store:
        async with Application("greetings").add(Greeter, *store.ports).load_plugins() as app:
            run = await app.get(AgentRuns).start(Greeter, "Ada")
            await run.result()
    assert await folder.verify(run.id) > 1
    with closing(sqlite3.connect(folder.database)) as connection, connection:
        connection.execute("UPDATE pilotage_runs SET created_at = created_at + 1")
    with pytest.raises(DamagedEntryError):
        await folder.verify(run.id)


@pytest.mark.parametrize("kind", KINDS)
async def test_runs_of_an_earlier_version_are_covered_too(kind: str, tmp_path: Path) -> None:
    golden = Golden("0.1.0", kind)
    with golden.copy(tmp_path, f"pilotage_known_keys_{tmp_path.name[-6:]}") as place:
        run_id = str(golden.runs()["completed"]["id"])
        async with place.process() as app:
            assert await app.get(AgentRuns).verify(run_id) > 1
            with app.get(StoreOnDemand).open().database.engines.writing.begin() as connection:
                forged = update(runs_table).where(runs_table.c.run_id == run_id).values(status="failed")
                connection.execute(forged)
            with pytest.raises(CallerError, match="not stored as it was written"):
                await app.get(AgentRuns).verify(run_id)
