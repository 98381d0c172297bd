"""Memories in a database: expired ones are pruned, and codes cover the moment at which one expires."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import pytest
from sqlalchemy import func, select, update

from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore, open_database
from pilotage.adapters.sqlalchemy.stored_entries import COVERED, RowCodes
from pilotage.adapters.sqlalchemy.tables import memories, memory_words
from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.errors import DamagedEntryError
from pilotage.jsonvalue import canonical_json, to_bytes
from pilotage.safety.trust import TrustLabel

ADA, BOB = MemoryScope("acme", "ada"), MemoryScope("acme", "bob")
EARLIER, LATER = datetime(2001, 2, 3, tzinfo=UTC), datetime(2201, 2, 3, tzinfo=UTC)
TEA = MemoryItem("tea", MemoryKind.USER, "drinks tea", TrustLabel())
KEY = b"k" * 32


def rows_of(store: SqlAlchemyStore) -> tuple[int, int]:
    """How many memories and words are stored, expired ones included."""
    with store.database.engines.reading.connect() as connection:
        first, second = (
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (memories, memory_words)
        )
    return first, second


async def test_pruning_removes_the_expired_memories_of_a_tenant(store: SqlAlchemyStore) -> None:
    other = MemoryScope("globex", "ada")
    for scope in (ADA, BOB, other):
        await store.memory.remember(scope, replace(TEA, expires_at=EARLIER))
    await store.memory.remember(replace(ADA, agent_type="waiter"), replace(TEA, expires_at=LATER))
    before = rows_of(store)
    assert await store.retention.prune("acme", ended_before=datetime.now(UTC) - timedelta(days=1)) == 0
    assert before == (3, 6)
    assert rows_of(store) == (2, 4)
    assert [item.expires_at for item in await store.memory.export(ADA)] == [LATER]


def stored_row(expires_at: datetime | None) -> dict[str, object]:
    values: dict[str, object] = {name: name for name in COVERED[memories.name]}
    return {**values, "created_at": EARLIER, "expires_at": expires_at}


def test_the_code_of_a_memory_that_does_not_expire_is_that_of_earlier_versions() -> None:
    row = stored_row(None)
    said = [row[name] for name in COVERED[memories.name][:-1]]
    text = canonical_json([memories.name, *map(str, said), EARLIER.isoformat()])
    earlier = blake2b(to_bytes(text), key=KEY, digest_size=32).hexdigest()
    assert RowCodes([KEY]).text(memories, row) == earlier


def test_the_code_covers_the_moment_at_which_a_memory_expires() -> None:
    codes = RowCodes([KEY])
    texts = [codes.text(memories, stored_row(each)) for each in (None, EARLIER, LATER)]
    assert len(set(texts)) == 3


@pytest.mark.parametrize("moment", [None, LATER + timedelta(days=1), EARLIER])
async def test_a_memory_whose_moment_was_changed_by_hand_is_damaged(
    database_settings: DatabaseSettings, moment: datetime | None
) -> None:
    with SqlAlchemyStore(open_database(database_settings, keys={"one": KEY})) as store:
        await store.memory.remember(ADA, replace(TEA, expires_at=LATER))
        assert len(await store.memory.recall(ADA, "tea")) == 1
        with store.database.engines.writing.begin() as connection:
            connection.execute(update(memories).values(expires_at=moment))
        await store.memory.remember(ADA, replace(TEA, id="cocoa", text="drinks cocoa"))
        await store.retention.prune("acme", ended_before=EARLIER)
        with pytest.raises(DamagedEntryError):
            await store.memory.export(ADA)
