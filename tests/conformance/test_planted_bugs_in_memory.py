"""The kit of the memory port notices what it is there for: memories with one bug each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.safety.trust import TrustLabel
from pilotage.testing import MemoryAgentMemory
from pilotage.testing.conformance.memory import MemoryConformance
from tests.conformance.planted import failing_tests


class ForgetsTheTenant(MemoryAgentMemory):
    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        scopes = {place[0] for place in self._items if place[0].user_id == scope.user_id} | {scope}
        found = [await super(ForgetsTheTenant, self).recall(each, query, kind=kind) for each in scopes]
        return [item for items in found for item in items][:limit]


class IgnoresCaseOfTenants(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        return await super().remember(replace(scope, tenant_id=scope.tenant_id.lower()), item)


class ForgetsEverybody(MemoryAgentMemory):
    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        count = await super().forget(scope, item_id)
        if item_id is None:
            self._items.clear()
        return count


class ForgetsOneTooMany(MemoryAgentMemory):
    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        return await super().forget(scope)


class SharesBetweenAgents(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        return await super().remember(replace(scope, agent_type=None), item)


class HidesWhatAgentsLearned(MemoryAgentMemory):
    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        return [kept.read() for place, kept in self._items.items() if place[0] == scope]


class DropsTheLabel(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        return await super().remember(scope, replace(item, label=TrustLabel()))


class KeepsEveryVersion(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        await super().remember(scope, replace(item, id=f"{item.id}-{len(self._items)}"))
        return await super().remember(scope, item)


class NeverReplaces(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        known = self._items.get((scope, item.id))
        return known.read() if known else await super().remember(scope, item)


class PutsReplacedOnesLast(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        known = self._items.pop((scope, item.id), None)
        return await super().remember(
            scope, replace(item, created_at=known.bare.created_at if known else item.created_at)
        )


class AnswersInOrder(MemoryAgentMemory):
    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        found = await super().recall(scope, query, limit=100, kind=kind)
        known = [item.id for item in await self.export(scope)]
        return sorted(found, key=lambda item: known.index(item.id))[:limit]


class IgnoresTheKind(MemoryAgentMemory):
    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        return await super().recall(scope, query, limit=limit)


class IsNeverFull(MemoryAgentMemory):
    def _reject_if_full(self, scope: MemoryScope) -> None:
        return None


class HasNoClock(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        return replace(await super().remember(scope, item), created_at=item.created_at)


class ShowsExpiredOnes(MemoryAgentMemory):
    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        expired = [kept.read() for _, kept in self._of(scope) if kept.bare.expires_at is not None]
        return expired or await super().recall(scope, query, limit=limit, kind=kind)


class ListsExpiredOnes(MemoryAgentMemory):
    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        return [kept.read() for _, kept in self._of(scope)]


class FiltersBehindTheLimit(MemoryAgentMemory):
    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        known = dict(self._kept)
        self._kept = {
            place: replace(kept, bare=replace(kept.bare, expires_at=None)) for place, kept in known.items()
        }
        found = await super().recall(scope, query, limit=limit, kind=kind)
        self._kept = known
        now = self._clock.now()
        return [item for item in found if not known[scope, item.id].bare.is_expired(now)]


class CountsExpiredOnes(MemoryAgentMemory):
    def _drop_expired(self, scope: MemoryScope) -> None:
        return None


class ForgetsTheMoment(MemoryAgentMemory):
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        return await super().remember(scope, replace(item, expires_at=None))


BUGS: Mapping[type[MemoryAgentMemory], str] = {
    ForgetsTheTenant: "test_no_other_scope_sees_replaces_or_forgets_it",
    IgnoresCaseOfTenants: "test_no_other_scope_sees_replaces_or_forgets_it",
    ForgetsEverybody: "test_no_other_scope_sees_replaces_or_forgets_it",
    ForgetsOneTooMany: "test_one_item_is_forgotten_without_the_others",
    SharesBetweenAgents: "test_an_agent_has_its_own_part_of_the_memory_of_a_user",
    HidesWhatAgentsLearned: "test_without_an_agent_it_is_the_whole_memory_of_a_user",
    DropsTheLabel: "test_what_is_remembered_comes_back_as_it_was",
    KeepsEveryVersion: "test_remembering_the_same_again_changes_nothing",
    NeverReplaces: "test_the_same_id_again_replaces_the_item",
    PutsReplacedOnesLast: "test_the_same_id_again_replaces_the_item",
    AnswersInOrder: "test_of_equals_the_later_one_comes_first",
    IgnoresTheKind: "test_a_kind_can_be_asked_for",
    IsNeverFull: "test_a_full_memory_says_so_and_still_takes_changes",
    HasNoClock: "test_the_store_says_since_when",
    ShowsExpiredOnes: "test_an_expired_item_is_neither_found_nor_listed",
    ListsExpiredOnes: "test_an_expired_item_is_neither_found_nor_listed",
    FiltersBehindTheLimit: "test_an_expired_item_takes_no_place_from_others",
    CountsExpiredOnes: "test_expired_items_do_not_fill_a_memory",
    ForgetsTheMoment: "test_an_item_that_has_not_expired_comes_back_with_its_moment",
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
async def test_the_kit_notices(bug: type[MemoryAgentMemory]) -> None:
    def fixtures() -> Mapping[str, object]:
        memory = bug()
        return {"memory": memory, "second_memory": memory, "small_memory": bug(max_items=3)}

    assert BUGS[bug] in await failing_tests(MemoryConformance, fixtures)
