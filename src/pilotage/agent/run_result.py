"""What a run came to, for whoever started it."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.state import AgentState
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import shared, value


@value
class RunResult:
    """How a run stands: its state, its output once there is one, what it took.

    `interruption_reason` says why it stopped short; `output` is then as far as it got. `error` is what a failed run
    tells its callers; `artifacts` is what an architecture learned on the way. `cause` is the exception behind a
    failure, where the run failed in this process.
    """

    state: AgentState
    output: Any = None
    usage: ModelUsage = field(default_factory=shared(ModelUsage))
    turns: int = 0
    interruption_reason: str | None = None
    error: JsonObject | None = None
    artifacts: JsonObject = field(default_factory=empty_object)
    spent: BudgetAmount = field(default_factory=shared(BudgetAmount))
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def status(self) -> str:
        """The status of the run."""
        return self.state.status
