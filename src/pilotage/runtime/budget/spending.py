"""The spending of a run and its limits: steps, tool calls, tokens, money.

Pure: no I/O and no clock, so replay counts to the same numbers. Amounts are reserved before an action begins, without
an await in between, so that concurrent branches cannot both take the last one; of a model call its worst case is held.
The spending of a run counts against its ancestors too, and the limits of all of them apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.ports.budget import BudgetAmount, BudgetExhausted, IAgentPricing, ModelCost
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.spec import AgentExecutionLimits, LimitCode
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.holds import LEAST_REPLY_TOKENS, BudgetHold, CallEstimate, Room
from pilotage.runtime.budget.limits import (
    FREE,
    NO_PRICES,
    Account,
    PaidReply,
    Prices,
    against_budget,
    against_not_knowing,
    against_room,
    against_step,
    against_tool_calls,
    believable,
    paid_replies,
    without_price,
)
from pilotage.runtime.effect import NOTHING, ONE_STEP, ONE_TOOL_CALL
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.journal.record_fields import object_or_empty, optional_object, text_field
from pilotage.runtime.journal.records import decode_costs, decode_usage, optional_amount

_amount, _usage = unchecked(BudgetAmount), unchecked(ModelUsage)

Costs: TypeAlias = Sequence[ModelCost | None] | None
"""The prices of a reply and of those before it; None for a reply without recorded ones."""

_NO_LIMITS = AgentExecutionLimits()
_NOTHING_BOUNDED: frozenset[str] = frozenset()
_NO_USAGE = no_usage()


class Spending:
    """The spending of one run, or of a part of it: counted in its own account and in those of its ancestors.

    All of them use the prices of the root run.
    """

    __slots__ = ("_parent", "_room", "accounts", "is_bounded", "is_metered", "own", "prices")

    def __init__(
        self,
        limits: AgentExecutionLimits = _NO_LIMITS,
        pricing: IAgentPricing | None = None,
        parent: Spending | None = None,
    ) -> None:
        self.own = own = Account(limits)
        """The account of this run, its children included."""
        self._parent = parent
        self._room: Room | None = None
        self.is_bounded: bool = own.is_bounded
        self.is_metered: bool = own.is_metered
        """Whether a limit of tokens or cost applies, so that model calls hold their worst case."""
        if parent is None:
            self.accounts: tuple[Account, ...] = (own,)
            self.prices: Prices = NO_PRICES if pricing is None else Prices(pricing)
        else:
            self.accounts, self.prices = (own, *parent.accounts), parent.prices
            self.is_bounded = own.is_bounded or parent.is_bounded
            self.is_metered = own.is_metered or parent.is_metered

    @property
    def room(self) -> Room:
        """The holds of the whole tree of runs; made when the first call holds its worst case."""
        if self._room is None:
            self._room = Room() if self._parent is None else self._parent.room
        return self._room

    @property
    def _counts_cost(self) -> bool:
        return any(account.limits.max_cost is not None for account in self.accounts)

    @property
    def spent(self) -> BudgetAmount:
        """Return the amount spent so far, children included."""
        account = self.own
        return _amount(account.steps, account.tool_calls, account.tokens, account.cost)

    @property
    def usage(self) -> ModelUsage:
        """Return the tokens used so far, as reported by the models."""
        account = self.own
        usage = _usage(account.input_tokens, account.output_tokens, account.tokens)
        if (details := account.details) is None:
            return usage
        return replace(
            details,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
        )

    @property
    def currency(self) -> str | None:
        """Return the currency of `spent.cost`; None while nothing had a price."""
        return self.prices.currency

    def worth_of(self, call: CallEstimate, reply_tokens: int) -> BudgetAmount | None:
        """Return the worst case of a call with its price, without holding it; None if it has no price."""
        return call.amount(reply_tokens, self.prices.of)

    def worst_case(self, hold: BudgetHold) -> tuple[BudgetAmount, ModelCost | None]:
        """Return the held amount with its price, also where no limit counts money; None for an unknown price."""
        pricing = self.prices.pricing
        worth = None if pricing is None else self.worth_of(hold.call, hold.reply_tokens)
        if worth is None:
            return hold.amount, None
        found = next(filter(None, (self.prices.found(name, hold.usage) for name in hold.call.models)), None)
        if found is None or found.currency != self.currency:
            return hold.amount, None
        return replace(hold.amount, cost=worth.cost), replace(found, amount=worth.cost)

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

    def refused_limit(self) -> LimitReached | None:
        """Return the limit of this run, or of an ancestor, that refused a call of a child."""
        refused = (account.refused for account in self.accounts)
        return next(filter(None, refused), None) or self.limit_for_model_call()

    def reserve_model_call(self) -> None:
        """Reserve one step before the model is called.

        Raises:
            LimitReached: a limit of this run or of an ancestor; nothing is reserved.
        """
        if self.is_bounded and (reached := self.limit_for_model_call()) is not None:
            raise reached
        for account in self.accounts:
            account.steps += 1

    def hold_model_call(self, call: CallEstimate, *, may_wait: bool = True) -> BudgetHold | None:
        """Reserve one step and hold the worst case of a call until it is settled; None if it must wait for others.

        The bound of the reply is reduced to the room that is left. A call that need not wait takes the room beside
        the holds of others.

        Raises:
            LimitReached: a limit of this run or of an ancestor has no room for the call; nothing is reserved.
        """
        if (reached := self.limit_for_model_call()) is not None:
            raise reached
        reply = self._largest_reply(call, beside_holds=not may_wait)
        amount = self._worst_case(call, reply)
        if may_wait and (not self._has_room(amount) or self._is_second_unproven(call)):
            return None
        hold = BudgetHold(call, reply, amount)
        for account in self.accounts:
            account.steps += 1
            account.held_tokens += amount.tokens
            account.held_cost += amount.cost
        self.room.holds[hold] = None
        return hold

    def _is_second_unproven(self, call: CallEstimate) -> bool:
        return not call.conduct.is_proven and self.room.has_unproven()

    def _has_room(self, amount: BudgetAmount, *, beside_holds: bool = True) -> bool:
        return all(account.has_room(amount, beside_holds=beside_holds) for account in self.accounts)

    def _worst_case(self, call: CallEstimate, reply: int) -> BudgetAmount:
        amount = call.amount(reply, self.prices.of if self._counts_cost else None)
        if amount is None:
            unpriced = (without_price(account, call.models) for account in self.accounts)
            raise next(filter(None, unpriced))
        return amount

    def _largest_reply(self, call: CallEstimate, *, beside_holds: bool) -> int:
        """Return the largest bound of the reply that the limits have room for, up to the bound of the call."""
        if self._has_room(self._worst_case(call, call.reply_tokens), beside_holds=beside_holds):
            return call.reply_tokens
        least = min(LEAST_REPLY_TOKENS, call.reply_tokens)
        needed = self._worst_case(call, least)
        missing = (against_room(account, needed, beside_holds=beside_holds) for account in self.accounts)
        if (reached := next(filter(None, missing), None)) is not None:
            raise reached
        most = call.reply_tokens
        while most - least > 1:
            middle = (least + most) // 2
            if self._has_room(self._worst_case(call, middle), beside_holds=beside_holds):
                least = middle
            else:
                most = middle
        return least

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
        self,
        model: str,
        usage: ModelUsage,
        hold: BudgetHold | None = None,
        paid: Sequence[PaidReply] = (),
        bounded: frozenset[str] = _NOTHING_BOUNDED,
        costs: Costs = None,
    ) -> BudgetAmount:
        """Count the actual amount of a call that held its worst case, and return it; the same for a replayed reply.

        `paid` are the replies of other models that this one replaced: each counts at its own price. `bounded` are the
        amounts that the application's budget bounds. `costs` are the prices of all of them, as they are recorded;
        without them the price list is asked.

        Exceeding a limit here does not end the run, because the reply exists: the next reservation is refused.

        Raises:
            LimitReached: tokens or cost are limited, and the amount of the call is unknown.
        """
        if usage is _NO_USAGE and not paid and not self.is_bounded and not bounded:
            return NOTHING
        counted = self._all_counted(model, usage, hold, paid, costs)
        if hold is not None and counted[0][1] is not None:
            hold.learn(believable(usage), counted[0][2] if self._counts_cost else None)
        if self.is_bounded or bounded:
            for name, tokens, cost in counted:
                self._check_known(name, tokens, cost, bounded)
        return _sum_of(counted)

    def _check_known(
        self, model: str, tokens: int | None, cost: Decimal | None, bounded: frozenset[str]
    ) -> None:
        unknown = [against_not_knowing(account, model, tokens, cost) for account in self.accounts]
        unknown.append(
            against_budget(bounded, [model], has_tokens=tokens is not None, has_cost=cost is not None)
        )
        if (reached := next(filter(None, unknown), None)) is not None:
            raise reached

    def costs_of(self, model: str, usage: ModelUsage, paid: Sequence[PaidReply] = ()) -> Costs:
        """Return the prices of a reply and of those before it, to be recorded; None without a price list."""
        prices = self.prices
        if prices.pricing is None:
            return None
        replies = ((model, usage), *((each.model, each.usage) for each in paid))
        return tuple(prices.found(name, believable(used)) for name, used in replies)

    def count_left(
        self,
        model: str,
        usage: ModelUsage,
        hold: BudgetHold | None = None,
        paid: Sequence[PaidReply] = (),
        costs: Costs = None,
    ) -> BudgetAmount:
        """Count the amount of a call that was left before its end, and return it.

        An unknown price does not raise here: the next complete reply raises for it.
        """
        return _sum_of(self._all_counted(model, usage, hold, paid, costs))

    def _all_counted(
        self,
        model: str,
        usage: ModelUsage,
        hold: BudgetHold | None,
        paid: Sequence[PaidReply],
        costs: Costs,
    ) -> list[tuple[str, int | None, Decimal | None]]:
        """Count a reply and those before it; return the name, the tokens and the price of each."""
        self.release(hold)
        if costs is None:
            costs = self.costs_of(model, usage, paid) or (None,) * (1 + len(paid))
        counted = [(model, *self._counted(usage, costs[0] if costs else None))]
        for place, each in enumerate(paid, start=1):
            counted.append(
                (each.model, *self._counted(each.usage, costs[place] if place < len(costs) else None))
            )
        return counted

    def _counted(self, usage: ModelUsage, found: ModelCost | None) -> tuple[int | None, Decimal | None]:
        usage = believable(usage)
        if usage is _NO_USAGE or usage == _NO_USAGE:
            return None, None
        tokens, cost = usage.total_tokens, self.prices.counted(found)
        for account in self.accounts:
            account.add_tokens(tokens or 0, cost or FREE, usage)
        return tokens, cost

    def release(self, hold: BudgetHold | None) -> None:
        """Release the held amount of a call that took nothing, once; its step stays counted."""
        if hold is None or not hold.is_open:
            return
        for account in self.accounts:
            account.held_tokens -= hold.amount.tokens
            account.held_cost -= hold.amount.cost
        self.room.leave(hold)

    def give_back(self, counted: BudgetAmount, hold: BudgetHold | None = None) -> None:
        """Undo the counting and the hold of a call that never began."""
        for account in self.accounts:
            account.steps -= counted.steps
            account.tool_calls -= counted.tool_calls
        self.release(hold)

    def absorb(self, amount: BudgetAmount, usage: ModelUsage = _NO_USAGE) -> None:
        """Count a recorded amount without checking limits: it was allowed when the action was done."""
        has_tokens = amount.tokens or amount.cost or usage is not _NO_USAGE
        for account in self.accounts:
            account.steps += amount.steps
            account.tool_calls += amount.tool_calls
            if has_tokens:
                account.add_tokens(amount.tokens, amount.cost, usage)


def child_limits(own: AgentExecutionLimits, packet: DelegationBudget) -> AgentExecutionLimits:
    """Return the limits of a delegated run: its agent's, reduced to the packet's. Its ancestors' apply as well."""
    cut = DelegationBudget(max_steps=own.max_steps, max_tokens=own.max_tokens).capped_by(packet)
    return replace(own, max_steps=cut.max_steps, max_tokens=cut.max_tokens)


def budget_exhausted(verdict: BudgetExhausted) -> LimitReached:
    """Return the interruption of a run after the application's own budget refused a step."""
    return LimitReached(LimitCode.BUDGET, verdict.limit, verdict.reason)


def _sum_of(counted: Iterable[tuple[str, int | None, Decimal | None]]) -> BudgetAmount:
    tokens, money = 0, FREE
    for _, used, cost in counted:
        tokens, money = tokens + (used or 0), money + (cost or FREE)
    return BudgetAmount(tokens=tokens, cost=money) if tokens or money else NOTHING


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
    whole = reply if isinstance(reply, dict) else None
    usage, costs = (
        decode_usage(optional_object(record if whole is None else whole, words.USAGE)),
        decode_costs(record),
    )
    if words.LEFT in record:
        spending.count_left(model, usage, paid=paid_replies(record, words.PAID), costs=costs)
    else:
        facts = object_or_empty((whole or {}).get(words.METADATA))
        spending.settle_model_call(model, usage, paid=paid_replies(facts), costs=costs)
