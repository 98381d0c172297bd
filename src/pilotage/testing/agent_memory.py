"""The memory port in memory: items as text, found by words, separate for each tenant and user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

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
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock, SystemClock
from pilotage.jsonvalue import canonical_json
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


@value
class _EncodedItem:
    """An item with its label and metadata as text, as in a database."""

    bare: MemoryItem
    label: str
    metadata: str

    @classmethod
    def of(cls, item: MemoryItem) -> _EncodedItem:
        try:
            metadata = canonical_json(item.metadata)
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentDefinitionError(
                f"MemoryAgentMemory.remember: the metadata of {item.id!r} cannot be stored as JSON: {error}."
            ) from error
        bare = replace(item, label=TrustLabel(), metadata={})
        return cls(bare, canonical_json(item.label.to_payload()), metadata)

    def read(self) -> MemoryItem:
        label = TrustLabel.from_payload(json.loads(self.label))
        return replace(self.bare, label=label, metadata=json.loads(self.metadata))


class MemoryAgentMemory(IAgentMemory):
    """Memories in a dictionary; they outlive the "processes" of a test if the memory does.

    A search reads all items of the scope, which is fast enough for tests.
    """

    def __init__(self, clock: IClock | None = None, *, max_items: int = MOST_ITEMS) -> None:
        self._clock = clock or SystemClock()
        self._max_items = max_items
        self._items: dict[tuple[MemoryScope, str], _EncodedItem] = {}

    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        place = (scope, item.id)
        self._drop_expired(scope)
        known = self._items.get(place)
        if known is None:
            self._reject_if_full(scope)
        since = known.bare.created_at if known else item.created_at or self._clock.now()
        stored = self._items[place] = _EncodedItem.of(replace(item, created_at=since))
        return stored.read()

    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        reject_unfit_limit("MemoryAgentMemory.recall", limit=limit)
        known = {
            place: stored for place, stored in self._unexpired(scope) if kind in (None, stored.bare.kind)
        }
        query_words = words_of(query)
        shared = {place: query_words & words_of(stored.bare.text) for place, stored in known.items()}
        found = best_first({place: words for place, words in shared.items() if words})
        if not query_words:
            found = list(reversed(known))
        return [known[place].read() for place in found[:limit]]

    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        places = [place for place, _ in self._of(scope) if item_id in (None, place[1])]
        for place in places:
            del self._items[place]
        return len(places)

    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        return [stored.read() for _, stored in self._unexpired(scope)]

    def _unexpired(self, scope: MemoryScope) -> list[tuple[tuple[MemoryScope, str], _EncodedItem]]:
        now = self._clock.now()
        return [(place, stored) for place, stored in self._of(scope) if not stored.bare.is_expired(now)]

    def _drop_expired(self, scope: MemoryScope) -> None:
        """Delete the expired items of a user."""
        now, user = self._clock.now(), replace(scope, agent_type=None)
        for place in [place for place, stored in self._of(user) if stored.bare.is_expired(now)]:
            del self._items[place]

    def _of(self, scope: MemoryScope) -> Iterator[tuple[tuple[MemoryScope, str], _EncodedItem]]:
        """Yield the items of a scope; without an agent, all items of the user."""
        for place, stored in self._items.items():
            whole = replace(place[0], agent_type=None)
            if scope in (place[0], whole):
                yield place, stored

    def _reject_if_full(self, scope: MemoryScope) -> None:
        user = replace(scope, agent_type=None)
        if sum(1 for _ in self._of(user)) >= self._max_items:
            raise memory_full(scope, self._max_items)
