"""Durable runs in a database: SQLite by default, PostgreSQL by one address; `pip install "pilotage[sqlalchemy]"`.

An application that loads its plugins needs only the settings. `pilotage.adapters.sqlalchemy.store` has
`SqlAlchemyStore`, for a store made by hand; importing that module loads SQLAlchemy, importing this package does not.
"""

from pilotage.adapters.sqlalchemy.errors import (
    DatabaseDriverMissingError,
    DatabaseDurabilityError,
    DatabaseSchemaError,
    DatabaseStartError,
    DatabaseUnreachableError,
    DatabaseUrlError,
)
from pilotage.adapters.sqlalchemy.plugin import StoreOnDemand, agent_audit_log, agent_memory, agent_switches
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings

__all__ = [
    "DatabaseDriverMissingError",
    "DatabaseDurabilityError",
    "DatabaseSchemaError",
    "DatabaseSettings",
    "DatabaseStartError",
    "DatabaseUnreachableError",
    "DatabaseUrlError",
    "StoreOnDemand",
    "agent_audit_log",
    "agent_memory",
    "agent_switches",
]
