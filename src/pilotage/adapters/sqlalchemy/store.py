"""`SqlAlchemyStore`: one database, its version, and the ports over it.

A database has exactly one version. A new one gets the tables of this version at once, an older one the migrations that
it lacks. Both hold a lock: of several processes that start at once, one does it and the others find it done.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    exc,
    inspect,
    text,
)
from sqlalchemy.schema import CreateTable

from pilotage.adapters.sqlalchemy.backlog import SqlAlchemyBacklog
from pilotage.adapters.sqlalchemy.blobs import SqlAlchemyBlobs
from pilotage.adapters.sqlalchemy.cost_view import cost_view
from pilotage.adapters.sqlalchemy.costs import SqlAlchemyCosts
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import DatabaseSchemaError, DatabaseUnreachableError
from pilotage.adapters.sqlalchemy.evidence import (
    SqlAlchemyAuditLog,
    SqlAlchemyEvidenceRepository,
    SqlAlchemyLateOutcomes,
)
from pilotage.adapters.sqlalchemy.journal import SqlAlchemyJournal
from pilotage.adapters.sqlalchemy.known_keys import use_keys
from pilotage.adapters.sqlalchemy.leases import SqlAlchemyLeases
from pilotage.adapters.sqlalchemy.limits import SqlAlchemySwitches, SqlAlchemyTenantSpending
from pilotage.adapters.sqlalchemy.memory import SqlAlchemyAgentMemory, SqlAlchemyTaskStore
from pilotage.adapters.sqlalchemy.outbox import SqlAlchemyOutbox
from pilotage.adapters.sqlalchemy.retention import SqlAlchemyRetention
from pilotage.adapters.sqlalchemy.settings import URL, DatabaseSettings
from pilotage.adapters.sqlalchemy.signals import SqlAlchemySignalRepository
from pilotage.adapters.sqlalchemy.states import SqlAlchemyStateRepository
from pilotage.adapters.sqlalchemy.stored_entries import RowCodes
from pilotage.adapters.sqlalchemy.supported import dialect_of
from pilotage.adapters.sqlalchemy.tables import metadata
from pilotage.adapters.sqlalchemy.tool_pins import SqlAlchemyToolPins
from pilotage.adapters.sqlalchemy.wakeups import SqlAlchemyWakeUps
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.ids import IClock

VERSION = "0015"
"""The version this Pilotage works with; the last migration has its name."""

VERSION_TABLE = "pilotage_schema"
_version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
"""The table of the migrations, as Alembic makes it."""


def open_database(
    settings: DatabaseSettings, clock: IClock | None = None, keys: Mapping[str, bytes] | None = None
) -> Database:
    """Return a database that can be used: durable, with tables of this version; blocks while it checks that.

    `keys` authenticate rows, the current one first. None reads and writes rows whatever keys the database knows.

    Raises:
        DatabaseStartError: it cannot be used; the message says why, and what to do.
    """
    database = Database(settings, clock)
    try:
        database.engines.check_durability(may_lose_commits=settings.may_lose_commits_on_power_failure)
        if settings.upgrades_at_start:
            upgrade_schema(database)
        else:
            check_schema(database)
        if keys is not None:
            use_keys(database, keys, RowCodes(keys.values(), clock))
    except BaseException as error:
        database.close()
        if isinstance(error, exc.DBAPIError):
            raise unreachable(database, error) from error
        raise
    return database


def unreachable(database: Database, error: exc.DBAPIError) -> DatabaseUnreachableError:
    """Return the error that says that no server answers at an address, or that a file is no database."""
    reason = str(error.orig).strip().partition("\n")[0]
    return DatabaseUnreachableError(
        database.dialect.unreachable.format(name=database.name, reason=reason, variable=URL)
    )


def current_version(connection: Connection) -> str | None:
    """Return the version of the tables; None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - ours
    return None if found is None else str(found)


def check_schema(database: Database) -> None:
    """Check that the tables are those of this version.

    Raises:
        DatabaseSchemaError: they are older, newer, or not there.
    """
    with database.engines.reading.connect() as connection:
        found = current_version(connection)
    if found == VERSION:
        return
    how = "no tables of Pilotage" if found is None else f"tables of version {found}"
    words = f"{database.name} has {how}, and {VERSION} is needed. Run: pilotage db upgrade."
    if found is not None and found > VERSION:
        words = (
            f"{database.name} has {how}, and this Pilotage knows versions up to {VERSION}. "
            "Upgrade Pilotage: a newer one has been here."
        )
    raise DatabaseSchemaError(words, found=found, expected=VERSION)


def upgrade_schema(database: Database) -> str | None:
    """Upgrade the tables where they are older, and return the version they had.

    Raises:
        DatabaseSchemaError: they are newer than this Pilotage.
    """
    with database.engines.reading.connect() as connection:
        found = current_version(connection)
    if found is None or found < VERSION:
        with database.engines.writing.begin() as connection:
            if database.dialect.upgrade_lock is not None:
                connection.execute(text(database.dialect.upgrade_lock))
            before = current_version(connection)
            if before is None:
                make_tables(connection)
            elif before != VERSION:
                migrate(connection)
    check_schema(database)
    return found


def make_tables(connection: Connection) -> None:
    """Make the tables of this version in a database without any; they are equal to those of all migrations."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(text(cost_view(dialect_of(connection.dialect.name))))
    connection.execute(CreateTable(_version))
    connection.execute(_version.insert(), {"version_num": VERSION})


def migrate(connection: Connection) -> None:
    """Bring the tables of an older version up to this one, or make those of all migrations."""
    # Most processes find everything done, and need not load it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "pilotage.adapters.sqlalchemy:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, VERSION)


class SqlAlchemyStore:
    """One database, and its ports over the runs of all tenants.

    `Application.add(*store.ports)` makes the ports pods. `switches`, `audit_log` and `memory` are for applications
    that want them: `Application.add(store.switches)`. Close it after the last use.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.journal = SqlAlchemyJournal(database)
        self.states = SqlAlchemyStateRepository(database)
        self.signals = SqlAlchemySignalRepository(database)
        self.evidence = SqlAlchemyEvidenceRepository(database)
        self.conversations = SqlAlchemyTaskStore(database)
        self.leases = SqlAlchemyLeases(database)
        self.wake_ups = SqlAlchemyWakeUps(database)
        self.late_outcomes = SqlAlchemyLateOutcomes(database)
        self.retention = SqlAlchemyRetention(database)
        self.deliveries = SqlAlchemyOutbox(database)
        self.backlog = SqlAlchemyBacklog(database)
        self.switches = SqlAlchemySwitches(database)
        self.audit_log = SqlAlchemyAuditLog(database)
        self.memory = SqlAlchemyAgentMemory(database)
        self.spending = SqlAlchemyTenantSpending(database)
        self.blobs = SqlAlchemyBlobs(database)
        self.costs = SqlAlchemyCosts(database)
        self.tool_pins = SqlAlchemyToolPins(database)

    @classmethod
    def open(
        cls,
        settings: DatabaseSettings | None = None,
        clock: IClock | None = None,
        *,
        sealer: IRecordSealer | None = None,
    ) -> Self:
        """Open the database that the settings name, or that of the environment; blocks while it does.

        Give the sealer of the application: its key finds rows that another writer has changed.

        Raises:
            DatabaseStartError: it cannot be used; the message says why, and what to do.
        """
        keys = None if sealer is None else sealer.record_keys()
        return cls(open_database(settings or DatabaseSettings.from_environment(), clock, keys))

    @property
    def ports(self) -> tuple[object, ...]:
        """All ports, as an application wants them."""
        repositories = (self.states, self.signals, self.evidence)
        work = (self.leases, self.wake_ups, self.late_outcomes, self.deliveries, self.backlog, self.retention)
        beside = (self.spending, self.costs, self.blobs, self.tool_pins)
        return self.journal, *repositories, self.conversations, *work, *beside

    def port(self, type_: type) -> object:
        """Return the port of a type, one of `ports` or `switches`, `audit_log` and `memory`."""
        everything = (*self.ports, self.switches, self.audit_log, self.memory)
        return next(port for port in everything if isinstance(port, type_))

    def close(self) -> None:
        """Finish what is under way, and close all connections."""
        self.wake_ups.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
