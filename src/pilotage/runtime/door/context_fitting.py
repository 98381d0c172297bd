"""Fitting the request of one model call to its context: provided, observed, changed and condensed, below that call.

Recorded changes are applied again; only a call without a record asks providers, observers and handlers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pilotage.agent.context import ContextHealthSignal, ContextOptimizationAction, ContextPack
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import AgentContext
from pilotage.errors import AgentDefinitionError, ModelCallError, ToolError
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.context.condense import ContextChange, Summarise
from pilotage.runtime.context.evidence import Proofs, done, refused
from pilotage.runtime.context.fit import ContextStage, Fitting
from pilotage.runtime.context.optimize import (
    Abilities,
    ContextFetch,
    ContextOptimization,
    ContextSelection,
    ContextUnavailableError,
    Fetch,
    PackChange,
    SelectedActions,
    delegated_pack,
    delegated_task,
)
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.model_acts import ModelCall
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import Effect
from pilotage.runtime.exposure.trust import label_of_packs
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.scope import Action
from pilotage.runtime.journal.seals import has_record


class ContextFitter:
    """Fits the request of one model call; `is_live` says that the call has no recorded reply."""

    def __init__(self, run: Run, call: ModelCall, summarise: Summarise, *, is_live: bool) -> None:
        self._run = run
        self._call = call
        self._summarise = summarise
        self._is_live = is_live
        self._is_new = not run.replay.knows(call.action.id)

    async def fit(self) -> None:
        """Let the call ask its model with a request that fits."""
        call, stage = self._call, self._run.context_stage
        # A record counts, also where the application has no provider or handler any more.
        is_provided, is_selected = self._is_recorded(words.PROVIDED), self._is_recorded(words.SELECTED)
        if not (is_provided or is_selected or stage.concerns(call.request, is_live=self._is_live)):
            return
        try:
            is_fetched = (is_provided or stage.wants_context) and await self._provide(
                stage, is_recorded=is_provided
            )
        except (ContextUnavailableError, AgentDefinitionError) as error:
            # Only an outage may pass: packs that are refused would be refused again.
            is_outage = isinstance(error, ContextUnavailableError)
            call.unfit = ModelCallError(f"no context for the model call: {error}", retryable=is_outage)
            return
        fitting = stage.fitting(call.scope.path, call.action.id, call.request)
        if stage.is_dynamic or is_selected:
            selection = await self._selection(fitting)
            await self._optimize(stage, fitting, selection, is_fetched=is_fetched)
            await self._condense(stage, fitting, selection)
        call.fit(fitting.fitted())

    async def _provide(self, stage: ContextStage, *, is_recorded: bool) -> bool:
        """Fetch the context for the call, or take the recorded one; return whether there is one for it."""
        if not (self._is_new or is_recorded):
            return False
        fetch, action = self._fetch(stage) or _no_provider, self._action(words.PROVIDED)
        effect = ContextFetch(self._call.scope, action, fetch, self._run.redactor)
        provided: AgentContext = await self._perform(effect)
        stage.show_provided(provided)
        self._learn(provided.packs)
        return True

    async def _selection(self, fitting: Fitting) -> SelectedActions:
        """Return what the handler selected, or selects now for a call that has no record of it.

        A mere compression is recorded with the change that it leads to.
        """
        action, selection = self._action(words.SELECTED), SelectedActions(packs=fitting.packs)
        if not self._can_be_read(words.SELECTED):
            if not self._is_new or self._can_be_read(words.CONDENSED):
                return selection
            selection = await fitting.select()
            if not selection.actions or (selection.is_compression and fitting.has_budget):
                return selection
        effect = ContextSelection(self._call.scope, action, selection, self._run.redactor)
        recorded: SelectedActions = await self._perform(effect)
        return recorded

    async def _optimize(
        self, stage: ContextStage, fitting: Fitting, selection: SelectedActions, *, is_fetched: bool
    ) -> None:
        """Change the packs as it was selected; a person who rejects that leaves them as they are."""
        if not selection.actions or (selection.is_compression and fitting.has_budget):
            return
        action = self._action(words.OPTIMIZED, selection)
        effect = ContextOptimization(
            self._call.scope,
            action,
            selection,
            Abilities(stage.budget is not None, stage.policy.teammates, self._fetch(stage), is_fetched),
            proofs=self._proofs(action),
            redactor=self._run.redactor,
        )
        try:
            change: PackChange = await self._perform(effect)
        except ToolError:
            return
        self._learn(change.provided)
        packs = {pack.id: pack for pack in fitting.packs}
        fitting.change(change)
        for delegated in change.delegations:
            await self._delegate(stage, fitting, delegated, packs, selection.signals)

    async def _delegate(
        self,
        stage: ContextStage,
        fitting: Fitting,
        action: ContextOptimizationAction,
        packs: dict[str, ContextPack],
        signals: Sequence[ContextHealthSignal],
    ) -> None:
        """Let a teammate condense packs; its answer takes their place."""
        run, delegate, name = self._run, stage.policy.delegate, action.delegation_ref
        material = [packs[each] for each in action.target_pack_ids if each in packs]
        if delegate is None or name is None or not material:
            return
        try:
            output = await delegate(self._call.scope, name, delegated_task(material))
        except ToolError as error:
            outcome = refused(str(error))
        else:
            pack = delegated_pack(action, output, run.trust)
            fitting.substitute(frozenset(action.target_pack_ids), pack)
            outcome = done(substitute=pack.id)
        if self._is_new:
            proofs = self._proofs(self._action(words.OPTIMIZED))
            proofs.add_action(action, signals, f"delegated-{action.id}", outcome)
            proofs.record()

    async def _condense(self, stage: ContextStage, fitting: Fitting, selection: SelectedActions) -> None:
        """Condense the transcript as it was selected, or recorded.

        A person who rejects the change leaves the context as it is.
        """
        run, condensation = self._run, fitting.condensation()
        action, selected = self._action(words.CONDENSED), selection.compression
        if condensation is None or (selected is None and not self._is_recorded(words.CONDENSED)):
            return
        change = ContextChange(
            self._call.scope,
            action,
            condensation,
            stage.strategies,
            ledger=run.ledger,
            redactor=run.redactor,
            trust=run.trust,
            summarise=self._summarise,
        )
        if selected is not None:
            change.decision, change.signals = selected, selection.signals
        with suppress(ToolError):
            fitting.condense_to(await self._perform(change))
        run.spending.absorb(change.spent)

    def _fetch(self, stage: ContextStage) -> Fetch | None:
        provide, (_, _, step) = stage.policy.provide, self._call.action.id.rpartition("#")
        return None if provide is None else partial(provide, int(step))

    async def _perform(self, effect: Effect) -> Any:
        effect.number = self._call.number
        return await perform(self._run, effect)

    def _learn(self, packs: Sequence[ContextPack]) -> None:
        if packs:
            self._run.trust = self._run.trust.join(label_of_packs(packs))

    def _action_id(self, name: str) -> str:
        return f"{self._call.action.id}/{name}"

    def _action(self, name: str, selection: SelectedActions | None = None) -> Action:
        """Return an action below the call; readers see what was selected."""
        actions = [to_json_value(each) for each in selection.actions] if selection is not None else []
        view = self._run.redactor.json({"actions": actions}) if actions else None
        return self._run.action(self._action_id(name), AgentActionKind.STEP, name, None, view)

    def _is_recorded(self, name: str) -> bool:
        """Return whether an action of this name below the call is recorded."""
        return self._run.replay.has_record and self._run.replay.knows(self._action_id(name))

    def _can_be_read(self, name: str) -> bool:
        """Return whether an action of this name below the call is recorded, and its record can be read."""
        replay = self._run.replay
        recorded = replay.outcome_of(self._action_id(name)) if replay.has_record else None
        return recorded is not None and has_record(recorded)

    def _proofs(self, action: Action) -> Proofs:
        return Proofs(self._run.ledger, self._run.redactor, action.id)


async def _no_provider() -> AgentContext:
    raise ContextUnavailableError("the application has no IAgentContextProvider any more")
