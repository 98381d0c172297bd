"""Runs migrations within the transaction of the caller, `store.upgrade_schema`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from pilotage.adapters.sqlalchemy.store import VERSION_TABLE

connection: Connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table=VERSION_TABLE, transactional_ddl=False)
context.run_migrations()
