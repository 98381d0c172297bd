"""The promises of the memory port."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from pilotage.agent.ports.memory import MOST_RECALLED, IAgentMemory, MemoryItem, MemoryKind, MemoryScope
from pilotage.errors import AgentDefinitionError, AgentMemoryError
from pilotage.jsonvalue import JsonObject
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.testing.conformance.kit import UNSTORABLE, Kit

ADA = MemoryScope("acme", "ada")
BARISTA = replace(ADA, agent_type="barista")
OTHERS = (
    MemoryScope("acme", "bob"),
    MemoryScope("globex", "ada"),
    MemoryScope("acme", "ada "),
    MemoryScope("ACME", "ada"),
    MemoryScope("acme", "a%"),
)
WEB = TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, frozenset({"tool:browse", "run input"}))
EARLIER, LATER = datetime(2001, 2, 3, tzinfo=UTC), datetime(2201, 2, 3, microsecond=789, tzinfo=UTC)
TEXTS = ("Ada prefers tea.", "Größe: 42 ☕", "a'b\"c\\d -- ; %_", "one\x00two", "お茶が好き")


def fact(item_id: str, text: str, label: TrustLabel | None = None) -> MemoryItem:
    """Return a fact to remember."""
    return MemoryItem(item_id, MemoryKind.FACT, text, label or TrustLabel())


class MemoryConformance(Kit):
    """Conformance tests of every memory.

    Fixtures to give: `memory`, empty; `small_memory`, empty, in which a user may have three items; and, where a
    store can be opened twice, `second_memory`: another adapter over the store of `memory`, as a second process has it.
    """

    @pytest.fixture
    def second_memory(self, memory: IAgentMemory) -> IAgentMemory:
        return memory

    async def test_nothing_is_remembered_at_first(self, memory: IAgentMemory) -> None:
        assert list(await memory.recall(ADA, "tea")) == []
        assert list(await memory.recall(ADA, "")) == []
        assert list(await memory.export(ADA)) == []
        assert await memory.forget(ADA) == 0

    @pytest.mark.parametrize("text", TEXTS)
    async def test_what_is_remembered_comes_back_as_it_was(
        self, memory: IAgentMemory, second_memory: IAgentMemory, text: str
    ) -> None:
        at = datetime(2026, 11, 15, 12, 0, microsecond=123456, tzinfo=UTC)
        item = MemoryItem(
            id=text,
            kind=MemoryKind.EPISODE,
            text=text,
            label=WEB,
            metadata={"step": [1, None, {"ü": text}]},
            created_at=at,
        )
        assert await memory.remember(ADA, item) == item
        assert list(await second_memory.recall(ADA, text)) == [item]
        assert list(await second_memory.export(ADA)) == [item]

    async def test_the_store_says_since_when(self, memory: IAgentMemory) -> None:
        stored = await memory.remember(ADA, fact("tea", "Ada prefers tea."))
        assert stored.created_at is not None
        assert stored.created_at.utcoffset() is not None
        assert list(await memory.export(ADA)) == [stored]

    async def test_the_same_id_again_replaces_the_item(self, memory: IAgentMemory) -> None:
        first = await memory.remember(ADA, fact("drink", "Ada prefers tea.", WEB))
        await memory.remember(ADA, fact("town", "Ada lives in Graz."))
        again = await memory.remember(ADA, fact("drink", "Ada prefers cocoa."))
        assert again.created_at == first.created_at
        assert again.label == TrustLabel()
        assert [item.text for item in await memory.export(ADA)] == [
            "Ada prefers cocoa.",
            "Ada lives in Graz.",
        ]
        assert list(await memory.recall(ADA, "tea")) == []
        assert [item.id for item in await memory.recall(ADA, "cocoa")] == ["drink"]

    async def test_remembering_the_same_again_changes_nothing(self, memory: IAgentMemory) -> None:
        item = fact("tea", "Ada prefers tea.")
        stored = await memory.remember(ADA, item)
        assert await memory.remember(ADA, item) == stored
        assert list(await memory.export(ADA)) == [stored]

    async def test_of_many_at_once_one_is_stored_per_id(
        self, memory: IAgentMemory, second_memory: IAgentMemory
    ) -> None:
        ports = [memory, second_memory] * 5
        items = [fact(f"note-{number % 3}", f"note {number % 3}") for number in range(len(ports))]
        await asyncio.gather(*(port.remember(ADA, item) for port, item in zip(ports, items, strict=True)))
        assert sorted(item.id for item in await memory.export(ADA)) == ["note-0", "note-1", "note-2"]

    @pytest.mark.parametrize("other", OTHERS)
    async def test_no_other_scope_sees_replaces_or_forgets_it(
        self, memory: IAgentMemory, second_memory: IAgentMemory, other: MemoryScope
    ) -> None:
        mine = await memory.remember(ADA, fact("drink", "prefers tea", WEB))
        theirs = await second_memory.remember(other, fact("drink", "prefers coffee, not tea"))
        assert list(await memory.recall(ADA, "tea")) == [mine]
        assert list(await second_memory.recall(other, "tea")) == [theirs]
        assert await second_memory.forget(other) == 1
        assert list(await memory.export(ADA)) == [mine]
        assert list(await second_memory.export(other)) == []

    async def test_an_agent_has_its_own_part_of_the_memory_of_a_user(self, memory: IAgentMemory) -> None:
        cook = replace(ADA, agent_type="cook")
        for scope, text in ((ADA, "tea at home"), (BARISTA, "tea at work"), (cook, "tea for two")):
            await memory.remember(scope, fact("tea", text))
        assert [item.text for item in await memory.recall(BARISTA, "tea")] == ["tea at work"]
        assert [item.text for item in await memory.export(cook)] == ["tea for two"]
        assert await memory.forget(BARISTA, "tea") == 1
        assert [item.text for item in await memory.export(ADA)] == ["tea at home", "tea for two"]

    async def test_without_an_agent_it_is_the_whole_memory_of_a_user(self, memory: IAgentMemory) -> None:
        await memory.remember(BARISTA, fact("tea", "tea at work"))
        await memory.remember(ADA, fact("tea", "tea at home"))
        assert {item.text for item in await memory.recall(ADA, "tea")} == {"tea at work", "tea at home"}
        assert [item.text for item in await memory.export(ADA)] == ["tea at work", "tea at home"]
        assert await memory.forget(ADA) == 2
        assert list(await memory.export(BARISTA)) == []

    async def test_who_shares_more_words_with_the_question_comes_first(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, fact("1", "Ada prefers green tea in the morning."))
        await memory.remember(ADA, fact("2", "Ada prefers coffee."))
        await memory.remember(ADA, fact("3", "The green bicycle is Ada's."))
        found = await memory.recall(ADA, "Which TEA, green or black, in the morning?")
        assert [item.id for item in found] == ["1", "3"]

    async def test_a_word_that_many_share_counts_less_than_one_that_few_have(
        self, memory: IAgentMemory
    ) -> None:
        await memory.remember(ADA, fact("rare", "harbour"))
        for number in range(4):
            await memory.remember(ADA, fact(f"common-{number}", f"customer likes thing {number}"))
        found = await memory.recall(ADA, "what does the customer like at the harbour")
        assert found[0].id == "rare"

    async def test_of_equals_the_later_one_comes_first(self, memory: IAgentMemory) -> None:
        for item_id in ("old", "newer", "newest"):
            await memory.remember(ADA, fact(item_id, "drinks tea"))
        assert [item.id for item in await memory.recall(ADA, "tea", limit=2)] == ["newest", "newer"]

    async def test_a_question_without_words_brings_back_the_latest(self, memory: IAgentMemory) -> None:
        for number in range(4):
            await memory.remember(ADA, fact(f"{number}", f"note {number}"))
        assert [item.id for item in await memory.recall(ADA, " ?! ", limit=2)] == ["3", "2"]

    async def test_a_kind_can_be_asked_for(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, fact("fact", "drinks tea"))
        episode = MemoryItem("episode", MemoryKind.EPISODE, "drank tea", TrustLabel())
        await memory.remember(ADA, episode)
        await memory.remember(ADA, MemoryItem("user", MemoryKind.USER, "likes tea", TrustLabel()))
        for kind in MemoryKind:
            for query in ("tea", ""):
                assert [item.id for item in await memory.recall(ADA, query, kind=kind)] == [kind.value]

    async def test_an_item_that_has_not_expired_comes_back_with_its_moment(
        self, memory: IAgentMemory, second_memory: IAgentMemory
    ) -> None:
        stored = await memory.remember(ADA, replace(fact("tea", "drinks tea"), expires_at=LATER))
        assert stored.expires_at == LATER
        for found in (await second_memory.recall(ADA, "tea"), await second_memory.recall(ADA, "")):
            assert list(found) == [stored]
        assert list(await second_memory.export(ADA)) == [stored]

    async def test_an_expired_item_is_neither_found_nor_listed(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, fact("town", "lives in Graz"))
        await memory.remember(ADA, replace(fact("tea", "drinks tea"), expires_at=EARLIER))
        for query in ("tea", "", "drinks"):
            for kind in (None, MemoryKind.FACT):
                found = await memory.recall(ADA, query, kind=kind)
                assert "tea" not in [item.id for item in found]
        assert [item.id for item in await memory.export(ADA)] == ["town"]
        assert await memory.trim(ADA, 1) == 0

    async def test_an_expired_item_takes_no_place_from_others(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, fact("rare", "likes the harbour"))
        await memory.remember(ADA, fact("common", "likes tea"))
        await memory.remember(ADA, replace(fact("old", "likes green tea"), expires_at=EARLIER))
        found = await memory.recall(ADA, "green tea", limit=1)
        assert [item.id for item in found] == ["common"]
        assert [item.id for item in await memory.recall(ADA, "", limit=1)] == ["common"]

    async def test_the_id_of_an_expired_item_can_be_used_again(
        self, memory: IAgentMemory, second_memory: IAgentMemory
    ) -> None:
        await memory.remember(ADA, replace(fact("drink", "drinks tea"), expires_at=EARLIER))
        stored = await second_memory.remember(ADA, fact("drink", "drinks cocoa"))
        assert stored.expires_at is None
        assert list(await memory.export(ADA)) == [stored]
        assert list(await memory.recall(ADA, "tea")) == []

    async def test_the_moment_of_an_item_can_be_changed(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, replace(fact("drink", "drinks tea"), expires_at=LATER))
        await memory.remember(ADA, replace(fact("drink", "drinks tea"), expires_at=EARLIER))
        assert list(await memory.recall(ADA, "tea")) == []

    async def test_an_expired_item_can_be_forgotten(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, replace(fact("drink", "drinks tea"), expires_at=EARLIER))
        assert await memory.forget(ADA, "drink") == 1
        assert await memory.forget(ADA) == 0

    async def test_expired_items_do_not_fill_a_memory(self, small_memory: IAgentMemory) -> None:
        for number, scope in enumerate((ADA, BARISTA, ADA)):
            await small_memory.remember(scope, replace(fact(f"{number}", "drinks tea"), expires_at=EARLIER))
        for number in range(3):
            await small_memory.remember(ADA, fact(f"new-{number}", "drinks cocoa"))
        assert len(await small_memory.export(ADA)) == 3

    async def test_one_item_is_forgotten_without_the_others(
        self, memory: IAgentMemory, second_memory: IAgentMemory
    ) -> None:
        await memory.remember(ADA, fact("tea", "drinks tea"))
        await memory.remember(ADA, fact("town", "lives in Graz, drinks tea"))
        assert await second_memory.forget(ADA, "tea") == 1
        assert await memory.forget(ADA, "tea") == 0
        assert [item.id for item in await memory.recall(ADA, "tea")] == ["town"]

    async def test_what_was_forgotten_can_be_remembered_again(self, memory: IAgentMemory) -> None:
        await memory.remember(ADA, fact("tea", "drinks tea"))
        await memory.forget(ADA)
        await memory.remember(ADA, fact("tea", "drinks tea"))
        assert [item.id for item in await memory.recall(ADA, "tea")] == ["tea"]

    @pytest.mark.parametrize("limit", [0, -1, MOST_RECALLED + 1])
    async def test_a_request_for_nothing_or_for_everything_is_refused(
        self, memory: IAgentMemory, limit: int
    ) -> None:
        with pytest.raises(AgentDefinitionError, match="limit"):
            await memory.recall(ADA, "tea", limit=limit)

    async def test_what_has_no_json_form_is_refused(self, memory: IAgentMemory) -> None:
        unstorable = cast(JsonObject, UNSTORABLE)
        broken = MemoryItem("tea", MemoryKind.FACT, "drinks tea", TrustLabel(), unstorable)
        with pytest.raises(AgentDefinitionError, match="'tea'"):
            await memory.remember(ADA, broken)
        assert list(await memory.export(ADA)) == []

    async def test_a_full_memory_says_so_and_still_takes_changes(self, small_memory: IAgentMemory) -> None:
        for number, scope in enumerate((ADA, BARISTA, ADA)):
            await small_memory.remember(scope, fact(f"{number}", "drinks tea"))
        with pytest.raises(AgentMemoryError, match="'ada' has 3 items and is full"):
            await small_memory.remember(BARISTA, fact("4", "drinks tea"))
        await small_memory.remember(ADA, fact("0", "drinks cocoa"))
        await small_memory.remember(MemoryScope("acme", "bob"), fact("1", "drinks tea"))
        assert await small_memory.forget(ADA, "0") == 1
        await small_memory.remember(BARISTA, fact("4", "drinks tea"))
