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
│   │   ├── QuestionDeclinedError                (a person declined to answer)
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
    ├── MediaNotFoundError
    ├── MediaRefusedError
    │   ├── MediaBrokenError
    │   ├── MediaTooLargeError
    │   └── MediaTypeRefusedError
    ├── NotAuthenticatedError
    └── PermissionDeniedError

An error has its data as attributes; its message is built where it is raised.
"""

from pilotage.exports import exports as _exports

_NAMES = {
    "pilotage.errors.base": "PilotageError error_words",
    "pilotage.errors.startup": """
        StartupError PodDefinitionError AgentDefinitionError PluginError ApplicationStartError
        AgentBootstrapError AgentPersistenceConfigurationError AgentModelConfigurationError Problem
        start_error""",
    "pilotage.errors.run": """
        RunError RunFailedError ModelCallError AgentToolBindingError AgentToolDispatchError ToolError
        DelegationError QuestionDeclinedError StoppedShortError AgentStructuredOutputError AgentOutputGuardError
        AgentRetrievalError AgentMemoryError""",
    "pilotage.errors.caller": """
        CallerError PodNotFoundError ApplicationStateError ContextNotActiveError RunNotFoundError
        RunConflictError AnswerConflictError SteeringConflictError RunErasedError DamagedEntryError
        SignalNotFoundError EvidenceNotFoundError ModelNotFoundError MediaRefusedError MediaTooLargeError
        MediaTypeRefusedError MediaBrokenError MediaNotFoundError NotAuthenticatedError PermissionDeniedError""",
}
__getattr__, __dir__, __all__ = _exports(__name__, _NAMES)
