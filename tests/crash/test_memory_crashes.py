"""Runs that remember, crashed at every write: nothing they remember is lost, nothing stands there twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pilotage import Agent, AgentExecutionSpec, RecoveryStrategy
from pilotage.agent import MemoryItem, MemoryKind, MemoryScope, MemoryUse
from pilotage.runtime import MemoryTools
from pilotage.safety.trust import TrustLabel
from pilotage.testing import MemoryAgentMemory, ScriptedModel, calls, crash_matrix, says

LOCAL = MemoryScope("default", "local")
TEA = MemoryItem("tea", MemoryKind.FACT, "prefers tea", TrustLabel())


@Agent(spec=AgentExecutionSpec(memory=MemoryUse(), recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Host:
    """Receive guests."""

    def __init__(self, tools: MemoryTools) -> None:
        self.tools = tools


class Diary(MemoryAgentMemory):
    """Tells every world of the crash matrix apart, and what each of them came to hold."""

    worlds: list[Diary] = []

    def __deepcopy__(self, memo: dict[int, object]) -> Diary:
        copy = Diary()
        copy._items = dict(self._items)
        self.worlds.append(copy)
        return copy

    @property
    def texts(self) -> Sequence[str]:
        return sorted(kept.bare.text for kept in self._items.values())


def script() -> ScriptedModel:
    return ScriptedModel(
        [
            calls("remember", text="The guest arrived late."),
            calls("recall", query="tea late"),
            calls("remember", text="The guest prefers tea.", kind="episode"),
            calls("forget", item_id="tea"),
            says("Welcome."),
        ]
    )


@pytest.fixture
async def diary() -> Diary:
    Diary.worlds = []
    diary = Diary()
    await diary.remember(LOCAL, TEA)
    return diary


async def test_whatever_dies_each_memory_is_kept_once_and_forgotten_for_good(
    diary: Diary, second_stops: tuple[int, ...]
) -> None:
    report = await crash_matrix(
        Host, "a guest", model=script(), add=[diary, MemoryTools], second_stops=second_stops
    )
    report.assert_same_result()
    report.assert_no_repeated_effects()
    assert report.points > 50
    expected = ["The guest arrived late.", "The guest prefers tea."]
    assert diary.texts == expected
    touched = [world.texts for world in Diary.worlds if world.texts != ["prefers tea"]]
    assert len(touched) >= report.points
    assert all(texts == expected for texts in touched)


async def test_a_memory_that_went_by_its_text_alone_would_be_noticed(diary: Diary) -> None:
    """The planted bug: a new id for every attempt. The kit of crashes finds the doubled memory."""

    class Careless(Diary):
        def __deepcopy__(self, memo: dict[int, object]) -> Diary:
            copy = Careless()
            copy._items = dict(self._items)
            self.worlds.append(copy)
            return copy

        async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
            fresh = MemoryItem(f"{len(self._items)}-{item.id}", item.kind, item.text, item.label)
            return await super().remember(scope, fresh)

    await crash_matrix(Host, "a guest", model=script(), add=[Careless(), MemoryTools], second_stops=())
    assert any(len(world.texts) > 2 for world in Diary.worlds)
