"""The memory of a run's principal, inside the run: recalling and remembering are actions of the run.

Recalled items are recorded, so that replay returns the same ones, and their trust labels join the run's. A new item is
recorded before it is stored, has the trust label of the run, and is stored once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from pilotage.agent.context import ContextPack, ContextPackRole
from pilotage.agent.ports.memory import IAgentMemory, MemoryItem, MemoryKind, MemoryScope, MemoryUse
from pilotage.agent.principal import get_run_context
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import DataAccess, Idempotency, ToolApprovalRequirement, ToolEffects
from pilotage.container.pod import Pod
from pilotage.errors import AgentDefinitionError, AgentMemoryError, ToolError
from pilotage.jsonvalue import JsonObject, as_object, to_json_value
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import STEP, Ask, PlainEffect
from pilotage.runtime.exposure.trust import RECALL, RUN_INPUT, TRUST, label_of_items
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.result_codec import codec_of
from pilotage.runtime.journal.scope import StepScope, entered, scope_for
from pilotage.values import value

T = TypeVar("T")


class ScopedMemory(IAgentMemory):
    """The application's memory for one run, restricted to the tenant and user of the run."""

    def __init__(self, memory: IAgentMemory, run: Run, scope: StepScope | None = None) -> None:
        self._memory = memory
        self._run = run
        self._context = run.context
        self._scope = scope

    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        return await self._remember(scope, item)

    async def remember_if_agreed(
        self, scope: MemoryScope, item: MemoryItem, reason: str
    ) -> MemoryItem | None:
        if not self._run.ledger.is_durable:
            return None
        try:
            return await self._remember(scope, item, Ask(reason))
        except ToolError as error:
            if error.error_type is not None:
                raise AgentMemoryError(str(error)) from error
            return None

    async def trim(self, scope: MemoryScope, most: int) -> int:
        self._reject_foreign(scope)
        act = partial(self._memory.trim, scope, most)
        return await self._perform(
            words.MEMORY_FORGET, {"scope": scope, "most": most}, act, IAgentMemory.trim
        )

    async def _remember(self, scope: MemoryScope, item: MemoryItem, ask: Ask | None = None) -> MemoryItem:
        self._reject_foreign(scope)
        learned = replace(
            item,
            text=self._run.redactor.text(item.text),
            label=item.label.join(self._run.trust),
        )
        act = partial(self._memory.remember, scope, learned)
        # The label depends on the timing of concurrent branches, so it is not part of the fingerprint.
        asked: dict[str, object] = {
            "scope": scope,
            "id": item.id,
            "kind": item.kind,
            "text": learned.text,
            "metadata": item.metadata,
        }
        if item.expires_at is not None:
            asked["expires_at"] = item.expires_at
        return await self._perform(words.MEMORY_REMEMBER, asked, act, IAgentMemory.remember, ask)

    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        act = partial(self._memory.recall, scope, query, limit=limit, kind=kind)
        return await self._recalled(scope, {"query": query, "limit": limit, "kind": kind}, act)

    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        self._reject_foreign(scope)
        act = partial(self._memory.forget, scope, item_id)
        asked = {"scope": scope, "item_id": item_id}
        return await self._perform(words.MEMORY_FORGET, asked, act, IAgentMemory.forget)

    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        return await self._recalled(scope, {"everything": True}, partial(self._memory.export, scope))

    async def packs_for(self, use: MemoryUse, question: str) -> Sequence[ContextPack]:
        """Return the items for every model call of the run: matches of the question, then the latest facts.

        Items about the user come before the others.
        """
        scope = MemoryScope.of(self._context)
        act = partial(_what_fits, self._memory, scope, question, use)
        items = await self._recalled(scope, {"question": question, "most": use.most}, act)
        return [_pack(item) for item in items]

    async def _recalled(
        self,
        scope: MemoryScope,
        asked: Mapping[str, object],
        act: Callable[[], Awaitable[Sequence[MemoryItem]]],
    ) -> Sequence[MemoryItem]:
        self._reject_foreign(scope)

        async def unexpired() -> Sequence[MemoryItem]:
            # A memory that knows nothing of expiry gives back what it was given.
            found, now = await act(), self._run.ports.clock.now()
            return [item for item in found if not item.is_expired(now)]

        items = await self._perform(RECALL, {"scope": scope, **asked}, unexpired, IAgentMemory.export)
        self._run.trust = self._run.trust.join(label_of_items(items))
        return items

    async def _perform(
        self,
        label: str,
        asked: Mapping[str, object],
        act: Callable[[], Awaitable[T]],
        returning: Callable[..., object],
        ask: Ask | None = None,
    ) -> T:
        """Perform an action; its result is decoded by the return type of `returning`. `ask` goes to a person first."""
        run = self._run
        shown = as_object(to_json_value(asked))
        with entered(self._scope):
            scope = scope_for(label, shown)
            action_id = scope.next_id(label)
        view = run.redactor.json(shown)
        # All operations are idempotent: remembering uses the id of the item.
        action = run.action(action_id, AgentActionKind.STEP, label, shown, view, is_read_only=label == RECALL)

        async def acted() -> object:
            return await act()

        effect = PlainEffect(STEP, scope, action, acted, codec_of(returning))
        effect.ask, effect.is_optional = ask, ask is not None
        run.number(effect)
        result: T = await perform(run, effect)
        return result

    def _reject_foreign(self, scope: MemoryScope) -> None:
        context = self._context
        if (scope.tenant_id, scope.user_id) != (context.tenant_id, context.user_id):
            raise AgentDefinitionError(
                f"run {context.run_id!r} acts for {context.user_id!r} of tenant {context.tenant_id!r} and asks for the "
                f"memory of {scope.user_id!r} of tenant {scope.tenant_id!r}. Use MemoryScope.of(deps.context)."
            )


async def _what_fits(
    memory: IAgentMemory, scope: MemoryScope, question: str, use: MemoryUse
) -> Sequence[MemoryItem]:
    found = list(await memory.recall(scope, question, limit=use.most))
    for kind in (MemoryKind.USER, MemoryKind.FACT):
        if len(found) < use.most:
            known = {item.id for item in found}
            latest = await memory.recall(scope, "", limit=use.most, kind=kind)
            found += [item for item in latest if item.id not in known]
    return use.fitting(found)


def _pack(item: MemoryItem) -> ContextPack:
    facts: JsonObject = {"kind": item.kind.value, TRUST: item.label.to_payload()}
    return ContextPack(f"memory:{item.id}", item.text, "memory", ContextPackRole.MEMORY, metadata=facts)


@value
class Recalled:
    """A memory item as a model gets it; `origins` are its sources."""

    id: str
    kind: MemoryKind
    text: str
    since: datetime | None
    origins: tuple[str, ...]

    @classmethod
    def of(cls, item: MemoryItem) -> Recalled:
        """Return the fields of an item that a model gets."""
        return cls(item.id, item.kind, item.text, item.created_at, tuple(sorted(item.label.origins)))


@Pod
class MemoryTools:
    """Tools for the memory of the run's principal; other memories are out of reach.

    After untrusted content a person is asked before an item is remembered, and always before one is forgotten.
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
            kind: "fact" for what holds until it is forgotten, "user" for a fact about the user, "episode" for what
                happened once.
        """
        run = active_run()
        label = RUN_INPUT if run is None else run.trust
        shown = text if run is None else run.redactor.text(text)
        try:
            # The key is that of the call: repeated after a crash, it is the same item.
            item = MemoryItem(runtime_context.idempotency_key, kind, shown, label)
            stored = await self._memory.remember(MemoryScope.of(get_run_context()), item)
        except (AgentDefinitionError, AgentMemoryError) as error:
            raise ToolError(str(error)) from error
        return stored.id

    @agent_tool(effects=ToolEffects.read_only(), reads_private=True)
    async def recall(self, query: str, limit: int = 10) -> list[Recalled]:
        """Look up what is remembered of the user, the best fit first.

        Args:
            query: Words that what you look for would have; empty for the latest.
            limit: How many to bring back at most.
        """
        context, run = get_run_context(), active_run()
        memory = self._memory if run is None else ScopedMemory(self._memory, run)
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
