"""The architecture port: the loop of an agent as plain control flow over `Dependencies`.

An architecture holds no persistence, no permission check and no try/except around effects: the runtime makes
whatever it does durable, streaming, pausable and cancellable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from pilotage.agent.events import AgentEvent, AgentEventAttribution
from pilotage.agent.messages import (
    ContentPart,
    ModelMessage,
    ModelMessageRole,
    ModelToolCall,
    new_message,
)
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_request import ModelRequest, ModelToolSpec, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.budget import IAgentBudget
from pilotage.agent.ports.handlers import IAgentHooks
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.agent.ports.observability import IAgentAuditLog, IAgentTelemetry
from pilotage.agent.ports.permissions import IAgentPermissions
from pilotage.agent.principal import RunContext
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue
from pilotage.safety.trust import TrustLabel
from pilotage.values import shared, value

T = TypeVar("T")
AgentRef: TypeAlias = type[object] | str

_TOOL = ModelMessageRole.TOOL


def _no_messages() -> list[ModelMessage]:
    return []


def _no_facts() -> dict[str, JsonValue]:
    return {}


@dataclass(slots=True)
class AgentSession:
    """The working state of an architecture: private to its scope, rebuilt by replay."""

    id: str
    instructions: str
    messages: list[ModelMessage] = field(default_factory=_no_messages)
    turns: int = 0
    output: object = ""
    cumulative_usage: ModelUsage = field(default_factory=shared(ModelUsage))
    interrupted: bool = False
    interruption_reason: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=_no_facts)


class FailurePolicy(StrEnum):
    """The effect of a failing branch on the others of a `gather`."""

    FAIL_FAST = "fail_fast"
    COLLECT = "collect"
    QUORUM = "quorum"
    FIRST = "first"


@value
class BranchFailure:
    """The failure of a branch of a `gather`."""

    branch: int
    error: str


class IScopedModel(ABC):
    """The agent's model inside a scope: every call is a recorded action."""

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        """Yield the reply as it is produced."""

    @abstractmethod
    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply."""

    @abstractmethod
    async def structured(self, output_type: type[T], prompt: str | Sequence[ModelMessage]) -> T:
        """Return a reply forced into a type, with one turn to repair it."""


@value
class ToolCallOutcome:
    """The outcome of a tool call: the result as the model may see it, or the text of its error.

    A control call may end the loop that made it (`ends`): its result is the answer then. One that cannot be followed
    as it stands is answered with an error and does not count as a failing tool (`is_wrong_control`).
    """

    call: ModelToolCall
    result: JsonValue = None
    error: str | None = None
    ends: bool = False
    is_wrong_control: bool = False
    content: Sequence[ContentPart] = ()
    """The result as its parts, where it has media."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed, refused its arguments or does not exist."""
        return self.error is not None

    @property
    def message(self) -> ModelMessage:
        """The message that shows the outcome to the model."""
        answered, shown = self.call.call_id or self.call.name, self.result
        if self.error is None and type(shown) is str and answered.strip():
            return new_message(_TOOL, shown, {}, (), answered, name=self.call.name)
        given = (self.content or shown) if self.error is None else {"error": self.error}
        return ModelMessage.tool(answered, given, name=self.call.name, is_error=self.error is not None)


class IScopedTools(ABC):
    """The agent's tools inside a scope: every call passes the one gate."""

    @property
    @abstractmethod
    def calling(self) -> ToolCallingSpec | None:
        """The tools on offer as a request shows them to the model; None where there are none."""

    @abstractmethod
    async def call(self, call: ModelToolCall) -> ToolCallOutcome:
        """Call one tool. A tool that fails, does not exist or cannot be bound is an outcome, not an exception."""

    @abstractmethod
    async def call_all(
        self, calls: Sequence[ModelToolCall], *, limit: int | None = None
    ) -> Sequence[ToolCallOutcome]:
        """Call several: the read-only ones concurrently, the others one by one; outcomes in their order.

        `limit` is how many run at once; None for all of them.
        """


@value
class FoldedTurn:
    """A turn that is not made again: the reply of the model, and the outcomes of the calls that it asked for."""

    reply: ModelResponse
    message_id: str
    outcomes: Callable[[Sequence[ModelToolCall]], Sequence[ToolCallOutcome]]


class LoopTurns:
    """The turns of one loop. A loop that enters it, and reports its turns, is not lived through again from the top.

    A turn is one reply of the model and the calls it asks for. A loop takes a folded turn as it took it when it was
    made, and yields no events of it.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching the turns of the loop."""

    def folded(self) -> FoldedTurn | None:
        """Begin the next turn; return it if it is folded, None if it is to be made."""
        return None

    def ended(self, calls: int) -> None:
        """Take in that the turn has ended, with the number of calls made in it, and that no call is under way."""


_NO_TURNS = LoopTurns()


class IScopedRuntime(ABC):
    """Durable building blocks. Ids come from the program's structure, never from timing."""

    @abstractmethod
    async def step(
        self,
        name: str,
        act: Callable[[], Awaitable[T]],
        *,
        idempotency: Idempotency = Idempotency.UNKNOWN,
    ) -> T:
        """Do something named once; replay returns what it returned."""

    @abstractmethod
    async def gather(
        self,
        label: str,
        branches: Sequence[Callable[[], Awaitable[T]]],
        *,
        limit: int | None = None,
        policy: FailurePolicy = FailurePolicy.FAIL_FAST,
        quorum: int | None = None,
    ) -> Sequence[T]:
        """Run branches side by side; results in branch order.

        FAIL_FAST raises the first failure (in branch order); COLLECT puts a `BranchFailure` where a branch failed;
        QUORUM leaves failures out and needs `quorum` successes; FIRST gives the first success alone.
        """

    @abstractmethod
    async def loop(self, label: str, state: T, turn: Callable[[T], Awaitable[T | None]]) -> T:
        """Repeat a turn, state to state, until it gives None; finished turns are folded.

        What a turn changes besides the state it returns is lost when the run comes back: replay starts after the
        last finished turn.
        """

    @abstractmethod
    async def spawn_child(
        self, name: str, agent: AgentRef, task: JsonValue, *, exits: Sequence[ModelToolSpec] = ()
    ) -> JsonValue:
        """Run another agent as a child and return its result.

        `exits` are control calls that end the child where its model makes one of them; `Exit.taken_in` reads them.
        """

    @abstractmethod
    async def now(self) -> datetime:
        """Return the recorded time."""

    @abstractmethod
    async def uid(self) -> str:
        """Return a recorded new id."""


class Dependencies(ABC):
    """Everything an architecture may use, bound to one scope; the only way to effects.

    `max_turns` is the bound of its model calls. `streaming` says whether a reader may get the events while the run is
    under way: they are sent in real time then. It is false where only the result is wanted, and a loop need not stream.

    The `fast_*` facts are true where a stage is the exact built-in no-op and was left out of the pipeline.
    """

    model: IScopedModel
    tools: IScopedTools
    runtime: IScopedRuntime
    attribution: AgentEventAttribution
    output: StructuredOutputSpec | None
    memory: IAgentMemory | None
    budget: IAgentBudget
    permissions: IAgentPermissions
    hooks: Sequence[IAgentHooks]
    telemetry: IAgentTelemetry
    audit_log: IAgentAuditLog | None
    context: RunContext
    max_turns: int
    streaming: bool

    @property
    def trust(self) -> TrustLabel:
        """The label of everything that the run knows by now."""
        return TrustLabel()

    @property
    @abstractmethod
    def fast_audit(self) -> bool:
        """Whether there is no audit log."""

    @property
    @abstractmethod
    def fast_telemetry(self) -> bool:
        """Whether there is no telemetry."""

    @property
    @abstractmethod
    def fast_permissions(self) -> bool:
        """Whether every principal may do everything."""

    @property
    @abstractmethod
    def fast_hooks(self) -> bool:
        """Whether there are no hooks."""

    @property
    @abstractmethod
    def fast_runtime(self) -> bool:
        """Whether the run is not kept."""

    @property
    @abstractmethod
    def fast_budget(self) -> bool:
        """Whether there is no budget of the application."""

    @abstractmethod
    def fresh_session(self, instructions: str | None = None) -> AgentSession:
        """Return a new session in this scope."""

    @abstractmethod
    def scope_for_worker(self, name: str) -> Dependencies:
        """Return the same dependencies in a scope of their own below this one."""

    @abstractmethod
    def with_extra_tools(self, tools: Sequence[Callable[..., object]]) -> Dependencies:
        """Return the same dependencies with more tools on offer: functions and bound methods marked `@agent_tool`."""

    @abstractmethod
    def with_tools(self, change: Callable[[IScopedTools], IScopedTools]) -> Dependencies:
        """Return the same dependencies with their tools changed: fewer of them, or control calls beside them."""

    @abstractmethod
    def with_output(self, output: StructuredOutputSpec | None) -> Dependencies:
        """Return the same dependencies for an answer of another type; None asks for text."""

    @abstractmethod
    async def tell(self, event: AgentEvent) -> None:
        """Emit an event of a part of the work, such as a branch, where `run` cannot yield it."""

    @abstractmethod
    def next_message_id(self) -> str:
        """Return the id of the next message of the model in this scope; a repeated call gets another one."""

    def ask(self, request: ModelRequest) -> tuple[str, AsyncIterator[ModelStreamEvent]]:
        """Ask the model; return the id of its message, and the stream of it. A reader that leaves early closes it.

        A tool call in the stream is for `tools.call`: unlike in `model.stream`, its event need not have the tools.
        """
        return self.next_message_id(), self.model.stream(request)

    def turns(self) -> LoopTurns:
        """Return the turns of a loop that calls this model and these tools, and begins now."""
        return _NO_TURNS

    @abstractmethod
    def progress(self, step: str, **facts: JsonValue) -> AgentEvent:
        """Return an event that reports the progress of the architecture."""


@runtime_checkable
class Architecture(Protocol):
    """A loop strategy. Its `name` is how specs and records call it."""

    name: str

    def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        """Drive the agent; what happens in between run start and run end is yielded."""
        ...


@runtime_checkable
class DelegatingArchitecture(Architecture, Protocol):
    """A loop strategy that delegates to other agents; one that works alone need not implement this."""

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the agents this architecture delegates to; wrappers include their base's."""
        ...


def workers_of(architecture: Architecture) -> Mapping[str, AgentRef]:
    """Return the agents that an architecture delegates to."""
    if isinstance(architecture, DelegatingArchitecture):
        return architecture.declared_workers()
    return {}
