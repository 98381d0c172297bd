"""The input and the result of a run, and their types as type checkers read them from `execute`.

Answers of people are in neither: they travel as signals.

An agent with `execute(self, command: C) -> ...` takes a `C`, a JSON object or a `RunAgentInput`; its result has the
type that `execute` declares. An agent without `execute` takes text, and its output is not known to type checkers. The
overload for such agents takes every class, because no type expresses a missing `execute`. So a text for an `execute` of
another type is caught by an overload of its own, which gives `TextDoesNotFit`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, Never, Protocol, TypeAlias, TypeVar

from pilotage.agent.context import ContextDigest, ContextManifest, ContextPack
from pilotage.agent.messages import MediaPart, ModelMessage
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.model_request import ModelSelection, ModelToolSpec
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.signals import RejectionPolicy
from pilotage.agent.state import AgentState
from pilotage.agent.yields import AgentYield
from pilotage.checks import reject_blank
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.markdown import counted, fenced, summary
from pilotage.values import shared, value


@value
class AgentContext:
    """The context a caller hands to a run."""

    packs: Sequence[ContextPack] = ()
    manifest: ContextManifest | None = None
    digest: ContextDigest | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "packs", tuple(self.packs))


@value
class RunAgentInput:
    """The input of one run; `state_id` is the run's id.

    `deferred_tools` are offered to the model besides the agent's own, and carried out by the caller: the run waits for
    the results of calls. Only durable agents can wait so; an `execute()` gets them as `caller_tools()`. With
    `steering_input_required` the run waits for a steering instruction before it begins, and so before its first model
    call: only a run of an agent that accepts such signals can. `on_rejection` counts for this run instead of the one in
    the agent's spec.
    """

    state_id: str
    instruction: str
    conversation_id: str | None = None
    parent_run_id: str | None = None
    resume: bool = False
    message_history: Sequence[ModelMessage] = ()
    model_selection: ModelSelection | None = None
    context: AgentContext = field(default_factory=shared(AgentContext))
    metadata: JsonObject = field(default_factory=empty_object)
    attachments: Sequence[MediaPart] = ()
    steering_input_required: bool = False
    deferred_tools: Sequence[ModelToolSpec] = ()
    on_rejection: RejectionPolicy | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.deferred_tools, tuple):
            object.__setattr__(self, "deferred_tools", tuple(self.deferred_tools))
        if not isinstance(self.message_history, tuple):
            object.__setattr__(self, "message_history", tuple(self.message_history))
        if not isinstance(self.attachments, tuple):
            object.__setattr__(self, "attachments", tuple(self.attachments))
        reject_blank(self, state_id=self.state_id, instruction=self.instruction)
        if self.conversation_id is not None or self.parent_run_id is not None:
            reject_blank(self, conversation_id=self.conversation_id, parent_run_id=self.parent_run_id)

    @property
    def effective_conversation_id(self) -> str:
        """The conversation the run belongs to; a run without one is its own."""
        return self.conversation_id or self.state_id


@value
class RunResult:
    """The result of a run so far: its state, its output once there is one, its usage.

    `interruption_reason` says why it stopped short; `output` is then as far as it got. `error` is what the
    caller of a failed run gets; `artifacts` is what an architecture learned on the way. `cause` is the exception of a
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

    def _repr_markdown_(self) -> str:
        """Return how a notebook shows the result."""
        state, tokens = self.state, self.usage.total_tokens or 0
        took = (
            counted(self.turns, "turn"),
            counted(self.spent.tool_calls, "tool call"),
            counted(tokens, "token"),
        )
        why = self.interruption_reason or (state.reason if self.error is None else None)
        line = summary(state.status, (state.agent_type, *took, why))
        blocks = (self.error, self.output if self.output is not None else state.current_activity)
        return "\n\n".join([line, *(fenced(each) for each in blocks if each is not None)])

    @property
    def late_signals(self) -> tuple[str, ...]:
        """The ids of the signals that came too late: the run ended before it could take them in."""
        late = self.state.metadata.get("late_signals")
        return tuple(map(str, late)) if isinstance(late, list) else ()


In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)

AsJson: TypeAlias = Mapping[str, object] | RunAgentInput
"""The input that every agent takes besides its own type: the parameters as an object, or the input of a runner."""
AsText: TypeAlias = str | Mapping[str, object] | RunAgentInput | None

Asked: TypeAlias = (
    AsyncGenerator[AgentYield[Out_co], None]
    | Generator[AgentYield[Out_co], None, None]
    | Coroutine[Any, Any, Out_co]
)
"""The result of an `execute` that streams or is awaited."""


class Takes(Protocol[In_contra, Out_co]):
    """An agent whose `execute` takes one value, and streams or is awaited."""

    def execute(self, given: In_contra, /) -> Asked[Out_co]: ...


class TakesNothing(Protocol[Out_co]):
    """An agent whose `execute` takes nothing, and streams or is awaited."""

    def execute(self) -> Asked[Out_co]: ...


class Computes(Protocol[In_contra, Out_co]):
    """An agent whose `execute` takes one value and returns."""

    def execute(self, given: In_contra, /) -> Out_co: ...


class TakesOther(Protocol):
    """An agent whose `execute` takes one value, of whatever type."""

    def execute(self, given: Never, /) -> object: ...


class ComputesAlone(Protocol[Out_co]):
    """An agent whose `execute` takes nothing and returns."""

    def execute(self) -> Out_co: ...


class TextDoesNotFit:
    """The type of a run where a text is given to an agent whose `execute` takes another type.

    It has no members, so every use of the run or its result is an error for them. When it is made, such a call raises
    `AgentDefinitionError`.
    """


class TypedResult(RunResult, Generic[Out]):
    """A `RunResult` as type checkers see it where they know the agent: `output` has the declared type.

    A run without an answer has None there, as every `RunResult`; its status says so.
    """

    output: Out
