"""Condensing the context of one model call: decided, carried out and recorded as an effect below that call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, assert_never

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.compaction import CompactionStrategy, NothingToDo, Rewrite, SummaryNeeded
from pilotage.agent.context import ContextHealthSignal, ContextTokenBudget
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount, ModelCost
from pilotage.context.assemble import Assembled, digest_evidence, manifest_evidence
from pilotage.context.compaction import ContextWindow, carry_out
from pilotage.context.health import compression, excess_of, health_signals
from pilotage.errors import ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.limits import PaidReply, encode_paid
from pilotage.runtime.budget.spending import Costs
from pilotage.runtime.context.evidence import Proofs, refused
from pilotage.runtime.effect import CONTEXT_CHANGE, NOTHING, ONE_STEP, Effect, Outcome
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import count_field, objects_field, optional_text
from pilotage.runtime.journal.records import encode_amount, encode_costs, optional_amount
from pilotage.runtime.journal.result_codec import decode_error
from pilotage.runtime.journal.scope import Action, StepScope
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

AIM = 0.75
"""The share of the budget that a condensed context fills: condensing a little with every call would cost more."""

Plan: TypeAlias = NothingToDo | Rewrite | SummaryNeeded


@value
class ModelSummary:
    """The summary of earlier turns by a model, the amount that it took, and the replies that were paid for it."""

    text: str
    spent: BudgetAmount
    paid: tuple[PaidReply, ...] = ()
    costs: Costs = None


class SummaryRefusedError(ModelCallError):
    """The admission did not let the model be asked for a summary."""


Summarise: TypeAlias = Callable[[ModelRequest], Awaitable[ModelSummary]]


@value
class Condensation:
    """The context of one request that has a budget. `beside` are the tokens besides the transcript."""

    request: ModelRequest
    assembled: Assembled
    window: ContextWindow
    beside: int
    budget: ContextTokenBudget

    @property
    def signals(self) -> Sequence[ContextHealthSignal]:
        """The health signals of the context."""
        tokens, manifest = self.window.shown.tokens + self.beside, self.assembled.manifest
        return health_signals(tokens, self.request.context, self.budget, manifest_ref=manifest.id)

    def plan(self, window: ContextWindow, strategy: CompactionStrategy) -> Plan:
        """Return the plan of a strategy for the context, seen through a window."""
        shown = window.shown
        excess = excess_of(shown.tokens + self.beside, self.budget, aim=AIM)
        return strategy.plan(shown.messages, excess=excess, estimator=shown.estimator)


class ContextChange(Effect):
    """Condensing the context of one request. The result is the window through which the model sees its transcript.

    `trust` is the label of everything the summary may have been made from.
    """

    kind = CONTEXT_CHANGE
    boundary = AgentApprovalBoundaryKind.CONTEXT_TRANSFORMATION

    def __init__(
        self,
        scope: StepScope,
        action: Action,
        condensation: Condensation,
        strategies: Sequence[CompactionStrategy],
        *,
        ledger: Ledger,
        redactor: Redactor,
        trust: TrustLabel,
        summarise: Summarise,
    ) -> None:
        super().__init__(scope, action)
        self._context = condensation
        self._strategies = strategies
        self._ledger = ledger
        self._redactor = redactor
        self._trust = trust
        self._summarise = summarise
        self._proofs = Proofs(ledger, redactor, action.id)
        self.decision = compression((), condensation.assembled.manifest)
        self.signals: Sequence[ContextHealthSignal] | None = None
        self.spent = NOTHING
        """The cost of summaries that this attempt has not counted yet: of a recorded change all of it."""

    async def act(self) -> object:
        window, steps, spent = self._context.window, list[JsonValue](), NOTHING
        paid, costs = list[PaidReply](), list[ModelCost | None]()
        self._proofs.add(manifest_evidence(self._context.assembled.manifest), "manifest")
        signals = self._context.signals if self.signals is None else self.signals
        for number, strategy in enumerate(self._strategies):
            summary: str | None = None
            plan = self._context.plan(window, strategy)
            if isinstance(plan, SummaryNeeded):
                reply = await self._summary(plan)
                spent, summary = spent + reply.spent, reply.text
                paid.extend(reply.paid)
                costs.extend(reply.costs or (None,) * len(reply.paid))
                if not summary.strip():
                    continue
            grown = self._carry_out(window, plan, summary, signals, number)
            if grown is not window:
                window = grown
                steps.append({words.STRATEGY: number, words.SUMMARY: summary})
        if not steps:
            self._proofs.add_action(self.decision, signals, "refused", refused("no strategy saves anything"))
        # Together with the row of the change: one that is interrupted by then is made anew, and proves the same again.
        self._proofs.record()
        record: dict[str, JsonValue] = {words.STEPS: steps}
        if spent != NOTHING:
            record[words.SPENT] = encode_amount(spent)
        if paid:
            record[words.PAID] = encode_paid(paid)
        if any(costs):
            record[words.COSTS] = encode_costs(costs)
        return Outcome(record, self._redactor.json(record), window)

    def reuse(self, record: JsonObject) -> object:
        """Condense as it was done when the call was made, without asking or recording anything.

        Raises:
            ToolError: a person rejected it.
        """
        if words.ERROR in record:
            raise decode_error(record, self.errors)
        window = self._context.window
        self.spent = optional_amount(record) or NOTHING
        for step in objects_field(record, words.STEPS):
            number, summary = count_field(step, words.STRATEGY), optional_text(step, words.SUMMARY)
            if number < len(self._strategies):
                plan = self._context.plan(window, self._strategies[number])
                window = self._carry_out(window, plan, summary, ())
        return window

    async def _summary(self, plan: SummaryNeeded) -> ModelSummary:
        """Return a summary; of a model that fails there is none, which leaves the context as it is."""
        try:
            return await self._summarise(plan.request())
        except SummaryRefusedError:
            return ModelSummary("", NOTHING)
        except ModelCallError:
            return ModelSummary("", ONE_STEP)

    def _carry_out(
        self,
        window: ContextWindow,
        plan: Plan,
        summary: str | None,
        signals: Sequence[ContextHealthSignal],
        number: int | None = None,
    ) -> ContextWindow:
        """Return the window after a plan; with a number, the change is recorded."""
        match plan:
            case NothingToDo():
                return window
            case SummaryNeeded():
                rewrite = plan.with_summary(summary or "-", trust=self._trust)
            case Rewrite():
                rewrite = plan
            case _:
                assert_never(plan)
        done = carry_out(
            rewrite,
            window.shown,
            action=self.decision,
            manifest=self._context.assembled.manifest,
            context_identity=self._ledger.run.run_id,
            signals=signals,
        )
        if done.tokens_saved <= 0:
            return window
        if number is not None:
            self._proofs.add(done.before, f"{number}-before")
            self._proofs.add(done.after, f"{number}-after")
            self._proofs.add(digest_evidence(done.digest), f"{number}-digest")
        return window.condensed(done)
