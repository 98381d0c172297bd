"""What belongs to a run besides its actions: open streams, children, what the model is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from pilotage.agent.context import ContextPack
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.signals import AgentSignal
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.actions.scope import Scope
from pilotage.runtime.gate.spending import Spending
from pilotage.values import value


class IOpenStream(Protocol):
    """A model's stream that is still being read."""

    @property
    def path(self) -> str:
        """The scope it was opened in."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether its reply is recorded."""
        ...

    async def drain(self) -> None:
        """Read it to its end and record the reply; whoever reads it gets the rest from memory."""
        ...


class IChildren(Protocol):
    """The runs that belong to this one."""

    async def run(self, name: str, agent: AgentRef, task: JsonObject) -> JsonValue:
        """Run a child to its end and give its output."""
        ...


class ISignalHandling(Protocol):
    """The methods of an agent that take in what is sent to its runs."""

    async def before(self, action_id: str) -> None:
        """Let handlers take in what waits for them, before an action begins."""
        ...

    async def handle(self, action_id: str, signals: Sequence[AgentSignal], *, is_new: bool) -> None:
        """Give signals to their handlers, one after the other; in replay as they were given."""
        ...

    async def at_end(self) -> None:
        """Let handlers take in what still waits for them when the program has ended."""
        ...


@value
class Shown:
    """A request as the model gets it, and its manifest as the record of the call shows it."""

    request: ModelRequest
    manifest: JsonObject | None = None


class IPrompts(Protocol):
    """Keeps what models are asked, where somebody wants it kept."""

    def keep(self, action_id: str, model: str, request: ModelRequest) -> None:
        """Keep a request that is about to be sent."""
        ...


class IWarnings(Protocol):
    """Tells the readers of a run that a budget comes to its end."""

    def look_at(self, spending: Spending) -> None:
        """Warn of the bounds that the run comes near to."""
        ...


@value
class Summary:
    """What a model says of earlier turns, and what asking it took."""

    text: str
    spent: BudgetAmount


class IContext(Protocol):
    """What the model gets to see of what a program wants to show it."""

    def concerns(self, request: ModelRequest, *, is_live: bool) -> bool:
        """Whether there is anything to do for a request; if not, the model sees it as it is.

        A request whose reply is recorded goes to no model.
        """
        ...

    def also_show(self, packs: Sequence[ContextPack]) -> None:
        """Show these with every request from here on, beside what the caller of the run gave it."""
        ...

    async def shown(
        self,
        scope: Scope,
        call_id: str,
        request: ModelRequest,
        summarise: Callable[[ModelRequest], Awaitable[Summary]],
    ) -> Shown:
        """The request as the model may see it; `summarise` asks the model itself."""
        ...
