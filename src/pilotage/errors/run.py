"""Errors that a run ends or pauses with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pilotage.errors.base import PilotageError


class RunError(PilotageError):
    """A run ends or pauses with this error in its stream; `retryable` says whether trying again may help."""

    message: ClassVar[str] = "The run failed."
    code: ClassVar[str] = "run_error"
    retryable: bool = False


class RunFailedError(RunError):
    """A run was called for its answer and has none: it failed, was cancelled, or waits for a person.

    `run_id` and `status` name the run and its state, `reason` is the code of the cause.
    """

    message: ClassVar[str] = "The run has no answer."
    code: ClassVar[str] = "run_failed"

    def __init__(self, *args: object, run_id: str = "", status: str = "", reason: str = "") -> None:
        super().__init__(*args)
        self.run_id = run_id
        self.status = status
        self.reason = reason


class ModelCallError(RunError):
    """A model call failed; whether trying again may help depends on the failure.

    `failure` is the kind of failure, if the model's adapter has one. Adapters raise classes of their own;
    a program in a run gets this one, live and in replay, and distinguishes failures by the kind.
    """

    message: ClassVar[str] = "The model call failed."
    code: ClassVar[str] = "model_call_error"

    def __init__(self, *args: object, retryable: bool = False, failure: str | None = None) -> None:
        super().__init__(*args)
        self.retryable = retryable
        self.failure = failure


class AgentToolBindingError(RunError):
    """The arguments a model sent do not fit the tool; `problems` names each of them."""

    message: ClassVar[str] = "The tool's arguments do not fit its signature."
    code: ClassVar[str] = "agent_tool_binding_error"

    def __init__(self, *args: object, problems: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.problems: tuple[str, ...] = tuple(problems)


class AgentToolDispatchError(RunError):
    """A tool call cannot be dispatched."""

    message: ClassVar[str] = "The tool call cannot be dispatched."
    code: ClassVar[str] = "agent_tool_dispatch_error"


class ToolError(RunError):
    """A tool failed for certain: what it should have done has not happened, and that is recorded.

    Raise it in a tool to report that: its message reaches the model, readers and the record. Any other exception of a
    tool that may not be repeated leaves the outcome unknown. For one that may, the program gets a `ToolError` with
    `error_type` and `error_id`, and with the message of the exception in `words` if a key seals the records of its
    run; the log has the message under the id, and models and readers get only type and id.
    """

    message: ClassVar[str] = "The tool failed."
    code: ClassVar[str] = "tool_error"
    error_type: str | None = None
    error_id: str | None = None
    words: str | None = None


class QuestionDeclinedError(ToolError):
    """A person declined to answer a question of the program."""

    message: ClassVar[str] = "A person declined to answer."
    code: ClassVar[str] = "question_declined"


class DelegationError(ToolError):
    """A child run ended without an answer, or with one that does not fit the schema of its packet.

    `partial_output` is its output by then, `problems` names each reason why an answer does not fit.
    """

    message: ClassVar[str] = "The child run gave no answer that can be used."
    code: ClassVar[str] = "delegation_failed"

    def __init__(self, *args: object, partial_output: object = None, problems: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.partial_output = partial_output
        self.problems: tuple[str, ...] = tuple(problems)


class StoppedShortError(DelegationError):
    """A worker, or the model in a decision, stopped before its answer.

    `reason` says why; it is the code of a run that ends with the error.
    """

    message: ClassVar[str] = "The work stopped short."
    code: ClassVar[str] = "stopped_short"

    def __init__(
        self, *args: object, reason: str = "agent_interrupted", partial_output: object = None
    ) -> None:
        super().__init__(*args, partial_output=partial_output)
        self.reason = reason


class AgentStructuredOutputError(RunError):
    """A model's answer is not of the type that was asked for; `problems` names each reason."""

    message: ClassVar[str] = "The model's answer is not of the type that was asked for."
    code: ClassVar[str] = "agent_structured_output_invalid"

    def __init__(self, *args: object, problems: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.problems: tuple[str, ...] = tuple(problems)


class AgentOutputGuardError(RunError):
    """The output guard failed, or found output that must not be shown."""

    message: ClassVar[str] = "The output guard failed."
    code: ClassVar[str] = "agent_output_guard_error"


class AgentRetrievalError(RunError):
    """Retrieving context failed."""

    message: ClassVar[str] = "Retrieving context failed."
    code: ClassVar[str] = "agent_retrieval_error"


class AgentMemoryError(RunError):
    """Remembering or recalling failed."""

    message: ClassVar[str] = "The agent's memory failed."
    code: ClassVar[str] = "agent_memory_error"
