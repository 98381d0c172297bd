"""`SqlAlchemyTaskStore`: the turns of conversations."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.mapping import turn_of
from pilotage.adapters.sqlalchemy.tables import turns
from pilotage.adapters.sqlalchemy.turns import append_turns
from pilotage.agent.ports.conversations import ConversationTurn, ITaskStore
from pilotage.checks import reject_blank, reject_negative

_ALL = (
    select(turns.c.role, turns.c.content, turns.c.trust)
    .where(turns.c.tenant_id == bindparam("tenant"), turns.c.conversation_id == bindparam("conversation"))
    .order_by(turns.c.number)
)


class SqlAlchemyTaskStore(ITaskStore):
    """The turns of conversations in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Sequence[ConversationTurn]:
        reject_negative("SqlAlchemyTaskStore.load_history", up_to=up_to)
        wanted = _ALL if up_to is None else _ALL.where(turns.c.number <= up_to)
        place = {"tenant": tenant_id, "conversation": conversation_id}
        return await self._database.read(
            lambda connection: [turn_of(values) for values in connection.execute(wanted, place).mappings()]
        )

    async def append_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        reject_blank("SqlAlchemyTaskStore.append_turns", tenant_id=tenant_id, conversation_id=conversation_id)
        added = tuple(turns)

        def work(connection: Connection) -> None:
            append_turns(self._database.engines, connection, tenant_id, conversation_id, added)

        await self._database.write(work)
