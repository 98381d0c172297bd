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
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from pilotage.agent.events import AgentEvent
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.audit import IAgentAuditLog
from pilotage.agent.ports.budget import IAgentBudget
from pilotage.agent.ports.hooks import IAgentHooks
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.agent.ports.permissions import IAgentPermissions
from pilotage.agent.ports.telemetry import IAgentTelemetry
from pilotage.agent.principal import RunContext
from pilotage.agent.tools.catalog import AgentToolCatalog
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue

T = TypeVar("T")
AgentRef: TypeAlias = type[object] | str


def _no_messages() -> list[ModelMessage]:
    return []


def _no_facts() -> dict[str, JsonValue]:
    return {}


@dataclass(slots=True)
class AgentSession:
    """What an architecture learns while it works: private to its scope, rebuilt by replay."""

    id: str
    instructions: str
    messages: list[ModelMessage] = field(default_factory=_no_messages)
    turns: int = 0
    output: object = ""
    cumulative_usage: ModelUsage = field(default_factory=ModelUsage)
    interrupted: bool = False
    interruption_reason: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=_no_facts)


class FailurePolicy(StrEnum):
    """What a failing branch means for the others of a `gather`."""

    FAIL_FAST = "fail_fast"
    COLLECT = "collect"
    QUORUM = "quorum"
    FIRST = "first"


class IScopedModel(ABC):
    """The agent's model inside a scope: every call is a recorded action."""

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        """The reply as it is produced."""

    @abstractmethod
    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The whole reply."""

    @abstractmethod
    async def structured(self, output_type: type[T], prompt: str | Sequence[ModelMessage]) -> T:
        """A reply forced into a type, with one turn to repair it."""


class IScopedTools(ABC):
    """The agent's tools inside a scope: every call passes the one gate."""

    @property
    @abstractmethod
    def catalog(self) -> AgentToolCatalog:
        """The tools on offer."""

    @abstractmethod
    async def call(self, call: ModelToolCall) -> JsonValue:
        """Call one tool."""

    @abstractmethod
    async def call_all(self, calls: Sequence[ModelToolCall]) -> Sequence[JsonValue]:
        """Call several: the read-only ones concurrently, the others one by one; results in their order."""


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
    ) -> Sequence[T]:
        """Run branches side by side; results in branch order."""

    @abstractmethod
    async def loop(self, label: str, state: T, turn: Callable[[T], Awaitable[T | None]]) -> T:
        """Repeat a turn, state to state, until it gives None; finished turns are folded."""

    @abstractmethod
    async def spawn_child(self, name: str, agent: AgentRef, task: JsonObject) -> JsonValue:
        """Run another agent as a child and return its result."""

    @abstractmethod
    async def now(self) -> datetime:
        """The recorded time."""

    @abstractmethod
    async def uid(self) -> str:
        """A recorded new id."""


class Dependencies(ABC):
    """Everything an architecture may use, bound to one scope; the only way to effects.

    The `fast_*` facts are true where a stage is the exact built-in no-op and was left out of the pipeline.
    """

    model: IScopedModel
    tools: IScopedTools
    runtime: IScopedRuntime
    memory: IAgentMemory | None
    budget: IAgentBudget
    permissions: IAgentPermissions
    hooks: Sequence[IAgentHooks]
    telemetry: IAgentTelemetry
    audit_log: IAgentAuditLog | None
    context: RunContext
    max_turns: int
    streaming: bool
    fast_audit: bool
    fast_telemetry: bool
    fast_permissions: bool
    fast_hooks: bool
    fast_runtime: bool
    fast_budget: bool

    @abstractmethod
    def fresh_session(self, instructions: str | None = None) -> AgentSession:
        """A new session in this scope."""

    @abstractmethod
    def scope_for_worker(self, name: str) -> Dependencies:
        """The same dependencies in a scope of their own below this one."""

    @abstractmethod
    def with_extra_tools(self, catalog: AgentToolCatalog) -> Dependencies:
        """The same dependencies with more tools on offer."""

    @abstractmethod
    def progress(self, step: str, **facts: JsonValue) -> AgentEvent:
        """An event that tells how far the architecture is."""


@runtime_checkable
class Architecture(Protocol):
    """A loop strategy. `version` is part of a run's fingerprint."""

    name: str
    version: int

    def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        """Drive the agent; what happens in between run start and run end is yielded."""
        ...

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """The agents this architecture hands work to; wrappers include their base's."""
        ...
