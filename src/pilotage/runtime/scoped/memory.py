"""The memory of whoever a run acts for, inside the run: recalling and remembering are actions of it.

What is recalled is recorded, so replay shows the same and the label of what was read becomes the run's. What is
remembered is written down before it is kept, carries the label of everything the run knew, and is kept once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from pilotage.agent.context import ContextPack, ContextPackRole
from pilotage.agent.ports.memory import IAgentMemory, MemoryItem, MemoryKind, MemoryScope, MemoryUse
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.actions.action import Action
from pilotage.runtime.actions.call import Attempt, Call
from pilotage.runtime.actions.codec import decoder_of
from pilotage.runtime.actions.scope import Scope, entered, scope_for
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.perform import perform
from pilotage.runtime.gate.given_context import TRUST
from pilotage.runtime.gate.recalled import RECALL, label_of_items


class ScopedMemory(IAgentMemory):
    """The application's memory as one run may use it: for its own tenant and user, and for nobody else."""

    def __init__(
        self, memory: IAgentMemory, effects: Effects, context: RunContext, scope: Scope | None = None
    ) -> None:
        self._memory = memory
        self._effects = effects
        self._context = context
        self._scope = scope

    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        self._reject_foreign(scope)
        learned = replace(
            item,
            text=self._effects.redactor.text(item.text),
            label=item.label.join(self._effects.trust),
        )
        act = partial(self._memory.remember, scope, learned)
        # Branches side by side may have learned more or less by now: the label is no part of what is asked.
        asked = {
            "scope": scope,
            "id": item.id,
            "kind": item.kind,
            "text": learned.text,
            "metadata": item.metadata,
        }
        return cast(
            MemoryItem, await self._perform("step:memory.remember", asked, act, IAgentMemory.remember)
        )

    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        act = partial(self._memory.recall, scope, query, limit=limit, kind=kind)
        return await self._recalled(scope, {"query": query, "limit": limit, "kind": kind}, act)

    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        self._reject_foreign(scope)
        act = partial(self._memory.forget, scope, item_id)
        asked = {"scope": scope, "item_id": item_id}
        return cast(int, await self._perform("step:memory.forget", asked, act, IAgentMemory.forget))

    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        return await self._recalled(scope, {"everything": True}, partial(self._memory.export, scope))

    async def packs_for(self, use: MemoryUse, question: str) -> Sequence[ContextPack]:
        """What every model call of the run is shown: what fits the question, then the latest facts."""
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
        found = await self._perform(RECALL, {"scope": scope, **asked}, act, IAgentMemory.export)
        items = cast("Sequence[MemoryItem]", found)
        effects = self._effects
        effects.trust = effects.trust.join(label_of_items(items))
        return items

    async def _perform(
        self,
        label: str,
        asked: Mapping[str, object],
        act: Callable[[], Awaitable[object]],
        returning: Callable[..., object],
    ) -> object:
        """Perform an action; its result is read by what `returning` says it returns."""
        effects, kind = self._effects, AgentActionKind.STEP
        shown = cast(JsonObject, to_json_value(asked))
        with entered(self._scope):
            scope = scope_for(label, shown)
            action_id = scope.next_id(label)
        fingerprint = effects.fingerprint(action_id, kind, label, shown)
        view = effects.redactor.json(shown)
        # Everything here may be done twice without a difference: remembering goes by the id of the item.
        action = Action(
            action_id, kind, label, shown, view, Idempotency.IDEMPOTENT, label == RECALL, fingerprint
        )

        async def acted(_: Attempt) -> object:
            return await act()

        return await perform(effects, Call(scope, action, acted, decoder_of(returning)))

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
    if len(found) < use.most:
        known = {item.id for item in found}
        latest = await memory.recall(scope, "", limit=use.most, kind=MemoryKind.FACT)
        found += [item for item in latest if item.id not in known]
    return use.fitting(found)


def _pack(item: MemoryItem) -> ContextPack:
    facts: JsonObject = {"kind": item.kind.value, TRUST: item.label.to_payload()}
    return ContextPack(f"memory:{item.id}", item.text, "memory", ContextPackRole.MEMORY, metadata=facts)
