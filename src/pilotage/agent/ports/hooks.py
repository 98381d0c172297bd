"""The hook port: callbacks that observe, and may veto before something happens.

A hook never changes what is done. One that raises or hangs vetoes: the framework fails closed.
"""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.principal import RunContext
from pilotage.agent.state import AgentState
from pilotage.checks import reject_blank
from pilotage.jsonvalue import JsonValue
from pilotage.values import value


@value
class Proceed:
    """Nothing against it."""


@value
class Veto:
    """It must not happen; the reason goes into the record."""

    reason: str

    def __post_init__(self) -> None:
        reject_blank(self, reason=self.reason)


HookVerdict: TypeAlias = Proceed | Veto


class IAgentHooks:
    """Callbacks around run, model call and tool call. Override what you need; the rest proceeds.

    All values are guarded: a hook sees what evidence would show.
    """

    async def pre_run(self, context: RunContext, state: AgentState) -> HookVerdict:
        """Before a run starts or comes back."""
        return Proceed()

    async def post_run(self, context: RunContext, state: AgentState) -> None:
        """After a run ended or paused."""

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        """Before a request goes to the model."""
        return Proceed()

    async def post_model(self, context: RunContext, response: ModelResponse) -> None:
        """After the model replied."""

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        """Before a tool runs."""
        return Proceed()

    async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
        """After a tool returned."""
