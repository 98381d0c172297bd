"""The spending of a run and its limits: steps, tool calls, tokens, money.

Pure: no I/O and no clock, so replay counts to the same numbers. Amounts are reserved before an action begins, without
an await in between, so that concurrent branches cannot both take the last one. The spending of a run counts against
its ancestors too, and the limits of all of them apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.ports.budget import BudgetAmount, BudgetExhausted, IAgentPricing
from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.spec import AgentExecutionLimits, LimitCode
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.limits import (
    FREE,
    NO_PRICES,
    Account,
    Prices,
    against_not_knowing,
    against_step,
    against_tool_calls,
)
from pilotage.runtime.effect import NOTHING, ONE_STEP, ONE_TOOL_CALL
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.journal.record_fields import object_or_empty, optional_object, text_field
from pilotage.runtime.journal.records import decode_usage, optional_amount

_amount = unchecked(BudgetAmount)

_NO_LIMITS = AgentExecutionLimits()
_NO_USAGE = no_usage()


class Spending:
    """The spending of one run, or of a part of it: counted in its own account and in those of its ancestors.

    All of them use the prices of the root run.
    """

    __slots__ = ("accounts", "is_bounded", "own", "prices")

    def __init__(
        self,
        limits: AgentExecutionLimits = _NO_LIMITS,
        pricing: IAgentPricing | None = None,
        parent: Spending | None = None,
    ) -> None:
        self.own = Account(limits)
        """The account of this run, its children included."""
        self.accounts: tuple[Account, ...] = (self.own, *(parent.accounts if parent is not None else ()))
        prices = NO_PRICES if pricing is None else Prices(pricing)
        self.prices: Prices = prices if parent is None else parent.prices
        self.is_bounded: bool = self.own.is_bounded or (parent is not None and parent.is_bounded)

    @property
    def spent(self) -> BudgetAmount:
        """Return the amount spent so far, children included."""
        account = self.own
        return _amount(account.steps, account.tool_calls, account.tokens, account.cost)

    @property
    def usage(self) -> ModelUsage:
        """Return the tokens used so far, as reported by the models."""
        return ModelUsage(self.own.input_tokens, self.own.output_tokens, self.own.tokens)

    @property
    def currency(self) -> str | None:
        """Return the currency of `spent.cost`; None while nothing had a price."""
        return self.prices.currency

    def worth_of(self, model: str, expected: ModelUsage) -> BudgetAmount:
        """Return the expected tokens with their price, without counting them."""
        tokens = _tokens_of(expected)
        return BudgetAmount(tokens=tokens or 0, cost=self.prices.of(model, expected) or FREE)

    def branch(self) -> Spending:
        """Return the spending of a part of this run: it counts here too, and its own `spent` is that of the part."""
        return Spending(parent=self)

    def limit_for_model_call(self) -> LimitReached | None:
        """Return the limit that refuses one more model call, without reserving the call."""
        if not self.is_bounded:
            return None
        against = (against_step(account, self.prices) for account in self.accounts)
        return next(filter(None, against), None)

    def limit_for_tool_calls(self, count: int = 1) -> LimitReached | None:
        """Return the limit that refuses `count` more tool calls, without reserving them."""
        if not self.is_bounded:
            return None
        against = (against_tool_calls(account, count) for account in self.accounts)
        return next(filter(None, against), None)

    def reserve_model_call(self, model: str = "", expected: ModelUsage = _NO_USAGE) -> BudgetAmount:
        """Reserve one step before the model is called; return the reservation for `settle_model_call`.

        The expected tokens and their price are reserved until then, so that concurrent calls see each other's.

        Raises:
            LimitReached: a limit of this run or of an ancestor; nothing is reserved.
        """
        if self.is_bounded and (reached := self.limit_for_model_call()) is not None:
            raise reached
        for account in self.accounts:
            account.steps += 1
        return self._hold(model, expected) if self.is_bounded else NOTHING

    def reserve_tool_calls(self, count: int = 1) -> None:
        """Reserve `count` tool calls, all or none, before the first of them begins.

        Raises:
            LimitReached: a limit of this run or of an ancestor; nothing is reserved.
        """
        if self.is_bounded and (reached := self.limit_for_tool_calls(count)) is not None:
            raise reached
        for account in self.accounts:
            account.tool_calls += count

    def settle_model_call(
        self, model: str, usage: ModelUsage, reserved: BudgetAmount = NOTHING
    ) -> BudgetAmount:
        """Count the actual amount of a reserved call and return it; the same for a replayed reply.

        Exceeding a limit here does not end the run, because the reply exists: the next reservation is refused.

        Raises:
            LimitReached: tokens or cost are limited, and the amount of the call is unknown.
        """
        if usage is _NO_USAGE and not self.is_bounded:
            return NOTHING
        tokens, cost = self._counted(model, usage, reserved)
        used = BudgetAmount(tokens=tokens or 0, cost=cost or FREE) if tokens or cost else NOTHING
        if not self.is_bounded:
            return used
        unknown = (against_not_knowing(account, model, tokens, cost) for account in self.accounts)
        if (reached := next(filter(None, unknown), None)) is not None:
            raise reached
        return used

    def count_left(self, model: str, usage: ModelUsage, reserved: BudgetAmount = NOTHING) -> BudgetAmount:
        """Count the amount of a reserved call that was left before its end, and return it.

        An unknown price does not raise here: the next complete reply raises for it.
        """
        tokens, cost = self._counted(model, usage, reserved)
        return BudgetAmount(tokens=tokens or 0, cost=cost or FREE)

    def _counted(
        self, model: str, usage: ModelUsage, reserved: BudgetAmount
    ) -> tuple[int | None, Decimal | None]:
        if reserved is not NOTHING:
            self.release(reserved)
        if usage is _NO_USAGE or usage == _NO_USAGE:
            return None, None
        tokens = _tokens_of(usage)
        cost = None if tokens is None else self.prices.of(model, usage)
        for account in self.accounts:
            account.add_tokens(tokens or 0, cost or FREE, usage)
        return tokens, cost

    def release(self, reserved: BudgetAmount) -> None:
        """Release the reserved amount of a call that failed; its step stays counted."""
        for account in self.accounts:
            account.held_tokens -= reserved.tokens
            account.held_cost -= reserved.cost

    def give_back(self, counted: BudgetAmount, reserved: BudgetAmount) -> None:
        """Undo the counting and the reservation of a call that never began."""
        for account in self.accounts:
            account.steps -= counted.steps
            account.tool_calls -= counted.tool_calls
        if reserved is not NOTHING:
            self.release(reserved)

    def absorb(self, amount: BudgetAmount, usage: ModelUsage = _NO_USAGE) -> None:
        """Count a recorded amount without checking limits: it was allowed when the action was done."""
        has_tokens = amount.tokens or amount.cost or usage is not _NO_USAGE
        for account in self.accounts:
            account.steps += amount.steps
            account.tool_calls += amount.tool_calls
            if has_tokens:
                account.add_tokens(amount.tokens, amount.cost, usage)

    def _hold(self, model: str, expected: ModelUsage) -> BudgetAmount:
        if _tokens_of(expected) is None:
            return NOTHING
        reserved = self.worth_of(model, expected)
        for account in self.accounts:
            account.held_tokens += reserved.tokens
            account.held_cost += reserved.cost
        return reserved


def child_limits(own: AgentExecutionLimits, packet: DelegationBudget) -> AgentExecutionLimits:
    """Return the limits of a delegated run: its agent's, reduced to the packet's. Its ancestors' apply as well."""
    cut = DelegationBudget(max_steps=own.max_steps, max_tokens=own.max_tokens).capped_by(packet)
    return replace(own, max_steps=cut.max_steps, max_tokens=cut.max_tokens)


def budget_exhausted(verdict: BudgetExhausted) -> LimitReached:
    """Return the interruption of a run after the application's own budget refused a step."""
    return LimitReached(LimitCode.BUDGET, verdict.limit, verdict.reason)


def _tokens_of(usage: ModelUsage) -> int | None:
    if usage.total_tokens is not None:
        return usage.total_tokens
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens + usage.output_tokens


def count_rows(rows: Iterable[JournalRow], spending: Spending) -> None:
    """Count the spending of actions from their rows; rows of folded branches add nothing to that of others."""
    for row in rows:
        if row.stage is JournalStage.AFTER and isinstance(row.record, dict):
            _count(row.kind, row.record, spending)


def _count(kind: AgentActionKind | None, record: JsonObject, spending: Spending) -> None:
    if kind is AgentActionKind.TOOL_CALL:
        spending.absorb(ONE_TOOL_CALL)
    elif kind is AgentActionKind.MODEL_CALL:
        spending.absorb(ONE_STEP)
        count_reply(record, spending)
    elif kind is AgentActionKind.DELEGATION:
        # The spending of the child run; a delegation that was never begun has no result.
        spending.absorb(optional_amount(object_or_empty(record.get(words.RESULT))) or NOTHING)
    elif kind is AgentActionKind.STEP:
        # The spending of the summaries of a condensed context.
        spending.absorb(optional_amount(record) or NOTHING)


def count_reply(record: JsonObject, spending: Spending) -> None:
    """Count the tokens of a recorded reply; if it failed or was left, those of the received part."""
    if words.MODEL not in record:
        return
    model, reply = text_field(record, words.MODEL), record.get(words.RESULT)
    usage = decode_usage(optional_object(reply if isinstance(reply, dict) else record, words.USAGE))
    if words.LEFT in record:
        spending.count_left(model, usage)
    else:
        spending.settle_model_call(model, usage)
