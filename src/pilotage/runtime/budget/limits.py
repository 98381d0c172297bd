"""Accounts of runs, the checks of their limits, and warnings before a limit is reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from pilotage.agent.events import AgentEventAttribution, AgentEventKind, ArtifactEvent
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import IAgentPricing, ModelCost
from pilotage.agent.spec import AgentExecutionLimits, LimitCode
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.telemetry import RunTelemetry

FREE = Decimal(0)


@dataclass(slots=True)
class Account:
    """The limits of one run and the amounts counted against them; `held_*` amounts are for calls under way."""

    limits: AgentExecutionLimits
    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = FREE
    held_tokens: int = 0
    held_cost: Decimal = FREE

    @property
    def is_bounded(self) -> bool:
        """Return whether the account has any limit."""
        bounds = self.limits
        return (
            bounds.max_steps is not None
            or bounds.max_tool_calls is not None
            or bounds.max_tokens is not None
            or bounds.max_cost is not None
        )

    def add_tokens(self, tokens: int, cost: Decimal, usage: ModelUsage) -> None:
        """Add the tokens and cost of a reply."""
        self.tokens += tokens
        self.cost += cost
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0


@dataclass(slots=True)
class Prices:
    """The application's prices, in the currency of the first one: amounts of two currencies cannot be added."""

    pricing: IAgentPricing | None
    currency: str | None = None

    def of(self, model: str, usage: ModelUsage) -> Decimal | None:
        """Return the price of a model's usage; None if it is unknown or in another currency."""
        found = self._asked(model, usage)
        if found is None:
            return None
        self.currency = self.currency or found.currency
        return found.amount if found.currency == self.currency else None

    def _asked(self, model: str, usage: ModelUsage) -> ModelCost | None:
        try:
            return None if self.pricing is None else self.pricing.cost_of(model, usage)
        except Exception:  # noqa: BLE001 - an error of the price table is an unknown price
            return None


NO_PRICES = Prices(None)


def against_step(account: Account, prices: Prices) -> LimitReached | None:
    """Return the limit that refuses one more model call; None if there is none."""
    bounds = account.limits
    if bounds.max_steps is not None and account.steps >= bounds.max_steps:
        return _reached(LimitCode.MAX_STEPS, account, "max_steps", f"{account.steps} model calls were made")
    if bounds.max_tokens is not None and account.tokens + account.held_tokens >= bounds.max_tokens:
        happened = f"{account.tokens} tokens were used, {account.held_tokens} are held for calls under way"
        return _reached(LimitCode.MAX_TOKENS, account, "max_tokens", happened)
    if bounds.max_cost is not None and prices.pricing is None:
        return _reached(LimitCode.COST_UNAVAILABLE, account, "max_cost", "nothing provides IAgentPricing")
    if bounds.max_cost is not None and account.cost + account.held_cost >= bounds.max_cost:
        happened = f"{account.cost} was spent, {account.held_cost} is held for calls under way"
        return _reached(LimitCode.MAX_COST, account, "max_cost", happened)
    return None


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
    return LimitReached(code, limit, f"{bound} {end}: {happened}. {way_out}")


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
