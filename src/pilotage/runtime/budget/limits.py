"""Accounts of runs: the usage that counts, the checks of limits, warnings before a limit is reached, deadlines.

A reported count that cannot be true counts as not reported: below zero, no whole number, or larger than any reply. The
tokens of a call are the larger of its total and of the sum of its parts.

A deadline is an absolute time and is stored; waiting for an answer extends it, unless
the agent's spec counts that time. The downtime of a process does not extend it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from pilotage.agent.delegation import DelegationBudget
from pilotage.agent.events import AgentEventAttribution, AgentEventKind, ArtifactEvent
from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.ports.budget import BudgetAmount, IAgentPricing, ModelCost
from pilotage.agent.spec import AgentExecutionLimits, AgentExecutionSpec, LimitCode
from pilotage.agent.tools.declare import OutsideRuns
from pilotage.agent.tools.metadata import TimeoutPolicy
from pilotage.jsonvalue import JsonObject, JsonValue, is_object, object_or_empty
from pilotage.runtime.events.event_log import LoggedEvent
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.journal.records import encode_usage
from pilotage.runtime.telemetry import RunTelemetry
from pilotage.values import value

MOST_TOKENS = 10**9
"""The largest count that a report of one call may have."""

_NO_USAGE = no_usage()
_COUNTS = (
    words.INPUT_TOKENS,
    words.OUTPUT_TOKENS,
    words.TOTAL_TOKENS,
    words.CACHED_TOKENS,
    words.CACHE_WRITTEN_TOKENS,
    words.REASONING_TOKENS,
)


@value
class PaidReply:
    """A reply that was paid for and did not reach the program: another model's reply replaced it."""

    model: str
    usage: ModelUsage


def believable(usage: object) -> ModelUsage:
    """Return a usage with the plausible counts; its total is the larger of total and sum."""
    if usage is _NO_USAGE or not isinstance(usage, ModelUsage):
        return _NO_USAGE
    read, written, total = _count(usage.input_tokens), _count(usage.output_tokens), _count(usage.total_tokens)
    if read is not None and written is not None:
        total = max(total or 0, read + written)
    elif total is not None:
        total = max(total, read or 0, written or 0)
    # True equals 1 and 2.0 equals 2: only the same objects are the same counts.
    is_same = read is usage.input_tokens and written is usage.output_tokens and total is usage.total_tokens
    # Asked in place: most replies have no details.
    if (
        usage.cached_tokens is not None
        or usage.reasoning_tokens is not None
        or usage.cache_written_tokens is not None
        or usage.other_tokens is not None
    ):
        return _believable_in_detail(usage, read, written, total)
    return usage if is_same else ModelUsage(read, written, total)


def _believable_in_detail(
    usage: ModelUsage, read: int | None, written: int | None, total: int | None
) -> ModelUsage:
    """Return a usage without the details that cannot be true: a part is never more than what it is a part of."""
    others: object = usage.other_tokens
    counted = {str(name): _count(each) for name, each in others.items()} if is_object(others) else {}
    cached, cached_anew = _part(usage.cached_tokens, read), _part(usage.cache_written_tokens, read)
    if read is not None and (cached or 0) + (cached_anew or 0) > read:
        # A price list takes both from the input: what is left would be negative.
        cached = cached_anew = None
    return ModelUsage(
        read,
        written,
        total,
        cached_tokens=cached,
        cache_written_tokens=cached_anew,
        reasoning_tokens=_part(usage.reasoning_tokens, written),
        other_tokens={name: each for name, each in counted.items() if each is not None} or None,
    )


def _part(reported: object, whole: int | None) -> int | None:
    count = _count(reported)
    return count if count is None or whole is None or count <= whole else None


def _count(reported: object) -> int | None:
    return reported if type(reported) is int and 0 <= reported <= MOST_TOKENS else None


def accounted(usage: ModelUsage) -> ModelUsage:
    """Return a believable usage for a price list: tokens that are in the total only are priced as output."""
    read, written, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if read is None or written is None or total is None or total == read + written:
        return usage
    return replace(usage, output_tokens=total - read)


def paid_replies(metadata: JsonObject, key: str = words.PASSED_OVER) -> tuple[PaidReply, ...]:
    """Return the replies that were paid for before the one with this metadata, as `FallbackModel` writes them."""
    if not metadata:
        return ()
    passed = metadata.get(key)
    if not isinstance(passed, list | tuple):
        return ()
    return tuple(paid for paid in map(_paid, passed) if paid is not None)


def encode_paid(replies: Iterable[PaidReply]) -> list[JsonValue]:
    """Return paid replies as JSON."""
    return [{words.MODEL: each.model, words.USAGE: encode_usage(each.usage)} for each in replies]


def _paid(entry: JsonValue) -> PaidReply | None:
    if not isinstance(entry, dict) or words.USAGE not in entry:
        return None
    model, usage = entry.get(words.MODEL), entry[words.USAGE]
    if not isinstance(model, str) or not isinstance(usage, dict):
        return None
    counts = {name: _count(usage.get(name)) for name in _COUNTS}
    others = object_or_empty(usage.get(words.OTHER_TOKENS))
    named = {name: each for name, each in others.items() if isinstance(each, int)}
    return PaidReply(model, believable(ModelUsage(**counts, other_tokens=named or None)))


_NO_BUDGET = DelegationBudget()


def deadline_at(
    start: datetime, spec: AgentExecutionSpec, packet: DelegationBudget = _NO_BUDGET
) -> datetime | None:
    """Return the deadline of a run that starts now, from its spec and the timeout of its delegation."""
    seconds = [each for each in (spec.effective_timeout_seconds, packet.timeout_seconds) if each is not None]
    try:
        return start + timedelta(seconds=min(seconds)) if seconds else None
    except OverflowError:
        return None  # a deadline after the last representable date never applies


def extended(
    deadline: datetime | None, paused_at: datetime, resumed_at: datetime, *, human_time_counts: bool
) -> datetime | None:
    """Return the deadline after a wait for an answer; a clock that went back does not shorten it."""
    if deadline is None or human_time_counts:
        return deadline
    return deadline + max(resumed_at - paused_at, timedelta())


def earliest(*deadlines: datetime | None) -> datetime | None:
    """Return the earliest deadline: of a child's, its parent's and its packet's, or of all questions of a run."""
    return min((each for each in deadlines if each is not None), default=None)


def remaining(deadline: datetime | None, now: datetime) -> float | None:
    """Return the seconds left, never below zero; None without a deadline."""
    return None if deadline is None else max((deadline - now).total_seconds(), 0.0)


def time_for_call(policy: TimeoutPolicy, deadline: datetime | None, now: datetime) -> float | None:
    """Return the seconds that one tool call may take; None if the run's deadline, if any, comes first.

    At its deadline the run ends with all its calls. A call that timed out at the same time would be an unknown outcome
    that cannot become a question any more.
    """
    left = remaining(deadline, now)
    if policy.seconds is None or (left is not None and left <= policy.seconds):
        return None
    return policy.seconds


def timed_out(deadline: datetime | None, now: datetime) -> LimitReached | None:
    """Return the interruption of a run after its deadline; None before it."""
    if deadline is None or now < deadline:
        return None
    words = (
        f"the deadline of the run, {deadline.isoformat()}, has passed. "
        "Raise AgentExecutionLimits.timeout_seconds, or give a smaller task."
    )
    return LimitReached(LimitCode.TIMEOUT, "timeout_seconds", words)


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
    """The application's prices. What is counted is in the currency of the first one: amounts of two cannot be added."""

    pricing: IAgentPricing | None
    currency: str | None = None

    def of(self, model: str, usage: ModelUsage) -> Decimal | None:
        """Return the price of a model's usage; None if it is unknown or in another currency."""
        return self.counted(self.found(model, usage))

    def found(self, model: str, usage: ModelUsage) -> ModelCost | None:
        """Return the price of a model's usage in the currency that it has; None if it is unknown."""
        if usage.total_tokens is None:
            return None
        found = self._asked(model, accounted(usage))
        return found if found is not None and _is_amount(found.amount) else None

    def counted(self, cost: ModelCost | None) -> Decimal | None:
        """Return the amount that counts: None for a price that is unknown, or in another currency than the first."""
        if cost is None:
            return None
        self.currency = self.currency or cost.currency
        return cost.amount if cost.currency == self.currency else None

    def _asked(self, model: str, usage: ModelUsage) -> ModelCost | None:
        if self.pricing is None:
            return None
        try:
            with OutsideRuns():
                return self.pricing.cost_of(model, usage)
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
        for warning in near_bounds(account):
            self.warn(warning)

    def warn(self, words: str) -> None:
        """Warn once."""
        if words in self._warned:
            return
        self._warned.add(words)
        warning_id = f"{self._by.run_id}:{BUDGET_WARNING}:{len(self._warned)}"
        self._events.write_now(ArtifactEvent(self._by, warning_id, words, BUDGET_WARNING))
        self._telemetry.count("agent.budget.warnings", agent=self._by.agent_id)
