"""The errors of Pilotage, in families by the party that must act.

PilotageError
├── StartupError                                the developer: fix the program, nothing has run yet
│   ├── PodDefinitionError                      one class or factory cannot be a pod
│   ├── AgentDefinitionError                    a value, tool or agent contradicts the contract
│   ├── PluginError                             a plugin or contribution cannot be loaded
│   └── ApplicationStartError                   everything that is wrong with one application, at once
│       └── AgentBootstrapError                 ... and it concerns the application's agents
│           ├── AgentPersistenceConfigurationError
│           └── AgentModelConfigurationError
├── RunError                                    the run ends or pauses with it; `retryable` or not
│   ├── RunFailedError
│   ├── RecordSealError                         (pilotage.agent.ports.sealing)
│   ├── DamagedRecordError                      (pilotage.runtime.journal.record_fields)
│   ├── ModelCallError
│   ├── AgentToolBindingError
│   ├── AgentToolDispatchError
│   ├── ToolError
│   │   └── DelegationError                     (a child run gave no answer that can be used)
│   │       └── StoppedShortError               (a worker or a decision ended without its answer)
│   ├── ToolTimeoutError                        (pilotage.runtime.door.tool_call)
│   ├── AgentStructuredOutputError
│   ├── AgentOutputGuardError
│   ├── AgentRetrievalError
│   └── AgentMemoryError
└── CallerError                                 the caller: asked for something that cannot be given
    ├── PodNotFoundError
    ├── ApplicationStateError
    ├── ContextNotActiveError
    ├── RunNotFoundError
    ├── RunConflictError
    ├── AnswerConflictError                     (the question has an answer already)
    ├── SteeringConflictError                   (the instruction was taken in, or has another revision)
    ├── RunErasedError
    ├── DamagedEntryError
    ├── SignalNotFoundError
    ├── EvidenceNotFoundError
    ├── ModelNotFoundError
    ├── MediaRefusedError
    │   ├── MediaTooLargeError
    │   └── MediaTypeRefusedError
    ├── NotAuthenticatedError
    └── PermissionDeniedError

An error has its data as attributes; its message is built where it is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from pilotage.values import value

__all__ = [
    "AgentBootstrapError",
    "AgentDefinitionError",
    "AgentMemoryError",
    "AgentModelConfigurationError",
    "AgentOutputGuardError",
    "AgentPersistenceConfigurationError",
    "AgentRetrievalError",
    "AgentStructuredOutputError",
    "AgentToolBindingError",
    "AgentToolDispatchError",
    "AnswerConflictError",
    "ApplicationStartError",
    "ApplicationStateError",
    "CallerError",
    "ContextNotActiveError",
    "DamagedEntryError",
    "EvidenceNotFoundError",
    "MediaRefusedError",
    "MediaTooLargeError",
    "MediaTypeRefusedError",
    "ModelCallError",
    "ModelNotFoundError",
    "NotAuthenticatedError",
    "PermissionDeniedError",
    "PilotageError",
    "PluginError",
    "PodDefinitionError",
    "PodNotFoundError",
    "Problem",
    "RunConflictError",
    "RunErasedError",
    "RunError",
    "RunFailedError",
    "RunNotFoundError",
    "SignalNotFoundError",
    "StartupError",
    "SteeringConflictError",
    "StoppedShortError",
    "ToolError",
    "start_error",
]


class PilotageError(Exception):
    """The base of every error Pilotage raises.

    `code` is stable and meant for programs; `str(error)` is meant for people. Raised without
    arguments, an error says its class's `message`.
    """

    message: ClassVar[str] = "Pilotage failed."
    code: ClassVar[str] = "pilotage_error"

    def __str__(self) -> str:
        return super().__str__() if self.args else self.message


class StartupError(PilotageError):
    """Base of the errors of the program itself; nothing has run yet."""

    message: ClassVar[str] = "The program cannot start."
    code: ClassVar[str] = "startup_error"


class PodDefinitionError(StartupError):
    """A class or factory cannot be a pod."""

    message: ClassVar[str] = "The pod cannot be defined."
    code: ClassVar[str] = "pod_definition_error"


class AgentDefinitionError(StartupError):
    """A value, a tool or an agent contradicts the agent contract."""

    message: ClassVar[str] = "The agent contract cannot be defined."
    code: ClassVar[str] = "agent_definition_error"


class PluginError(StartupError):
    """A plugin or a contribution cannot be found or loaded."""

    message: ClassVar[str] = "The plugin cannot be loaded."
    code: ClassVar[str] = "plugin_error"


class ApplicationStartError(StartupError):
    """An application cannot start; `problems` holds all that is wrong with it.

    Raised through `start_error`, the class is the narrowest family that covers every problem.
    """

    message: ClassVar[str] = "The application cannot start."
    code: ClassVar[str] = "application_start_error"

    def __init__(self, *args: object, problems: Sequence[Problem] = ()) -> None:
        super().__init__(*args)
        self.problems: tuple[Problem, ...] = tuple(problems)


class AgentBootstrapError(ApplicationStartError):
    """An agent of the application failed its validation at start-up."""

    message: ClassVar[str] = "The agents of the application cannot start."
    code: ClassVar[str] = "agent_bootstrap_error"


class AgentPersistenceConfigurationError(AgentBootstrapError):
    """A durable agent has no store for its state, signals, evidence or journal."""

    message: ClassVar[str] = (
        'A durable agent has no persistence. Install it: pip install "pilotage[sqlalchemy]".'
    )
    code: ClassVar[str] = "agent_persistence_configuration_error"


class AgentModelConfigurationError(AgentBootstrapError):
    """An agent needs a model and nothing provides one."""

    message: ClassVar[str] = 'An agent has no model. Run: pip install "pilotage[openai]".'
    code: ClassVar[str] = "agent_model_configuration_error"


@value
class Problem:
    """One reason why an application cannot start: the place, the problem, and the remedy."""

    code: str
    summary: str
    remedy: str
    path: tuple[str, ...] = ()
    family: type[ApplicationStartError] = ApplicationStartError
    detail: object = None

    def __str__(self) -> str:
        where = f"{' -> '.join(self.path)}: " if self.path else ""
        return f"{where}{self.summary}\n{self.remedy}"


def start_error(application: str, problems: Sequence[Problem]) -> ApplicationStartError:
    """Return all problems of one application in one error, of the narrowest family that covers them all."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"{count} in application {application!r}:"]
    for number, problem in enumerate(problems, start=1):
        first, *rest = str(problem).splitlines()
        lines.append(f"  {number}. {first}")
        lines.extend(f"     {line}" for line in rest)
    error = _narrowest_family(problems)("\n".join(lines), problems=problems)
    error.__cause__ = next((p.detail for p in problems if isinstance(p.detail, BaseException)), None)
    return error


def _narrowest_family(problems: Sequence[Problem]) -> type[ApplicationStartError]:
    families = [problem.family for problem in problems] or [ApplicationStartError]
    shared = (c for c in families[0].__mro__ if all(issubclass(family, c) for family in families))
    narrowest = next(shared)
    return narrowest if issubclass(narrowest, ApplicationStartError) else ApplicationStartError


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


class CallerError(PilotageError):
    """The request of a caller cannot be served."""

    message: ClassVar[str] = "The request cannot be served."
    code: ClassVar[str] = "caller_error"


class PodNotFoundError(CallerError):
    """The application has no pod of the requested type (and name), or more than one."""

    message: ClassVar[str] = "Nothing provides the type asked for."
    code: ClassVar[str] = "pod_not_found"


class ApplicationStateError(CallerError):
    """The application is not in the state the call needs: not started yet, started already, stopped."""

    message: ClassVar[str] = "The application is not in the right state for this call."
    code: ClassVar[str] = "application_state_error"


class ContextNotActiveError(CallerError):
    """A pod of the context scope was requested outside a context."""

    message: ClassVar[str] = "No context is active."
    code: ClassVar[str] = "context_not_active"


class RunNotFoundError(CallerError):
    """There is no such run, or it belongs to another tenant: a caller cannot distinguish the two."""

    message: ClassVar[str] = "There is no such run."
    code: ClassVar[str] = "run_not_found"


class RunConflictError(CallerError):
    """Another process owns the run, or claimed it at the same time; nothing was done."""

    message: ClassVar[str] = "Another process owns the run."
    code: ClassVar[str] = "run_conflict"


class AnswerConflictError(CallerError):
    """A question has another answer already, which counts; this one changes nothing and is recorded as evidence.

    `decision`, `decided_by` and `decided_at` are those of the answer that counts. A question that was closed without a
    person, because it expired, has no `decided_by`.
    """

    message: ClassVar[str] = "The question has another answer already."
    code: ClassVar[str] = "answer_conflict"

    def __init__(
        self,
        detail: str | None = None,
        *,
        request_id: str = "",
        decision: str = "",
        decided_by: str | None = None,
        decided_at: datetime | None = None,
    ) -> None:
        super().__init__(detail)
        self.request_id = request_id
        self.decision = decision
        self.decided_by = decided_by
        self.decided_at = decided_at


class SteeringConflictError(CallerError):
    """A revision of a steering instruction changes nothing: the input was taken in, or has another revision.

    `revision` is the one of the input `input_id` that counts; `is_taken` says that the run has taken it in.
    """

    message: ClassVar[str] = "The steering instruction has another revision that counts."
    code: ClassVar[str] = "steering_conflict"

    def __init__(
        self, detail: str | None = None, *, input_id: str = "", revision: int = 0, is_taken: bool = False
    ) -> None:
        super().__init__(detail)
        self.input_id = input_id
        self.revision = revision
        self.is_taken = is_taken


class RunErasedError(CallerError):
    """The content of a run was erased; its state is still there."""

    message: ClassVar[str] = "The content of the run was erased."
    code: ClassVar[str] = "run_erased"


class DamagedEntryError(CallerError):
    """A stored entry cannot be decoded, or is not the one that was written; the message names it."""

    message: ClassVar[str] = "A stored entry is damaged."
    code: ClassVar[str] = "damaged_entry"

    @classmethod
    def changed(cls, name: str) -> DamagedEntryError:
        """Return the error for an entry with columns that this application did not write."""
        return cls(f"{name} is not stored as it was written. Restore it from a backup.")

    @classmethod
    def unreadable(cls, name: str, error: Exception) -> DamagedEntryError:
        """Return the error for an entry with columns that cannot be decoded."""
        words = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        return cls(f"{name} cannot be decoded ({words}). Restore it from a backup.")


class SignalNotFoundError(CallerError):
    """There is no such signal, or it was consumed already."""

    message: ClassVar[str] = "There is no such pending signal."
    code: ClassVar[str] = "signal_not_found"


class EvidenceNotFoundError(CallerError):
    """There is no such evidence, or it belongs to another tenant."""

    message: ClassVar[str] = "There is no such evidence."
    code: ClassVar[str] = "evidence_not_found"


class ModelNotFoundError(CallerError):
    """The application has no model of the name that was selected, or several."""

    message: ClassVar[str] = "There is no such model."
    code: ClassVar[str] = "model_not_found"


class MediaRefusedError(CallerError):
    """A run was given media that its agent does not allow, or that its model does not take."""

    message: ClassVar[str] = "The media are refused."
    code: ClassVar[str] = "media_refused"


class MediaTooLargeError(MediaRefusedError):
    """There are more media, or more bytes of them, than the agent allows."""

    message: ClassVar[str] = "The media are too large."
    code: ClassVar[str] = "media_too_large"


class MediaTypeRefusedError(MediaRefusedError):
    """A media part is of a type that the agent does not allow, or that its model does not take."""

    message: ClassVar[str] = "The type of the media is refused."
    code: ClassVar[str] = "media_type_refused"


class NotAuthenticatedError(CallerError):
    """The request has no authenticated principal; it was not processed."""

    message: ClassVar[str] = "The request is not authenticated."
    code: ClassVar[str] = "not_authenticated"


class PermissionDeniedError(CallerError):
    """The principal is not allowed to do this."""

    message: ClassVar[str] = "The principal is not allowed to do this."
    code: ClassVar[str] = "permission_denied"


_MOST_CHARACTERS = 1000


def error_words(error: BaseException) -> str:
    """Return class and message of an error for a log.

    Messages of Pilotage hold ids and remedies and no payloads. Other libraries put values, statements and parameters
    into the lines after the first: of their messages only the first line is used.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = " ".join(lines if isinstance(error, PilotageError) else lines[:1])
    name = type(error).__name__
    return f"{name}: {message}"[:_MOST_CHARACTERS] if message else name
