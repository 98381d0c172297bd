"""`SqlAlchemyWakeUps`: hints by LISTEN and NOTIFY, or within the process where the database is a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from sqlalchemy import Connection, func, select

from pilotage.adapters.sqlalchemy.columns import to_stored
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import StoreUnreachableError
from pilotage.adapters.sqlalchemy.hub import WakeUpHub
from pilotage.agent.ports.leases import IAgentWakeUps, IWakeUpSubscription

_CHANNEL = "pilotage_wake_ups_"


class SqlAlchemyWakeUps(IAgentWakeUps):
    """Hints to all processes that listen on one PostgreSQL database; for an SQLite file, to those in this process.

    Other processes on the same file find what they should look at by the poll that runs anyway.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hub = WakeUpHub()
        self._listener = None
        if not database.is_sqlite:
            # Not before it is needed: it loads the driver.
            from pilotage.adapters.sqlalchemy.listener import PostgresqlListener  # noqa: PLC0415

            self._listener = PostgresqlListener(database.engines.writing, _CHANNEL, self._hub)

    async def notify(self, run_id: str) -> None:
        if self._listener is None:
            self._hub.tell(run_id)
            return
        payload = to_stored(run_id)

        def send(connection: Connection) -> None:
            connection.execute(select(func.pg_notify(func.concat(_CHANNEL, func.current_schema()), payload)))

        with suppress(StoreUnreachableError):
            await self._database.read(send, waits=False)

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
        with self._hub.listening() as subscription:
            if self._listener is not None:
                await asyncio.to_thread(self._listener.begin)
            yield subscription

    def close(self) -> None:
        """Listen no longer."""
        if self._listener is not None:
            self._listener.end()
