"""What agents remember, in memory: kept as text, found by words, apart per tenant and user."""

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
class _Kept:
    """An item whose label and metadata are text, as a database would have them."""

    bare: MemoryItem
    label: str
    metadata: str

    @classmethod
    def of(cls, item: MemoryItem) -> _Kept:
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

    Searching reads everything of the scope, which is all right for what a test remembers.
    """

    def __init__(self, clock: IClock | None = None, *, max_items: int = MOST_ITEMS) -> None:
        self._clock = clock or SystemClock()
        self._max_items = max_items
        self._kept: dict[tuple[MemoryScope, str], _Kept] = {}

    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        place = (scope, item.id)
        self._drop_expired(scope)
        known = self._kept.get(place)
        if known is None:
            self._reject_if_full(scope)
        since = known.bare.created_at if known else item.created_at or self._clock.now()
        kept = self._kept[place] = _Kept.of(replace(item, created_at=since))
        return kept.read()

    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        reject_unfit_limit("MemoryAgentMemory.recall", limit=limit)
        known = {place: kept for place, kept in self._unexpired(scope) if kind in (None, kept.bare.kind)}
        wanted = words_of(query)
        shared = {place: wanted & words_of(kept.bare.text) for place, kept in known.items()}
        found = best_first({place: words for place, words in shared.items() if words})
        if not wanted:
            found = list(reversed(known))
        return [known[place].read() for place in found[:limit]]

    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        places = [place for place, _ in self._of(scope) if item_id in (None, place[1])]
        for place in places:
            del self._kept[place]
        return len(places)

    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        return [kept.read() for _, kept in self._unexpired(scope)]

    def _unexpired(self, scope: MemoryScope) -> list[tuple[tuple[MemoryScope, str], _Kept]]:
        now = self._clock.now()
        return [(place, kept) for place, kept in self._of(scope) if not kept.bare.is_expired(now)]

    def _drop_expired(self, scope: MemoryScope) -> None:
        """Delete the expired items of a user."""
        now, user = self._clock.now(), replace(scope, agent_type=None)
        for place in [place for place, kept in self._of(user) if kept.bare.is_expired(now)]:
            del self._kept[place]

    def _of(self, scope: MemoryScope) -> Iterator[tuple[tuple[MemoryScope, str], _Kept]]:
        """What is in a scope; without an agent that is everything of the user."""
        for place, kept in self._kept.items():
            whole = replace(place[0], agent_type=None)
            if scope in (place[0], whole):
                yield place, kept

    def _reject_if_full(self, scope: MemoryScope) -> None:
        user = replace(scope, agent_type=None)
        if sum(1 for _ in self._of(user)) >= self._max_items:
            raise memory_full(scope, self._max_items)
