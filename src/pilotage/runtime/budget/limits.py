"""Accounts of runs, the checks of their limits, and warnings before a limit is reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pilotage.agent.events import AgentEventAttribution, AgentEventKind, ArtifactEvent
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import BudgetAmount, IAgentPricing, ModelCost
from pilotage.agent.spec import AgentExecutionLimits, LimitCode
from pilotage.runtime.budget.usage import accounted
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.telemetry import RunTelemetry

FREE = Decimal(0)


class Account:
    """The limits of one run and the amounts counted against them; `held_*` amounts are for calls under way."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = FREE
    held_tokens: int = 0
    held_cost: Decimal = FREE
    details: ModelUsage | None = None
    """The sum of the usages that had more counts than input, output and total."""
    refused: LimitReached | None = None
    """The limit for which the account refused a call: the room for it was missing."""

    def __init__(self, limits: AgentExecutionLimits) -> None:
        self.limits = limits
        self.is_metered: bool = limits.max_tokens is not None or limits.max_cost is not None
        """Whether it has a limit of tokens or cost: their amounts are held before they are spent."""
        self.is_bounded: bool = (
            self.is_metered or limits.max_steps is not None or limits.max_tool_calls is not None
        )
        """Whether it has any limit."""

    def has_room(self, amount: BudgetAmount, *, beside_holds: bool) -> bool:
        """Return whether an amount fits into the limits, beside the holds of calls under way or without them."""
        bounds, tokens, cost = self.limits, self.tokens + amount.tokens, self.cost + amount.cost
        if beside_holds:
            tokens, cost = tokens + self.held_tokens, cost + self.held_cost
        return (bounds.max_tokens is None or tokens <= bounds.max_tokens) and (
            bounds.max_cost is None or cost <= bounds.max_cost
        )

    def add_tokens(self, tokens: int, cost: Decimal, usage: ModelUsage) -> None:
        """Add the tokens and cost of a reply."""
        self.tokens += tokens
        self.cost += cost
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        # Asked in place: most replies have no details, and every one is counted here.
        if (
            usage.cached_tokens is not None
            or usage.reasoning_tokens is not None
            or usage.cache_written_tokens is not None
            or usage.other_tokens is not None
        ):
            self.details = usage if self.details is None else self.details.plus(usage)


@dataclass(slots=True)
class Prices:
    """The application's prices, in the currency of the first one: amounts of two currencies cannot be added."""

    pricing: IAgentPricing | None
    currency: str | None = None

    def of(self, model: str, usage: ModelUsage) -> Decimal | None:
        """Return the price of a model's usage; None if it is unknown or in another currency."""
        found = self._asked(model, accounted(usage))
        if found is None or not _is_amount(found.amount):
            return None
        self.currency = self.currency or found.currency
        return found.amount if found.currency == self.currency else None

    def _asked(self, model: str, usage: ModelUsage) -> ModelCost | None:
        try:
            return None if self.pricing is None else self.pricing.cost_of(model, usage)
        except Exception:  # noqa: BLE001 - an error of the price table is an unknown price
            return None


def _is_amount(price: object) -> bool:
    """Return whether a price is an amount of money: exact, finite, not below zero."""
    return isinstance(price, Decimal) and price.is_finite() and price >= 0


NO_PRICES = Prices(None)


def against_step(account: Account, prices: Prices) -> LimitReached | None:
    """Return the limit that refuses one more model call; None if there is none."""
    bounds = account.limits
    if bounds.max_steps is not None and account.steps >= bounds.max_steps:
        return _reached(LimitCode.MAX_STEPS, account, "max_steps", f"{account.steps} model calls were made")
    if bounds.max_tokens is not None and account.tokens >= bounds.max_tokens:
        return _reached(LimitCode.MAX_TOKENS, account, "max_tokens", f"{account.tokens} tokens were used")
    if bounds.max_cost is not None and prices.pricing is None:
        return _reached(LimitCode.COST_UNAVAILABLE, account, "max_cost", "nothing provides IAgentPricing")
    if bounds.max_cost is not None and account.cost >= bounds.max_cost:
        return _reached(LimitCode.MAX_COST, account, "max_cost", f"{account.cost} was spent")
    return None


def against_room(account: Account, needed: BudgetAmount, *, beside_holds: bool) -> LimitReached | None:
    """Return the limit without room for the least that a call needs; None if there is room."""
    if account.has_room(needed, beside_holds=beside_holds):
        return None
    bounds, held = account.limits, (account.held_tokens, account.held_cost) if beside_holds else (0, FREE)
    if bounds.max_tokens is not None and account.tokens + held[0] + needed.tokens > bounds.max_tokens:
        happened = (
            f"{account.tokens} tokens were used, {held[0]} are held, a call needs {needed.tokens} or more"
        )
        account.refused = _reached(LimitCode.MAX_TOKENS, account, "max_tokens", happened)
    else:
        happened = f"{account.cost} was spent, {held[1]} is held, a call needs {needed.cost} or more"
        account.refused = _reached(LimitCode.MAX_COST, account, "max_cost", happened)
    return account.refused


def without_price(account: Account, models: Sequence[str]) -> LimitReached | None:
    """Return the limit of cost that cannot be enforced for models without a price; None without such a limit."""
    if account.limits.max_cost is None:
        return None
    names = ", ".join(map(repr, models))
    happened = f"there is no price for {names}, or one in another currency than before"
    return _reached(LimitCode.COST_UNAVAILABLE, account, "max_cost", happened)


def against_tool_calls(account: Account, count: int) -> LimitReached | None:
    """Return the limit that refuses `count` more tool calls; None if there is none."""
    bound = account.limits.max_tool_calls
    if bound is None or account.tool_calls + count <= bound:
        return None
    happened = f"{account.tool_calls} tool calls were made, {count} more are wanted"
    return _reached(LimitCode.MAX_TOOL_CALLS, account, "max_tool_calls", happened)


def against_not_knowing(
    account: Account, model: str, tokens: int | None, cost: Decimal | None
) -> LimitReached | None:
    """Return the limit that cannot be enforced after a reply with unknown usage or price; None if there is none."""
    is_cost_bounded = account.limits.max_cost is not None
    if tokens is None and (is_cost_bounded or account.limits.max_tokens is not None):
        limit = "max_cost" if account.limits.max_tokens is None else "max_tokens"
        happened = f"the reply of {model!r} does not say how many tokens it took"
        return _reached(LimitCode.USAGE_UNAVAILABLE, account, limit, happened)
    if cost is None and is_cost_bounded:
        happened = f"there is no price for {model!r}, or one in another currency than before"
        return _reached(LimitCode.COST_UNAVAILABLE, account, "max_cost", happened)
    return None


def against_budget(
    bounded: frozenset[str], models: Sequence[str], *, has_tokens: bool, has_cost: bool
) -> LimitReached | None:
    """Return the bound of the application's budget that cannot be enforced; None if there is none."""
    names = ", ".join(map(repr, models))
    if bounded and not has_tokens:
        limit = "tokens" if "tokens" in bounded else "cost"
        words = (
            f"the budget bounds {limit}, and the reply of {names} does not say how many tokens it took. "
            "Use a model that reports its usage, or leave the bound out."
        )
        return LimitReached(LimitCode.USAGE_UNAVAILABLE, f"budget.{limit}", words)
    if "cost" in bounded and not has_cost:
        words = (
            f"the budget bounds cost, and there is no price for {names}, or one in another currency than before. "
            "Provide an IAgentPricing with the price, or leave the bound out."
        )
        return LimitReached(LimitCode.COST_UNAVAILABLE, "budget.cost", words)
    return None


def _reached(code: LimitCode, account: Account, limit: str, happened: str) -> LimitReached:
    bound = f"AgentExecutionLimits.{limit}={getattr(account.limits, limit)}"
    match code:
        case LimitCode.USAGE_UNAVAILABLE:
            end, way_out = "cannot be enforced", "Use a model that reports its usage, or leave the limit out."
        case LimitCode.COST_UNAVAILABLE:
            end, way_out = (
                "cannot be enforced",
                "Provide an IAgentPricing with the price, or leave the limit out.",
            )
        case _:
            end, way_out = "is reached", "Raise the limit, or give the agent a smaller task."
    return LimitReached(code, limit, f"{bound} {end}: {happened}. {way_out}", account)


WARN_AT = Decimal("0.8")
"""The share of a limit from which on subscribers are warned."""


def near_bounds(account: Account) -> Iterator[str]:
    """Yield a sentence for each limit that a run has nearly reached; it does not depend on the exact amount."""
    for name in ("steps", "tool_calls", "tokens", "cost"):
        bound: int | Decimal | None = getattr(account.limits, f"max_{name}")
        if bound is not None and getattr(account, name) >= bound * WARN_AT:
            yield f"the run has used {WARN_AT:.0%} or more of max_{name}={bound}".replace("%", " %", 1)


BUDGET_WARNING = "budget_warning"
"""The name of the warning's artifact."""

_ARTIFACT = AgentEventKind.ARTIFACT.value


class BudgetWarnings:
    """Warns the subscribers of one run; each warning is written once, over all attempts."""

    def __init__(
        self,
        events: EventWriter,
        telemetry: RunTelemetry,
        by: AgentEventAttribution,
        logged: Iterable[LoggedEvent],
    ) -> None:
        self._events = events
        self._telemetry = telemetry
        self._by = by
        artifacts = (item.event(by) for item in logged if item.kind == _ARTIFACT)
        self._warned = {
            str(event.content)
            for event in artifacts
            if isinstance(event, ArtifactEvent) and event.name == BUDGET_WARNING and event.attribution == by
        }

    def check(self, account: Account) -> None:
        """Warn of the limits that the run has nearly reached."""
        for words in near_bounds(account):
            self.warn(words)

    def warn(self, words: str) -> None:
        """Warn once."""
        if words in self._warned:
            return
        self._warned.add(words)
        warning_id = f"{self._by.run_id}:{BUDGET_WARNING}:{len(self._warned)}"
        self._events.write_now(ArtifactEvent(self._by, warning_id, words, BUDGET_WARNING))
        self._telemetry.count("agent.budget.warnings", agent=self._by.agent_id)
