"""How far a run may go: time, steps, tool calls, tokens, money; and the codes a run ends with when it got there."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum

from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


class LimitCode(StrEnum):
    """Why a run may not go on: a bound is reached, or cannot be kept because nobody can count."""

    MAX_STEPS = "agent_max_steps_exceeded"
    MAX_TOOL_CALLS = "agent_max_tool_calls_exceeded"
    MAX_TOKENS = "agent_max_tokens_exceeded"
    USAGE_UNAVAILABLE = "agent_usage_unavailable"
    MAX_COST = "agent_max_cost_exceeded"
    COST_UNAVAILABLE = "agent_cost_unavailable"
    TIMEOUT = "agent_timeout"
    BUDGET = "agent_budget_exhausted"


@value
class AgentExecutionLimits:
    """Upper bounds of one run, its children included. None means no bound.

    Steps are model calls. Steps and tool calls never exceed their bounds. What a model call takes is known
    behind it: a call may start while tokens and cost are below their bounds, and the one that crosses is the last.
    """

    timeout_seconds: float | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None

    def __post_init__(self) -> None:
        _reject_other_than(
            int, max_steps=self.max_steps, max_tool_calls=self.max_tool_calls, max_tokens=self.max_tokens
        )
        _reject_other_than(Decimal, max_cost=self.max_cost)
        reject_not_positive(
            self,
            timeout_seconds=self.timeout_seconds,
            max_steps=self.max_steps,
            max_tool_calls=self.max_tool_calls,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
        )


def _reject_other_than(kind: type, **fields: object) -> None:
    """A bound that is compared with exact counts must be exact itself."""
    for name, given in fields.items():
        if given is not None and not isinstance(given, kind):
            example = "Decimal('0.50')" if kind is Decimal else "10"
            raise AgentDefinitionError(
                f"AgentExecutionLimits.{name} is {given!r}. Use {kind.__name__}, such as {example}."
            )
