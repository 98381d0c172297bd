"""Lessons across runs: recalled when a run begins, kept when one is learned; apart for every tenant, user and agent."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.memory import MemoryItem, MemoryKind, MemoryScope
from pilotage.agent.tools.metadata import Idempotency
from pilotage.safety.trust import TrustLabel

_REPEATABLE = Idempotency.IDEMPOTENT
_MOST = 5


class Lessons:
    """What an agent has learned for one user. Without a memory, nothing is recalled and nothing kept."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        context = deps.context
        self._scope = MemoryScope(context.tenant_id, context.user_id or "nobody", deps.attribution.agent_id)

    async def recalled(self, question: str) -> list[str]:
        """The lessons that fit a question. The run knows them from here on, with the trust they deserve.

        Raises:
            AgentMemoryError: the memory could not be searched.
        """
        memory = self._deps.memory
        if memory is None:
            return []

        async def recall() -> list[MemoryItem]:
            return list(await memory.recall(self._scope, question, limit=_MOST))

        found: Sequence[MemoryItem] = await self._deps.runtime.step("recall", recall, idempotency=_REPEATABLE)
        for item in found:
            self._deps.learn(item.label)
        return [item.text for item in found]

    async def keep(self, number: int, lesson: str) -> None:
        """Keep a lesson with the label of everything the run knew when it learned it; the same one again replaces it.

        Raises:
            AgentMemoryError: it could not be kept.
        """
        memory, text = self._deps.memory, lesson.strip()
        if memory is None or not text:
            return
        label: TrustLabel = self._deps.trust
        item = MemoryItem(f"{self._deps.context.run_id}:lesson-{number}", MemoryKind.EPISODE, text, label)

        async def remember() -> str:
            return (await memory.remember(self._scope, item)).id

        await self._deps.runtime.step("remember", remember, idempotency=_REPEATABLE)
