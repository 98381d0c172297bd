"""Durable runs in a database: SQLite by default, PostgreSQL by one address; `pip install "pilotage[sqlalchemy]"`.

An application that loads its plugins needs nothing from here but the settings. Whoever wants the store by hand takes
`SqlAlchemyStore` from `pilotage.adapters.sqlalchemy.store`; importing that loads SQLAlchemy, importing this does not.
"""

from pilotage.adapters.sqlalchemy.plugin import StoreOnDemand, agent_audit_log, agent_memory, agent_switches
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.start_errors import (
    DatabaseDriverMissingError,
    DatabaseDurabilityError,
    DatabaseSchemaError,
    DatabaseStartError,
    DatabaseUnreachableError,
    DatabaseUrlError,
)

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
