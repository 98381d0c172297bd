"""The agent contract: values, ports and tools. Import from here."""

# Names are packed: one per line would take six hundred lines.
# ruff: noqa: I001, RUF022
# fmt: off
from pilotage.agent.approval import (
    DEFAULT_APPROVAL_DECISIONS, AgentApprovalBoundaryKind, AgentApprovalPlan, AgentApprovalPlanAction,
    AgentApprovalRequest, plan_agent_tool_approval,
)
from pilotage.agent.bootstrap import AgentBootstrapValidationPostProcessor
from pilotage.agent.cancellation import (
    AgentCancellationCleanupCallable, AgentCancellationCleanupReport, AgentCancellationCleanupResult,
    AgentCancellationCleanupStatus, AgentCancellationCleanupTask, AgentCancellationRequest,
    AgentCancellationTargetKind, begin_agent_cancellation, complete_agent_cancellation,
    run_agent_cancellation_cleanup,
)
from pilotage.agent.compaction import AgentCompactionPolicy
from pilotage.agent.context import (
    ContextDigest, ContextFreshness, ContextHealthSignal, ContextManifest, ContextManifestEntry,
    ContextOptimizationAction, ContextOptimizationActionKind, ContextOptimizationEvidenceStage, ContextPack,
    ContextPackRole, ContextRotSymptom, ContextSensitivity, ContextTokenBudget, render_context_pack,
)
from pilotage.agent.control_tools import ControlTools, Exit, NoTools, control_call
from pilotage.agent.decisions import (
    AgentApprovalDecisionOutcome, ApprovalAccepted, ApprovalCheck, ApprovalExpired, DecisionMalformed,
    DecisionMisdirected, DecisionNotAllowed, DecisionRefusal, DecisionRefusedError, check_agent_approval_decision,
    expired_approval_outcome, materialize_agent_approval_decision_state, parse_agent_approval_decision_signal,
)
from pilotage.agent.definition import AgentDefinition, runner_backed_execute
from pilotage.agent.delegation import (
    AgentDelegateTarget, AgentTeammate, DelegationBudget, DelegationContextSlice, DelegationExpectedOutput,
    DelegationPacket, DelegationResult, DelegationReturnPolicy, DelegationToolResult,
)
from pilotage.agent.events import (
    AgentEvent, AgentEventAttribution, AgentEventKind, ArtifactEvent, MessageDeltaEvent, ReasoningDeltaEvent,
    RunFinishedEvent, RunPausedEvent, RunStartedEvent, StateDeltaEvent, StateSnapshotEvent, StepFinishedEvent,
    StepStartedEvent, ToolCallArgsDeltaEvent, ToolCallEndEvent, ToolCallResultEvent, ToolCallStartEvent,
)
from pilotage.agent.evidence import STRUCTURED_RESULT_LIMIT, AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.execution import ExecuteContract, ExecuteShape
from pilotage.agent.facts import (
    AgentActionCompleted, AgentActionOutcome, AgentApprovalRequested, AgentFact, AgentQuestionKind, AgentRunCancelled,
    AgentRunCancelling, AgentRunCompleted, AgentRunDelegated, AgentRunFailed, AgentRunPaused, AgentRunResumed,
    AgentRunStarted, AgentSignalTooLate, IAgentEventPublisher, UnreadableFactError, read_fact, write_fact,
)
from pilotage.agent.handlers import on_event, on_signal
from pilotage.agent.messages import (
    ContentPart, MediaPart, MediaSafetyLimits, ModelMessage, ModelMessageRole, ModelToolCall, TextPart,
)
from pilotage.agent.model_reply import (
    ModelError, ModelFinishReason, ModelResponse, ModelStreamEvent, ModelStreamEventKind, ModelUsage,
)
from pilotage.agent.model_request import (
    JsonSchemaConstraint, ModelRequest, ModelSelection, ModelToolChoice, ModelToolSpec, SamplingOptions,
    StreamingOptions, StructuredOutputSpec, ToolCallingSpec,
)
from pilotage.agent.model_stream import ModelEventProjector
from pilotage.agent.ports.architecture import (
    AgentRef, AgentSession, Architecture, BranchFailure, Dependencies, FailurePolicy, IScopedModel, IScopedRuntime,
    IScopedTools, ToolCallOutcome,
)
from pilotage.agent.ports.budget import (
    BudgetAmount, BudgetExhausted, BudgetGranted, BudgetPeriod, BudgetReservation, BudgetSettlement, BudgetVerdict,
    BudgetWindow, IAgentBudget, IAgentPricing, ITenantSpending, ModelCost, NoBudget,
)
from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns, ITaskStore
from pilotage.agent.ports.handlers import (
    AgentOutputGuardProfile, ApprovalSubject, HookVerdict, IAgentApprovalHandler, IAgentCancellationCleanup,
    IAgentContextHandler, IAgentContextObserver, IAgentContextProvider, IAgentHooks, IAgentOutputGuard,
    IAgentRecoveryHandler, IAgentToolHandler, LinkGuard, Proceed, Veto,
)
from pilotage.agent.ports.journal import (
    ClosedSignal, CommitOutcome, CommitRefusal, CommitRefused, Committed, HeadMoved, IAgentJournal, JournalCommit,
    JournalHead, LeaseRequest, OutboxEvent, SignalsUnread,
)
from pilotage.agent.ports.leases import (
    BacklogEntry, ClaimRecord, IAgentBacklog, IAgentLeases, IAgentWakeUps, IWakeUpSubscription, Lease,
)
from pilotage.agent.ports.memory import IAgentMemory, MemoryItem, MemoryKind, MemoryScope, MemoryUse
from pilotage.agent.ports.model import IAgentModel, IAgentModelResolver, ModelCapability
from pilotage.agent.ports.observability import (
    AuditEntry, IAgentAuditLog, IAgentTelemetry, NoTelemetry, TelemetryValue,
)
from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry, OutboxPage, OutboxStatus
from pilotage.agent.ports.permissions import (
    AllowAll, IAgentPermissions, IAgentSwitches, IPrincipalResolver, ISecrets, PermissionDecision, PermissionRequest,
    PermissionRule, PermissionRules, PermissionVerdict, RequireHeld, StrictestOf, Switch, SwitchKind, SwitchedOff,
    strictest,
)
from pilotage.agent.ports.persistence import ErasedRecord, JournalRow, JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.repositories import (
    EvidencePage, IAgentEvidenceRepository, IAgentLateOutcomes, IAgentRetention, IAgentSignalRepository,
    IAgentStateRepository, LateOutcome, RunPage, consume_pending_agent_signals,
)
from pilotage.agent.ports.runner import IAgentDelegate, IAgentRunner, IAgentRunnerFactory
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.agent.principal import Principal, RunContext, get_run_context, run_context
from pilotage.agent.recovery import (
    AgentActionBoundaryCheckpoint, AgentActionBoundaryStage, AgentActionKind, AgentResumeAction, AgentResumeBoundary,
    AgentResumePlan, plan_agent_resume,
)
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest, OpenAction, RecoveryAnswer, RecoveryCancelled, RecoveryDecision, RecoveryDone,
    RecoveryFailed, RecoveryRetried, UnknownAttempt, check_agent_recovery_decision,
    materialize_agent_recovery_decision_state, parse_agent_recovery_decision_signal,
)
from pilotage.agent.run_values import AgentContext, RunAgentInput, RunResult
from pilotage.agent.signals import (
    AgentSignal, AgentSignalConsumptionBatch, AgentSignalEnd, AgentSignalKind, AgentSignalLane, AgentSignalPollPoint,
    AgentSteeringUpdate, ApprovalDecision, accepts_signal, select_signals,
)
from pilotage.agent.spec import (
    AgentExecutionLimits, AgentExecutionSpec, LimitCode, RecoveryStrategy, RejectionPolicy, StreamingExposureMode,
)
from pilotage.agent.state import (
    AgentSituation, AgentState, AgentStateReason, AgentStateTransition, AgentStatus, can_move,
)
from pilotage.agent.stereotype import Agent
from pilotage.agent.tools.bind import AgentToolBoundInvocation, bind_agent_tool_invocation
from pilotage.agent.tools.catalog import AgentToolCatalog, AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.context import AgentToolApprovalContext, AgentToolRuntimeContext, CancellationToken
from pilotage.agent.tools.declare import (
    AgentToolDefinition, IToolCalls, ToolOptions, agent_tool, get_agent_tool_definition, tool_calls_go_to,
)
from pilotage.agent.tools.described import IAgentToolProvider
from pilotage.agent.tools.metadata import (
    AgentToolMetadata, DataAccess, EvidenceCapture, Externality, Idempotency, ResultBudget, TimeoutPolicy,
    ToolApprovalRequirement, ToolEffects, ToolPermission, ToolResumeAction, ToolResumeMetadata, ToolRisk,
    ToolRiskAxis,
)
from pilotage.agent.tools.schema import AgentToolIdentity, AgentToolSchemaHandle
from pilotage.agent.yields import (
    AgentYield, AgentYieldJsonEncoder, AgentYieldKind, AgentYieldPayload, Approval, Cancel, Error, Evidence, Final,
    Message, Progress, TextDelta, Token, Tool,
)
from pilotage.errors import (
    AgentBootstrapError, AgentDefinitionError, AgentMemoryError, AgentModelConfigurationError, AgentOutputGuardError,
    AgentPersistenceConfigurationError, AgentRetrievalError, AgentStructuredOutputError, AgentToolBindingError,
    AgentToolDispatchError, PilotageError,
)
from pilotage.jsonvalue import JsonObject, JsonPrimitive, JsonValue
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.fields import (
    ANY_DEPTH, PII, REDACTED_VALUE, SECRET_VALUE, CredentialRef, DataSensitivity, MaskingKey, MaskingPolicy,
    RedactionPolicy, SecretField, SecretRef, SensitiveField, SensitiveFieldDescriptor, SensitiveMarker,
)
from pilotage.safety.guard import (
    SENSITIVE_KEYWORD, ContextExposurePolicy, EvidenceExposurePolicy, ExposurePolicy, guard_json_value,
    schema_with_sensitive_metadata,
)
from pilotage.safety.redaction.policy import (
    StreamingGuardFailureMode, StreamingRedactionMatch, StreamingRedactionPolicy, StreamingSensitivePattern,
)
from pilotage.safety.redaction.session import (
    StreamingRedactionAudit, StreamingRedactionAuditStatus, StreamingRedactionResult, StreamingRedactionSession,
)
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

__all__ = [
    # Contract 1, 2: errors and JSON
    "AgentBootstrapError", "AgentDefinitionError", "AgentMemoryError", "AgentModelConfigurationError",
    "AgentOutputGuardError", "AgentPersistenceConfigurationError", "AgentRetrievalError",
    "AgentStructuredOutputError", "AgentToolBindingError", "AgentToolDispatchError", "JsonObject",
    "JsonPrimitive", "JsonValue", "PilotageError",
    # Contract 3-5: state and signals
    "AgentSignal", "AgentSignalConsumptionBatch", "AgentSignalEnd", "AgentSignalKind", "AgentSignalLane",
    "AgentSignalPollPoint", "AgentSituation", "AgentState", "AgentStateReason", "AgentStateTransition",
    "AgentStatus", "AgentSteeringUpdate", "ApprovalDecision", "accepts_signal", "can_move", "on_signal",
    "select_signals",
    # Contract 6, 25: stream and events
    "AgentEvent", "AgentEventAttribution", "AgentEventKind", "AgentYield", "AgentYieldJsonEncoder",
    "AgentYieldKind", "AgentYieldPayload", "Approval", "ArtifactEvent", "Cancel", "Error", "Evidence",
    "Final", "Message", "MessageDeltaEvent", "ModelEventProjector", "Progress", "ReasoningDeltaEvent",
    "RunFinishedEvent", "RunPausedEvent", "RunStartedEvent", "StateDeltaEvent", "StateSnapshotEvent",
    "StepFinishedEvent", "StepStartedEvent", "TextDelta", "Token", "Tool", "ToolCallArgsDeltaEvent",
    "ToolCallEndEvent", "ToolCallResultEvent", "ToolCallStartEvent",
    # Contract 7, 8, 26: agents and runs
    "Agent", "AgentBootstrapValidationPostProcessor", "AgentContext", "AgentDefinition",
    "AgentExecutionLimits", "AgentExecutionSpec", "ExecuteContract", "ExecuteShape", "IAgentDelegate",
    "IAgentRunner", "IAgentRunnerFactory", "LimitCode", "Principal", "RecoveryStrategy", "RejectionPolicy",
    "RunAgentInput", "RunContext", "RunResult", "StreamingExposureMode", "get_run_context", "run_context",
    "runner_backed_execute",
    # Contract 9-11: tools
    "AgentToolApprovalContext", "AgentToolBoundInvocation", "AgentToolCatalog", "AgentToolDefinition",
    "AgentToolDescriptor", "AgentToolIdentity", "AgentToolMetadata", "AgentToolRuntimeContext",
    "AgentToolSchemaHandle", "CancellationToken", "ControlTools", "DataAccess", "EvidenceCapture", "Exit",
    "Externality", "IAgentToolProvider", "IToolCalls", "Idempotency", "NoTools", "ResultBudget",
    "TimeoutPolicy", "ToolApprovalRequirement", "ToolEffects", "ToolOptions", "ToolPermission",
    "ToolResumeAction", "ToolResumeMetadata", "ToolRisk", "ToolRiskAxis", "agent_tool",
    "bind_agent_tool_invocation", "control_call", "discover_agent_tools", "get_agent_tool_definition",
    "tool_calls_go_to",
    # Contract 12, 13: safety and redaction
    "ANY_DEPTH", "PII", "REDACTED_VALUE", "SECRET_VALUE", "SENSITIVE_KEYWORD", "Confidentiality",
    "ContextExposurePolicy", "CredentialRef", "DataSensitivity", "EvidenceExposurePolicy", "ExposurePolicy",
    "Integrity", "MaskingKey", "MaskingPolicy", "RedactionPolicy", "SecretField", "SecretRef",
    "SensitiveField", "SensitiveFieldDescriptor", "SensitiveMarker", "StreamingGuardFailureMode",
    "StreamingRedactionAudit", "StreamingRedactionAuditStatus", "StreamingRedactionMatch",
    "StreamingRedactionPolicy", "StreamingRedactionResult", "StreamingRedactionSession",
    "StreamingSensitivePattern", "TrustLabel", "find_sensitive_fields", "guard_json_value",
    "schema_with_sensitive_metadata",
    # Contract 14: context
    "AgentCompactionPolicy",
    "ContextDigest", "ContextFreshness", "ContextHealthSignal", "ContextManifest", "ContextManifestEntry",
    "ContextOptimizationAction", "ContextOptimizationActionKind", "ContextOptimizationEvidenceStage",
    "ContextPack", "ContextPackRole", "ContextRotSymptom", "ContextSensitivity", "ContextTokenBudget",
    "render_context_pack",
    # Contract 15: models
    "ContentPart", "IAgentModel", "IAgentModelResolver", "JsonSchemaConstraint", "MediaPart", "MediaSafetyLimits",
    "ModelCapability", "ModelError",
    "ModelFinishReason", "ModelMessage", "ModelMessageRole", "ModelRequest", "ModelResponse",
    "ModelSelection", "ModelStreamEvent", "ModelStreamEventKind", "ModelToolCall", "ModelToolChoice",
    "ModelToolSpec", "ModelUsage", "SamplingOptions", "StreamingOptions", "StructuredOutputSpec", "TextPart",
    "ToolCallingSpec",
    # Contract 17: evidence
    "STRUCTURED_RESULT_LIMIT", "AgentEvidence", "AgentEvidenceCandidate", "AgentEvidenceKind",
    # Contract 18: approval
    "DEFAULT_APPROVAL_DECISIONS", "AgentApprovalBoundaryKind", "AgentApprovalDecisionOutcome",
    "AgentApprovalPlan", "AgentApprovalPlanAction", "AgentApprovalRequest", "ApprovalAccepted",
    "ApprovalCheck", "ApprovalExpired", "DecisionMalformed", "DecisionMisdirected", "DecisionNotAllowed",
    "DecisionRefusal", "DecisionRefusedError", "check_agent_approval_decision", "expired_approval_outcome",
    "materialize_agent_approval_decision_state", "parse_agent_approval_decision_signal",
    "plan_agent_tool_approval",
    # Contract 19: cancellation
    "AgentCancellationCleanupCallable", "AgentCancellationCleanupReport", "AgentCancellationCleanupResult",
    "AgentCancellationCleanupStatus", "AgentCancellationCleanupTask", "AgentCancellationRequest",
    "AgentCancellationTargetKind", "begin_agent_cancellation", "complete_agent_cancellation",
    "run_agent_cancellation_cleanup",
    # Contract 20: recovery
    "AgentActionBoundaryCheckpoint", "AgentActionBoundaryStage", "AgentActionKind", "AgentRecoveryRequest",
    "AgentResumeAction", "AgentResumeBoundary", "AgentResumePlan", "OpenAction", "RecoveryAnswer", "RecoveryCancelled",
    "RecoveryDecision", "RecoveryDone", "RecoveryFailed", "RecoveryRetried", "UnknownAttempt",
    "check_agent_recovery_decision", "materialize_agent_recovery_decision_state",
    "parse_agent_recovery_decision_signal", "plan_agent_resume",
    # Contract 21: delegation
    "AgentDelegateTarget", "AgentTeammate", "DelegationBudget", "DelegationContextSlice",
    "DelegationExpectedOutput", "DelegationPacket", "DelegationResult", "DelegationReturnPolicy",
    "DelegationToolResult",
    # Contract 28: architectures
    "AgentRef", "AgentSession", "Architecture", "BranchFailure", "Dependencies", "FailurePolicy",
    "IScopedModel", "IScopedRuntime", "IScopedTools", "ToolCallOutcome",
    # Contract 16: stores
    "BacklogEntry", "ClaimRecord", "ClosedSignal", "CommitOutcome", "CommitRefusal", "CommitRefused", "Committed",
    "ConversationTurn", "ConversationTurns", "ErasedRecord", "EvidencePage", "HeadMoved",
    "IAgentBacklog", "IAgentEvidenceRepository",
    "IAgentJournal", "IAgentLateOutcomes", "IAgentLeases", "IAgentRetention", "IAgentSignalRepository",
    "IAgentStateRepository", "IAgentWakeUps", "IRecordSealer", "ITaskStore", "IWakeUpSubscription",
    "JournalCommit", "JournalHead", "JournalRow", "JournalStage", "LateOutcome", "Lease", "LeaseRequest",
    "OutboxEvent", "RecordSealError", "RunKey", "RunPage", "SealContext", "SealedRecord",
    "SignalsUnread",
    "consume_pending_agent_signals",
    # Facts and their delivery
    "AgentActionCompleted", "AgentActionOutcome", "AgentApprovalRequested", "AgentFact", "AgentQuestionKind",
    "AgentRunCancelled", "AgentRunCancelling", "AgentRunCompleted", "AgentRunDelegated", "AgentRunFailed",
    "AgentRunPaused", "AgentRunResumed", "AgentRunStarted", "AgentSignalTooLate", "IAgentEventPublisher",
    "IAgentOutbox", "OutboxEntry", "OutboxPage", "OutboxStatus", "UnreadableFactError", "on_event", "read_fact",
    "write_fact",
    # Other ports
    "AgentOutputGuardProfile", "AllowAll", "ApprovalSubject", "AuditEntry", "BudgetAmount", "BudgetExhausted",
    "BudgetGranted", "BudgetPeriod", "BudgetReservation", "BudgetSettlement", "BudgetVerdict", "BudgetWindow",
    "HookVerdict", "IAgentApprovalHandler", "IAgentAuditLog", "IAgentBudget", "IAgentCancellationCleanup",
    "IAgentContextHandler", "IAgentContextObserver", "IAgentContextProvider", "IAgentHooks", "IAgentMemory",
    "IAgentOutputGuard", "IAgentPermissions", "IAgentPricing", "IAgentRecoveryHandler", "IAgentSwitches",
    "IAgentTelemetry", "IAgentToolHandler",
    "IPrincipalResolver", "ISecrets", "ITenantSpending", "LinkGuard", "MemoryItem", "MemoryKind", "MemoryScope",
    "MemoryUse", "ModelCost", "NoBudget", "NoTelemetry", "PermissionDecision", "PermissionRequest",
    "PermissionRule", "PermissionRules", "PermissionVerdict", "Proceed", "RequireHeld", "StrictestOf",
    "Switch", "SwitchKind", "SwitchedOff", "TelemetryValue", "Veto", "strictest",
]
