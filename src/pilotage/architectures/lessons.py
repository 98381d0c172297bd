"""Lessons across runs: recalled when a run begins, kept when one is learned; apart for every tenant, user and agent."""

from __future__ import annotations

from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.safety.trust import TrustLabel

_MOST = 5


class Lessons:
    """What an agent has learned for one user. Without a memory, nothing is recalled and nothing kept."""

    def __init__(self, deps: Dependencies) -> None:
        self._runtime = deps.runtime
        self._memory = deps.memory
        self._scope = MemoryScope.of(deps.context, deps.attribution.agent_id)

    async def recalled(self, question: str) -> list[str]:
        """The lessons that fit a question, then the latest. The run knows them from here on.

        Raises:
            AgentMemoryError: the memory could not be searched.
        """
        if self._memory is None:
            return []
        found = {item.id: item for item in await self._memory.recall(self._scope, question, limit=_MOST)}
        if len(found) < _MOST:
            latest = await self._memory.recall(self._scope, "", limit=_MOST)
            found |= {item.id: item for item in latest}
        return [item.text for item in found.values()][:_MOST]

    async def keep(self, lesson: str) -> None:
        """Keep a lesson with the label of everything the run knew when it learned it.

        Raises:
            AgentMemoryError: it could not be kept.
        """
        text = lesson.strip()
        if self._memory is not None and text:
            # The memory of a run adds the label of what the run knows.
            item = MemoryItem(await self._runtime.uid(), MemoryKind.EPISODE, text, TrustLabel())
            await self._memory.remember(self._scope, item)
