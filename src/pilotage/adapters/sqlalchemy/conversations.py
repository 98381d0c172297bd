"""`SqlAlchemyTaskStore`: the turns of conversations, numbered in the order of their commits, without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, func, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.connections import Engines
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.mapping import Values, trust_text
from pilotage.adapters.sqlalchemy.statements import bulk_insert
from pilotage.adapters.sqlalchemy.stored_entries import TURNS
from pilotage.adapters.sqlalchemy.tables import turns
from pilotage.agent.ports.conversations import ConversationTurn, ITaskStore
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.checks import reject_blank, reject_negative

_IS_CONVERSATION = (
    turns.c.tenant_id == bindparam("tenant"),
    turns.c.conversation_id == bindparam("conversation"),
)
_ALL = select(turns).where(*_IS_CONVERSATION).order_by(turns.c.number)
_LAST = select(func.coalesce(func.max(turns.c.number), 0)).where(*_IS_CONVERSATION)
_INSERT = bulk_insert(
    turns,
    ("tenant_id", "conversation_id", "number", "role", "content", "trust", "run_id", "code"),
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
)


class SqlAlchemyTaskStore(ITaskStore):
    """The turns of conversations in a database."""

    is_journaled = keeps_trust = True

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        return await self.tenant_history(DEFAULT_TENANT, conversation_id)

    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        await self.append_tenant_turns(DEFAULT_TENANT, conversation_id, turns)

    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Sequence[ConversationTurn]:
        reject_negative("SqlAlchemyTaskStore.tenant_history", up_to=up_to)
        wanted = _ALL if up_to is None else _ALL.where(turns.c.number <= up_to)
        place = {"tenant": tenant_id, "conversation": conversation_id}
        return await self._database.rows(wanted, place, partial(TURNS.read, self._database.engines.codes))

    async def append_tenant_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        reject_blank(
            "SqlAlchemyTaskStore.append_tenant_turns", tenant_id=tenant_id, conversation_id=conversation_id
        )
        added = tuple(turns)

        def work(connection: Connection) -> None:
            append_turns(self._database.engines, connection, tenant_id, conversation_id, added)

        await self._database.write(work)


def append_turns(
    engines: Engines,
    connection: Connection,
    tenant_id: str,
    conversation_id: str,
    added: Sequence[ConversationTurn],
    run_id: str | None = None,
) -> None:
    """Append turns to a conversation, which is locked until the transaction ends."""
    engines.take_turns(connection, "turns", tenant_id, conversation_id)
    last = connection.execute(_LAST, {"tenant": tenant_id, "conversation": conversation_id}).scalar_one()
    rows: list[Values] = [
        {
            "tenant_id": tenant_id,
            "conversation_id": conversation_id,
            "number": number,
            "role": turn.role,
            "content": turn.content,
            "trust": trust_text(turn.trust),
            "run_id": run_id,
        }
        for number, turn in enumerate(added, start=last + 1)
    ]
    for row in rows:
        engines.codes.add(turns, row)
    _INSERT.run(connection, rows)
