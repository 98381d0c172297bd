"""Tools by which a model remembers, recalls and forgets: a pod that any agent may inject."""

from __future__ import annotations

from datetime import datetime

from pilotage.agent.ports.memory import IAgentMemory, MemoryItem, MemoryKind, MemoryScope
from pilotage.agent.principal import get_run_context
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import DataAccess, Idempotency, ToolApprovalRequirement, ToolEffects
from pilotage.container.pod import Pod
from pilotage.errors import AgentDefinitionError, AgentMemoryError, ToolError
from pilotage.runtime.door.effects import active_effects
from pilotage.runtime.journal.trust_record import RUN_INPUT
from pilotage.runtime.scoped.memory import ScopedMemory
from pilotage.values import value


@value
class Recalled:
    """Something remembered, as a model is shown it; `origins` are what it was learned from."""

    id: str
    kind: MemoryKind
    text: str
    since: datetime | None
    origins: tuple[str, ...]

    @classmethod
    def of(cls, item: MemoryItem) -> Recalled:
        """What a model is shown of an item."""
        return cls(item.id, item.kind, item.text, item.created_at, tuple(sorted(item.label.origins)))


@Pod
class MemoryTools:
    """What a model may do with the memory of whoever its run acts for; it never reaches anybody else's.

    Under untrusted content a person is asked before anything is remembered, and always before something is forgotten.
    """

    def __init__(self, memory: IAgentMemory) -> None:
        self._memory = memory

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def remember(
        self, text: str, kind: MemoryKind = MemoryKind.FACT, *, runtime_context: AgentToolRuntimeContext
    ) -> str:
        """Keep something about the user for later conversations.

        Args:
            text: What to remember, as one sentence that can be understood without this conversation.
            kind: "fact" for what holds until it is forgotten, "episode" for what happened once.
        """
        effects = active_effects.get()
        label = RUN_INPUT if effects is None else effects.trust
        shown = text if effects is None else effects.redactor.text(text)
        try:
            # The key is that of the call: made again after a crash, it is the same memory.
            item = MemoryItem(runtime_context.idempotency_key, kind, shown, label)
            kept = await self._memory.remember(MemoryScope.of(get_run_context()), item)
        except (AgentDefinitionError, AgentMemoryError) as error:
            raise ToolError(str(error)) from error
        return kept.id

    @agent_tool(effects=ToolEffects.read_only(), reads_private=True)
    async def recall(self, query: str, limit: int = 10) -> list[Recalled]:
        """Look up what is remembered of the user, the best fit first.

        Args:
            query: Words that what you look for would have; empty for the latest.
            limit: How many to bring back at most.
        """
        context, effects = get_run_context(), active_effects.get()
        memory = self._memory if effects is None else ScopedMemory(self._memory, effects, context)
        try:
            found = await memory.recall(MemoryScope.of(context), query, limit=limit)
        except (AgentDefinitionError, AgentMemoryError) as error:
            raise ToolError(str(error)) from error
        return [Recalled.of(item) for item in found]

    @agent_tool(
        effects=ToolEffects(data_access=DataAccess.WRITE, destructive=True),
        idempotency=Idempotency.IDEMPOTENT,
    )
    async def forget(self, item_id: str) -> str:
        """Forget something for good.

        Args:
            item_id: The id of what to forget, as `recall` gave it.
        """
        try:
            await self._memory.forget(MemoryScope.of(get_run_context()), item_id)
        except (AgentDefinitionError, AgentMemoryError) as error:
            raise ToolError(str(error)) from error
        return f"{item_id} is not remembered any more"
