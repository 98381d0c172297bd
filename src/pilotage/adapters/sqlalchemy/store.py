"""`SqlAlchemyStore`: one database, and the ports over it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from pilotage.adapters.sqlalchemy.agent_memory import SqlAlchemyAgentMemory
from pilotage.adapters.sqlalchemy.audit_log import SqlAlchemyAuditLog
from pilotage.adapters.sqlalchemy.backlog import SqlAlchemyBacklog
from pilotage.adapters.sqlalchemy.conversations import SqlAlchemyTaskStore
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.evidence import SqlAlchemyEvidenceRepository
from pilotage.adapters.sqlalchemy.journal import SqlAlchemyJournal
from pilotage.adapters.sqlalchemy.late_outcomes import SqlAlchemyLateOutcomes
from pilotage.adapters.sqlalchemy.leases import SqlAlchemyLeases
from pilotage.adapters.sqlalchemy.outbox import SqlAlchemyOutbox
from pilotage.adapters.sqlalchemy.retention import SqlAlchemyRetention
from pilotage.adapters.sqlalchemy.schema import open_database
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.signals import SqlAlchemySignalRepository
from pilotage.adapters.sqlalchemy.states import SqlAlchemyStateRepository
from pilotage.adapters.sqlalchemy.switches import SqlAlchemySwitches
from pilotage.adapters.sqlalchemy.tenant_spending import SqlAlchemyTenantSpending
from pilotage.adapters.sqlalchemy.wakeups import SqlAlchemyWakeUps
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.ids import IClock


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

    @classmethod
    def open(
        cls,
        settings: DatabaseSettings | None = None,
        clock: IClock | None = None,
        *,
        sealer: IRecordSealer | None = None,
    ) -> Self:
        """Open the database that the settings name, or that of the environment; blocks while it does.

        Give the sealer of the application: with its key, rows that somebody else wrote are found.

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
        return self.journal, *repositories, self.conversations, *work, self.spending

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
