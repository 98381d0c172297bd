"""How far a run may go: time, steps, tool calls, tokens, money."""

from __future__ import annotations

from decimal import Decimal

from pilotage.checks import reject_not_positive
from pilotage.values import value


@value
class AgentExecutionLimits:
    """Upper bounds of one run, its children included. None means no bound."""

    timeout_seconds: float | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            timeout_seconds=self.timeout_seconds,
            max_steps=self.max_steps,
            max_tool_calls=self.max_tool_calls,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
        )
