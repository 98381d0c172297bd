"""The keys of a database: which application may open it, and what the first one with a key covers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Table, func, insert, select, update

from pilotage import Agent, AgentExecutionSpec, Application, Principal, RecoveryStrategy
from pilotage.adapters.sealing import SealingSettings, create_key_file
from pilotage.adapters.sqlalchemy import DatabaseSettings, StoreOnDemand
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import DatabaseKeyError
from pilotage.adapters.sqlalchemy.known_keys import use_keys
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore, open_database
from pilotage.adapters.sqlalchemy.stored_entries import RowCodes
from pilotage.adapters.sqlalchemy.tables import audit
from pilotage.adapters.sqlalchemy.tables import runs as runs_table
from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.agent.tools import ListedTool
from pilotage.errors import CallerError, DamagedEntryError
from pilotage.runtime import AgentRuns
from tests.adapters.sqlalchemy.databases import BACKENDS, SCHEMA, need_server
from tests.golden.stored import KINDS, Golden, empty

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


KEY, OTHER = {"first": b"k" * 32}, {"other": b"o" * 32}
DOCUMENT = '{"principal": "ada", "permissions": [], "act": "a", "outcome": "b", "metadata": {}}'
ROWS = 2_500


class DyingCodes(RowCodes):
    """Codes of a process that is killed in the middle of its second transaction."""

    left = 1_500

    def packed(self, table: Table, values: Stored) -> bytes | None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return super().packed(table, values)


@pytest.fixture(params=BACKENDS)
def uncovered(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseSettings]:
    """A database with many rows of an application without a key."""
    if request.param == "postgresql":
        need_server()
    with empty(request.param, tmp_path, f"{SCHEMA}_covering") as place:
        with (
            closing(open_database(place.settings)) as database,
            database.engines.writing.begin() as connection,
        ):
            rows = [
                {
                    "tenant_id": "acme",
                    "run_id": "run-1",
                    "document": DOCUMENT,
                    "occurred_at": datetime.now(UTC),
                }
                for _ in range(ROWS)
            ]
            connection.execute(insert(audit), rows)
        yield place.settings


def coded(database: Database) -> int:
    with database.engines.reading.connect() as connection:
        return int(connection.execute(select(func.count()).where(audit.c.code.is_not(None))).scalar_one())


def kill_in_between(settings: DatabaseSettings) -> None:
    with closing(open_database(settings)) as database:
        with pytest.raises(KeyboardInterrupt):
            use_keys(database, KEY, DyingCodes(KEY.values()))
        assert coded(database) == 1_000
        assert not database.codes.is_on


async def entries(settings: DatabaseSettings) -> int:
    with SqlAlchemyStore(open_database(settings, keys=KEY)) as store:
        return len(await store.audit_log.list_by_run(Principal("ada", "acme"), "run-1"))


async def test_covering_that_was_killed_goes_on_at_the_next_start(uncovered: DatabaseSettings) -> None:
    kill_in_between(uncovered)
    with closing(open_database(uncovered, keys=KEY)) as database:
        assert coded(database) == ROWS
    assert await entries(uncovered) == ROWS


async def test_no_other_key_covers_the_rest(uncovered: DatabaseSettings) -> None:
    kill_in_between(uncovered)
    with pytest.raises(DatabaseKeyError, match="'first'"):
        open_database(uncovered, keys=OTHER)


async def test_a_row_that_was_covered_and_changed_in_between_is_found(uncovered: DatabaseSettings) -> None:
    kill_in_between(uncovered)
    with closing(open_database(uncovered)) as database, database.engines.writing.begin() as connection:
        first = select(func.min(audit.c.position)).scalar_subquery()
        connection.execute(update(audit).where(audit.c.position == first).values(document='{"act": "x"}'))
    with pytest.raises(DamagedEntryError, match="an audit entry"):
        await entries(uncovered)


async def test_an_entry_that_comes_without_a_code_after_covering_is_found(
    uncovered: DatabaseSettings,
) -> None:
    open_database(uncovered, keys=KEY).close()
    with closing(open_database(uncovered)) as database, database.engines.writing.begin() as connection:
        row = {"tenant_id": "acme", "run_id": "run-1", "document": DOCUMENT, "occurred_at": datetime.now(UTC)}
        connection.execute(insert(audit), [row])
    with pytest.raises(DamagedEntryError):
        await entries(uncovered)


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


async def test_a_table_of_an_upgrade_is_counted_from_then_on(folder: Folder) -> None:
    run_id = await folder.greet()
    with closing(sqlite3.connect(folder.database)) as connection, connection:
        connection.execute("DROP TABLE pilotage_tool_pins")
        connection.execute("DELETE FROM pilotage_counts WHERE entries = 'tool_pins'")
        connection.execute("UPDATE pilotage_schema SET version_num = '0014'")
    async with folder.application() as app:
        pins = app.get(IToolPins)
        assert list(await pins.list_pins()) == []
        assert [pin.tool for pin in await pins.accept("files", [ListedTool("read")])] == ["read"]
        assert await app.get(AgentRuns).verify(run_id) > 1
    with closing(sqlite3.connect(folder.database)) as connection, connection:
        assert connection.execute("SELECT progress FROM pilotage_keys").fetchall() == [("done",)]
        connection.execute("DELETE FROM pilotage_tool_pins")
    async with folder.application() as app:
        with pytest.raises(DamagedEntryError, match="the count of tool pins"):
            await app.get(IToolPins).pins_of("files")
