"""`SqlAlchemyTaskStore` and `SqlAlchemyAgentMemory`: the turns of conversations, and the memories of agents.

Turns are numbered in the order of their commits, without gaps. Memories are found by words, in the same way on every
database.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, Table, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.sql.expression import ColumnElement

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import add_entries, check_scope
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError, StoreUnreachableError
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    Values,
    document_of,
    refusing_unstorable,
    text_of,
    trust_text,
)
from pilotage.adapters.sqlalchemy.statements import bulk_insert
from pilotage.adapters.sqlalchemy.stored_entries import TURNS, RowCodes, StoredEntry, recode
from pilotage.adapters.sqlalchemy.tables import memories, memory_words, turns
from pilotage.agent.ports.conversations import ConversationTurn, ITaskStore
from pilotage.agent.ports.memory import (
    MOST_ITEMS,
    IAgentMemory,
    MemoryItem,
    MemoryKind,
    MemoryScope,
    best_first,
    memory_full,
    reject_unfit_limit,
    words_of,
)
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.checks import reject_blank, reject_negative, reject_not_positive
from pilotage.errors import AgentMemoryError
from pilotage.jsonvalue import canonical_json, to_json_value
from pilotage.safety.trust import TrustLabel

_IS_CONVERSATION = (
    turns.c.tenant_id == bindparam("tenant"),
    turns.c.conversation_id == bindparam("conversation"),
)
_ALL = select(turns).where(*_IS_CONVERSATION).order_by(turns.c.number)
_LAST = select(func.coalesce(func.max(turns.c.number), 0)).where(*_IS_CONVERSATION)
_INSERT = bulk_insert(
    turns,
    ("tenant_id", "conversation_id", "number", "role", "content", "trust", "run_id", "code", "media"),
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
        return await self._database.rows(wanted, place, partial(TURNS.read, self._database.codes))

    async def append_tenant_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        reject_blank(
            "SqlAlchemyTaskStore.append_tenant_turns", tenant_id=tenant_id, conversation_id=conversation_id
        )
        added = tuple(turns)

        def work(connection: Connection) -> None:
            append_turns(self._database, connection, tenant_id, conversation_id, added)

        await self._database.write(work)


def append_turns(
    database: Database,
    connection: Connection,
    tenant_id: str,
    conversation_id: str,
    added: Sequence[ConversationTurn],
    run_id: str | None = None,
) -> None:
    """Append turns to a conversation, which is locked until the transaction ends."""
    database.engines.take_turns(connection, "turns", tenant_id, conversation_id)
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
            "media": canonical_json({"parts": to_json_value(turn.media)}) if turn.media else None,
        }
        for number, turn in enumerate(added, start=last + 1)
    ]
    for row in rows:
        database.codes.add(turns, row)
    _INSERT.run(connection, rows)


_INSERT_WORDS = bulk_insert(memory_words, [column.name for column in memory_words.c])
_FORGET_WORDS = delete(memory_words).where(memory_words.c.memory == bindparam("of"))


class SqlAlchemyAgentMemory(IAgentMemory):
    """Memories in a database. A user has at most `max_items` of them."""

    def __init__(self, database: Database, *, max_items: int = MOST_ITEMS) -> None:
        reject_not_positive(self, max_items=max_items)
        self._database = database
        self._max_items = max_items

    @property
    def _make(self) -> Callable[[Stored], MemoryItem]:
        return partial(_MEMORIES.read, self._database.codes)

    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        written = _columns(item)

        def work(connection: Connection) -> MemoryItem:
            self._database.engines.take_turns(connection, "memory", scope.tenant_id, scope.user_id)
            delete_expired(self._database.codes, connection, scope)
            position = connection.execute(_at(scope, item.id)).scalar()
            if position is None:
                position = self._add(connection, scope, item, written)
            else:
                connection.execute(_FORGET_WORDS, {"of": position})
                connection.execute(update(memories).where(memories.c.position == position).values(written))
            _INSERT_WORDS.run(connection, _words(scope, item, position))
            found = select(memories).where(memories.c.position == position)
            recode(self._database.codes, connection, memories, memories.c.position == position)
            return _MEMORIES.decoded(connection.execute(found).mappings().one())

        with _raising_memory_errors():
            return await self._database.write(work, may_be_repeated=True)

    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        reject_unfit_limit("SqlAlchemyAgentMemory.recall", limit=limit)
        wanted = sorted(words_of(query))

        def look(connection: Connection) -> list[MemoryItem]:
            if not wanted:
                latest = _all(scope, kind).order_by(memories.c.position.desc()).limit(limit)
                return [self._make(values) for values in connection.execute(latest).mappings().all()]
            best = best_first(_shared(connection, scope, wanted, kind))[:limit]
            found = (
                connection.execute(_all(scope, kind).where(memories.c.position.in_(best))).mappings().all()
            )
            # One may have been forgotten between the two statements.
            known = {values["position"]: self._make(values) for values in found}
            return [known[position] for position in best if position in known]

        with _raising_memory_errors():
            return await self._database.read(look)

    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        meant = [*_inside(memories, scope), *(() if item_id is None else (memories.c.item_id == item_id,))]

        def work(connection: Connection) -> int:
            self._database.engines.take_turns(connection, "memory", scope.tenant_id, scope.user_id)
            if item_id is None:
                connection.execute(delete(memory_words).where(*_inside(memory_words, scope)))
            else:
                for position in connection.execute(select(memories.c.position).where(*meant)).scalars().all():
                    connection.execute(_FORGET_WORDS, {"of": position})
            number = connection.execute(delete(memories).where(*meant)).rowcount
            self._count(connection, scope, -number)
            return number

        with _raising_memory_errors():
            return await self._database.write(work)

    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        user = MemoryScope(scope.tenant_id, scope.user_id)
        place, codes = (scope.tenant_id, scope.user_id), self._database.codes

        def look(connection: Connection) -> list[MemoryItem]:
            # An expired item is checked as well: one must not be hidden by a changed moment.
            everything = select(memories, _unexpired(memories).label("is_unexpired"))
            found = connection.execute(
                everything.where(*_inside(memories, scope)).order_by(memories.c.position)
            )
            known = [(self._make(values), values["is_unexpired"]) for values in found.mappings().all()]
            check_scope(codes, connection, memories, _inside(memories, user), place)
            return [item for item, is_unexpired in known if is_unexpired]

        with _raising_memory_errors():
            return await self._database.read(look)

    def _count(self, connection: Connection, scope: MemoryScope, number: int) -> None:
        user = (scope.tenant_id, scope.user_id)
        add_entries(self._database.codes, connection, memories, number, user)

    def _add(self, connection: Connection, scope: MemoryScope, item: MemoryItem, written: Values) -> int:
        user = MemoryScope(scope.tenant_id, scope.user_id)
        count = select(func.count()).select_from(memories).where(*_inside(memories, user))
        if connection.execute(count).scalar_one() >= self._max_items:
            raise memory_full(scope, self._max_items)
        place = {**_place(scope), "item_id": item.id, "created_at": item.created_at or now()}
        connection.execute(insert(memories).values({**place, **written}))
        self._count(connection, scope, 1)
        return int(connection.execute(_at(scope, item.id)).scalar_one())


async def prune_memories(database: Database, tenant_id: str) -> None:
    """Delete the expired memories of all users of a tenant."""
    expired = select(memories.c.user_id).where(
        memories.c.tenant_id == tenant_id, memories.c.expires_at <= now()
    )

    def users(connection: Connection) -> Sequence[str]:
        return connection.execute(expired.distinct()).scalars().all()

    def delete_of(user_id: str, connection: Connection) -> None:
        database.engines.take_turns(connection, "memory", tenant_id, user_id)
        delete_expired(database.codes, connection, MemoryScope(tenant_id, user_id))

    for user_id in await database.read(users):
        await database.write(partial(delete_of, user_id), may_be_repeated=True)


@contextmanager
def _raising_memory_errors() -> Generator[None]:
    """Raise errors of the store in the block as the error of the port."""
    try:
        yield
    except (StoreUnreachableError, ConflictingWriteError) as error:
        raise AgentMemoryError(f"the memory did not answer: {error}") from error


def _shared(
    connection: Connection, scope: MemoryScope, wanted: Sequence[str], kind: MemoryKind | None
) -> dict[int, list[str]]:
    """Return the words of a query that each memory of a scope has, by position, the earliest first."""
    found = (
        select(memory_words.c.memory, memory_words.c.word)
        .where(*_inside(memory_words, scope, kind), _unexpired(memory_words), memory_words.c.word.in_(wanted))
        .order_by(memory_words.c.memory)
    )
    shared: dict[int, list[str]] = {}
    for position, word in connection.execute(found):
        shared.setdefault(position, []).append(word)
    return shared


def _all(scope: MemoryScope, kind: MemoryKind | None = None) -> Select[Any]:
    return select(memories).where(*_inside(memories, scope, kind), _unexpired(memories))


def _unexpired(table: Table) -> ColumnElement[bool]:
    return or_(table.c.expires_at.is_(None), table.c.expires_at > now())


def delete_expired(codes: RowCodes, connection: Connection, scope: MemoryScope) -> None:
    """Delete the expired memories of a user, whose queue is locked; a damaged one stays, for `export` to find."""
    user = MemoryScope(scope.tenant_id, scope.user_id)
    expired = select(memories).where(*_inside(memories, user), memories.c.expires_at <= now())
    found = connection.execute(expired).mappings().all()
    positions = [values["position"] for values in found if codes.fit(memories, values)]
    for position in positions:
        connection.execute(_FORGET_WORDS, {"of": position})
        connection.execute(delete(memories).where(memories.c.position == position))
    if positions:
        add_entries(codes, connection, memories, -len(positions), (user.tenant_id, user.user_id))


def _at(scope: MemoryScope, item_id: str) -> Select[Any]:
    """Return the query for the position of an item that was remembered in exactly this scope."""
    exact = memories.c.agent_type == (scope.agent_type or "")
    return select(memories.c.position).where(*_inside(memories, scope), exact, memories.c.item_id == item_id)


def _inside(
    table: Table, scope: MemoryScope, kind: MemoryKind | None = None
) -> Sequence[ColumnElement[bool]]:
    """Return the conditions for everything in a scope, in either table; always with tenant and user."""
    conditions = [table.c.tenant_id == scope.tenant_id, table.c.user_id == scope.user_id]
    if scope.agent_type is not None:
        conditions.append(table.c.agent_type == scope.agent_type)
    if kind is not None:
        conditions.append(table.c.kind == kind.value)
    return conditions


def _columns(item: MemoryItem) -> Values:
    """Return the columns of an item that change when it is remembered again."""
    with refusing_unstorable("SqlAlchemyAgentMemory.remember"):
        metadata = text_of(f"the metadata of {item.id!r}", item.metadata)
    label = text_of("the label", item.label.to_payload())
    return {
        "kind": item.kind.value,
        "text": item.text,
        "label": label,
        "metadata": metadata,
        "expires_at": item.expires_at,
    }


def _place(scope: MemoryScope) -> Values:
    return {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "agent_type": scope.agent_type or ""}


def _words(scope: MemoryScope, item: MemoryItem, position: int) -> list[Values]:
    place = {
        **_place(scope),
        "memory": position,
        "kind": item.kind.value,
        "expires_at": item.expires_at,
    }
    return [{**place, "word": word} for word in sorted(words_of(item.text))]


def _item(values: Stored) -> MemoryItem:
    return MemoryItem(
        id=values["item_id"],
        kind=MemoryKind(values["kind"]),
        text=values["text"],
        label=TrustLabel.from_payload(document_of(values["label"])),
        metadata=document_of(values["metadata"]),
        created_at=values["created_at"],
        expires_at=values["expires_at"],
    )


_MEMORIES = StoredEntry(
    memories, lambda stored: f"memory {stored['item_id']!r} of user {stored['user_id']!r}", _item
)
