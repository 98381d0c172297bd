"""Condensing the context of one model call: decided, carried out and recorded as an action below that call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, assert_never, cast

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.compaction.plan import CompactionStrategy, NothingToDo, Rewrite, SummaryNeeded
from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.context_health import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
)
from pilotage.agent.evidence import AgentEvidenceCandidate
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.context.assemble import Assembled
from pilotage.context.compaction import carry_out
from pilotage.context.evidence import digest_evidence, manifest_evidence
from pilotage.context.handler import compression
from pilotage.context.health import excess_of, health_signals
from pilotage.context.window import ContextWindow
from pilotage.errors import ModelCallError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.spending import NOTHING, ONE_STEP
from pilotage.runtime.door.run import Effects, Summary
from pilotage.runtime.effect import Attempt, Call
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.records import decode_amount, encode_amount
from pilotage.runtime.journal.scope import Scope

AIM = 0.75
"""How full a context is made that was too full: condensing a little with every call would cost more."""

Summarise: TypeAlias = Callable[[ModelRequest], Awaitable[Summary]]


class Condensing:
    """What is done about the context of one call, as an action below that call."""

    def __init__(
        self,
        effects: Effects,
        scope: Scope,
        call_id: str,
        request: ModelRequest,
        assembled: Assembled,
        beside: int,
        budget: ContextTokenBudget,
    ) -> None:
        self._beside = beside
        self._effects = effects
        self._scope = scope
        self._request = request
        self._assembled = assembled
        self._budget = budget
        kind, action_id = AgentActionKind.STEP, f"{call_id}/condensed"
        fingerprint = effects.fingerprint(action_id, kind, "condensed")
        self._action = Action(
            action_id, kind, "condensed", None, None, Idempotency.IDEMPOTENT, True, fingerprint
        )
        self._is_replayed = effects.recording.knows(call_id)

    async def condensed(
        self,
        window: ContextWindow,
        strategies: Sequence[CompactionStrategy],
        handler: IAgentContextHandler,
        summarise: Summarise,
    ) -> ContextWindow:
        """The window as the model is to see through it."""
        recorded = self._effects.recording.take(self._action)
        if recorded is not None:
            return self._redone(window, strategies, cast(JsonObject, recorded.row.record))
        if self._is_replayed:
            return window
        signals = self._signals(window)
        action = await self._decided(handler, signals)
        if action is None:
            return window
        return await self._done(window, strategies, action, signals, summarise)

    async def _decided(
        self, handler: IAgentContextHandler, signals: Sequence[ContextHealthSignal]
    ) -> ContextOptimizationAction | None:
        if not signals:
            return None
        try:
            actions = await handler.select_optimization_actions(signals, self._assembled.manifest)
        except Exception:  # noqa: BLE001 - a handler that cannot decide leaves the context as it is
            return None
        chosen = (each for each in actions if each.kind is ContextOptimizationActionKind.COMPRESSION)
        action = next(chosen, None)
        return action if action is not None and await self._is_allowed() else None

    async def _is_allowed(self) -> bool:
        boundary, effects = AgentApprovalBoundaryKind.CONTEXT_TRANSFORMATION, self._effects
        was_asked = effects.was_asked(self._action.id)
        asks = None if was_asked else await effects.gate.question(boundary, self._action)
        if asks is None and not was_asked:
            return True
        call = Call(self._scope, self._action, _never, lambda given: given, boundary=boundary)
        try:
            effects.waits.approved_arguments(call, 1, asks)
        except ToolError:
            return False
        return True

    async def _done(
        self,
        window: ContextWindow,
        strategies: Sequence[CompactionStrategy],
        action: ContextOptimizationAction,
        signals: Sequence[ContextHealthSignal],
        summarise: Summarise,
    ) -> ContextWindow:
        steps: list[JsonValue] = []
        spent = NOTHING
        self._prove(manifest_evidence(self._assembled.manifest), "manifest")
        for number, strategy in enumerate(strategies):
            summary: str | None = None
            plan = self._planned(window, strategy)
            if isinstance(plan, SummaryNeeded):
                said = await _summary(plan, summarise)
                spent, summary = spent + said.spent, said.text
                if not summary.strip():
                    continue
            grown = self._carried_out(window, plan, summary, action, signals, number)
            if grown is not window:
                window = grown
                steps.append({"strategy": number, "summary": summary})
        record: JsonObject = {"steps": steps, **({"spent": encode_amount(spent)} if spent != NOTHING else {})}
        view = self._effects.redactor.json(record)
        self._effects.ledger.append(self._action, JournalStage.AFTER, 1, record, view)
        return window

    def _redone(
        self, window: ContextWindow, strategies: Sequence[CompactionStrategy], record: JsonObject
    ) -> ContextWindow:
        """What was done when the call was made, without asking or recording anything; what it took counts again."""
        if "spent" in record:
            self._effects.spending.absorb(decode_amount(cast(JsonObject, record["spent"])))
        action = compression((), self._assembled.manifest)
        for step in cast("list[JsonObject]", record["steps"]):
            number = cast(int, step["strategy"])
            if number >= len(strategies):
                continue
            plan = self._planned(window, strategies[number])
            summary = cast("str | None", step["summary"])
            window = self._carried_out(window, plan, summary, action, (), None)
        return window

    def _carried_out(
        self,
        window: ContextWindow,
        plan: NothingToDo | Rewrite | SummaryNeeded,
        summary: str | None,
        action: ContextOptimizationAction,
        signals: Sequence[ContextHealthSignal],
        number: int | None,
    ) -> ContextWindow:
        """The window behind a plan; with a number, what it did is put on record."""
        match plan:
            case NothingToDo():
                return window
            case SummaryNeeded():
                rewrite = plan.with_summary(summary or "-", trust=self._effects.trust)
            case Rewrite():
                rewrite = plan
            case _:
                assert_never(plan)
        manifest, run_id = self._assembled.manifest, self._effects.ledger.run.run_id
        done = carry_out(
            rewrite,
            window.shown,
            action=action,
            manifest=manifest,
            context_identity=run_id,
            signals=signals,
        )
        if done.tokens_saved <= 0:
            return window
        if number is not None:
            self._prove(done.before, f"{number}-before")
            self._prove(done.after, f"{number}-after")
            self._prove(digest_evidence(done.digest), f"{number}-digest")
        return window.condensed(done)

    def _signals(self, window: ContextWindow) -> Sequence[ContextHealthSignal]:
        tokens = window.shown.tokens + self._beside
        manifest = self._assembled.manifest
        return health_signals(tokens, self._request.context, self._budget, manifest_ref=manifest.id)

    def _planned(
        self, window: ContextWindow, strategy: CompactionStrategy
    ) -> NothingToDo | Rewrite | SummaryNeeded:
        shown = window.shown
        excess = excess_of(shown.tokens + self._beside, self._budget, aim=AIM)
        return strategy.plan(shown.messages, excess=excess, estimator=shown.estimator)

    def _prove(self, evidence: AgentEvidenceCandidate, name: str) -> None:
        effects = self._effects
        run_id = effects.ledger.run.run_id
        effects.ledger.prove_by(
            evidence.to_evidence(evidence_id=f"{run_id}:{self._action.id}:{name}", agent_state_id=run_id)
        )


async def _summary(plan: SummaryNeeded, summarise: Summarise) -> Summary:
    """The words of a summary; of a model that fails there are none, which leaves the context as it is."""
    try:
        return await summarise(plan.request())
    except ModelCallError:
        return Summary("", ONE_STEP)


async def _never(_: Attempt) -> object:
    raise AssertionError("a context is condensed by its stage")
