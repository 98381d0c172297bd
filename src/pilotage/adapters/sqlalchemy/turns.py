"""Adding turns to a conversation: numbered in the order of their commits, without gaps."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, select

from pilotage.adapters.sqlalchemy.bulk import bulk_insert
from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.engines import Engines
from pilotage.adapters.sqlalchemy.mapping import trust_text
from pilotage.adapters.sqlalchemy.tables import turns
from pilotage.agent.ports.conversations import ConversationTurn

_LAST = select(func.coalesce(func.max(turns.c.number), 0)).where(
    turns.c.tenant_id == bindparam("tenant"), turns.c.conversation_id == bindparam("conversation")
)

_INSERT = bulk_insert(
    turns,
    ("tenant_id", "conversation_id", "number", "role", "content", "trust", "run_id"),
    lambda _: {"created_at": now()},
)


def append_turns(
    engines: Engines,
    connection: Connection,
    tenant_id: str,
    conversation_id: str,
    added: Sequence[ConversationTurn],
    run_id: str | None = None,
) -> None:
    """Add turns at the end of a conversation; nobody else adds any until the transaction ends."""
    engines.take_turns(connection, "turns", tenant_id, conversation_id)
    last = connection.execute(_LAST, {"tenant": tenant_id, "conversation": conversation_id}).scalar_one()
    _INSERT.run(
        connection,
        [
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
        ],
    )
