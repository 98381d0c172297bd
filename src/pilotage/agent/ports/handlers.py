"""Handlers, hooks and guards: decisions, observations and vetoes of an application, and the context it provides.

A handler decides, and has a default in the runtime. Its decision is recorded, so replay never asks it again; one that
raises counts as the strictest answer. A hook observes, may veto before an action, and never changes the action; one
that raises, hangs or returns anything but `Proceed()` vetoes: the framework fails closed. The answers of context
providers and observers are recorded too; neither may call tools of the run, for they are no part of its program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest
from pilotage.agent.cancellation import AgentCancellationCleanupResult, AgentCancellationRequest
from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextPack,
)
from pilotage.agent.delegation import DelegationContextSlice, DelegationPacket
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentResumeBoundary
from pilotage.agent.recovery_request import RecoveryAnswer
from pilotage.agent.run_values import AgentContext, RunAgentInput
from pilotage.agent.state import AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.safety.links import neutralize_links
from pilotage.values import value


@value
class ApprovalSubject:
    """The action that a handler decides about: whether a person is asked first."""

    boundary: AgentApprovalBoundaryKind
    action_ref: str
    summary: str
    arguments: JsonObject = field(default_factory=empty_object)
    descriptor: AgentToolDescriptor | None = None


class IAgentApprovalHandler(ABC):
    """Decides for any kind of action whether a person is asked first."""

    policy_version: str | None = None
    """The version of the policy by which it decides; None for one that has none.

    An approval is bound to it: a question that was asked under another version is asked anew.
    """

    @abstractmethod
    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        """Return the question to ask, or None to go on without one."""


class IAgentContextHandler(ABC):
    """Decides what is done about unhealthy context, and what a child gets to see."""

    @abstractmethod
    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        """Return what to do about the signals; often nothing."""

    async def slice_for_child(
        self, packet: DelegationPacket, packs: Sequence[ContextPack]
    ) -> DelegationContextSlice:
        """Return the part of the parent's context for a delegated task; by default that of the packet."""
        return packet.context


class IAgentOutputGuard(ABC):
    """Looks at the whole output before it is published."""

    @abstractmethod
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        """Return the output as it may be published.

        Raises:
            AgentOutputGuardError: the output must not leave at all.
        """


@value
class AgentOutputGuardProfile:
    """Output guards for the agents whose spec names them: `AgentExecutionSpec(output_guard="the name of the pod")`.

    They check an answer in their order, after the guard of the application. No text of such an agent is streamed
    before all of them have let its answer pass.
    """

    guards: Sequence[IAgentOutputGuard]

    def __post_init__(self) -> None:
        object.__setattr__(self, "guards", tuple(self.guards))
        if not self.guards:
            raise AgentDefinitionError("AgentOutputGuardProfile has no guards. Give it at least one.")


class IAgentRecoveryHandler(ABC):
    """Decides about an action whose outcome is unknown, before a person is asked."""

    @abstractmethod
    async def decide(self, context: RunContext, boundary: AgentResumeBoundary) -> RecoveryAnswer | None:
        """Retry, done, fail or cancel; None asks a person."""


class IAgentToolHandler(ABC):
    """Takes the place of a tool's own call, for example to run it in another process."""

    @abstractmethod
    async def handle(
        self, context: RunContext, descriptor: AgentToolDescriptor, call: ModelToolCall
    ) -> JsonValue:
        """Return the result of the call.

        Raises:
            AgentToolDispatchError: this handler cannot carry out the call.
        """


class IAgentCancellationCleanup(ABC):
    """Looks after one thing that a cancelled run had begun: a tool call, a model stream, a delegation.

    All cleanups of a run are asked at once, about everything that was under way, under one deadline. One that raises
    or comes too late has failed, and the run then ends as FAILED. After a crash they are asked again: cleaning up
    twice must do no harm.
    """

    @abstractmethod
    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        """Return how it went; None where this cleanup has nothing to do with it."""


@value
class Proceed:
    """Nothing against it."""


@value
class Veto:
    """The verdict that the action must not happen; the reason goes into the record."""

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


class IAgentContextProvider(ABC):
    """Provides packs for the model steps of runs, such as what a search finds for their question.

    It is asked before the first model step of a run, before each with `refresh_context_each_step`, and when a context
    handler selects a retrieval refresh. The packs are labelled like those of a run's input: untrusted, unless they
    declare otherwise. A model step without its context is not made: where a provider raises or hangs, a durable run
    waits and asks again, any other run fails.
    """

    @abstractmethod
    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        """Return the context for a model step; the first step of a run, or of a branch of it, is 1."""


class IAgentContextObserver(ABC):
    """Reports what is wrong with the packs of a request, before the request is sent.

    The runtime itself sees packs that are stale, repeated or not used, and contexts that are too large. One that raises
    or hangs reports nothing.
    """

    @abstractmethod
    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        """Return the symptoms of the packs, which are guarded; none is the usual answer."""


class LinkGuard(IAgentOutputGuard):
    """Makes links and images in an answer plain text, unless they lead to one of the hosts.

    All texts of a structured answer are looked at. Text that is streamed leaves before any output guard has seen it:
    agents whose answers are rendered as Markdown use `StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED`.
    """

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self._hosts = frozenset(hosts)

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        shown = self._neutral(output)
        return output if shown == output else shown

    def _neutral(self, given: JsonValue) -> JsonValue:
        if isinstance(given, str):
            return neutralize_links(given, self._hosts)
        if isinstance(given, Mapping):
            return {name: self._neutral(each) for name, each in given.items()}
        if isinstance(given, list | tuple):
            return [self._neutral(each) for each in given]
        return given
