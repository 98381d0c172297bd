"""Agents that are ordinary application components: durable, typed, streaming, with ports."""

from pilotage.exports import exports as _exports

_NAMES = {
    "pilotage.agent.delegation": "AgentTeammate",
    "pilotage.agent.events": "AgentEvent MessageDeltaEvent RunPausedEvent ToolCallStartEvent",
    "pilotage.agent.messages": "ModelMessage",
    "pilotage.agent.model_reply": "ModelResponse ModelStreamEvent ModelStreamEventKind",
    "pilotage.agent.model_request": "ModelRequest StructuredOutputSpec ToolCallingSpec",
    "pilotage.agent.ports.model": "IAgentModel",
    "pilotage.agent.principal": "Principal RunContext get_run_context",
    "pilotage.agent.recovery_request": "AgentRecoveryRequest RecoveryDecision",
    "pilotage.agent.run_values": "RunAgentInput RunResult",
    "pilotage.agent.signals": "AgentSignalKind ApprovalDecision",
    "pilotage.agent.spec": "AgentExecutionLimits AgentExecutionSpec RecoveryStrategy StreamingExposureMode",
    "pilotage.agent.state": "AgentState AgentStatus",
    "pilotage.agent.stereotype": "Agent",
    "pilotage.agent.tools.context": "AgentToolRuntimeContext plain_calls",
    "pilotage.agent.tools.declare": "agent_tool",
    "pilotage.agent.tools.metadata": """
        EvidenceCapture Idempotency TimeoutPolicy ToolApprovalRequirement ToolEffects ToolPermission""",
    "pilotage.agent.yields": """
        AgentYield AgentYieldJsonEncoder Approval Cancel Error Evidence Final Progress State
        StatePatch Token Tool""",
    "pilotage.container.application": "Application",
    "pilotage.container.dependency": "Qualifier",
    "pilotage.container.pod": "Configuration Controller Pod Scope UseCase",
    "pilotage.errors": "AgentDefinitionError PilotageError ToolError",
    "pilotage.models.offline_model": "OfflineModel",
    "pilotage.quick": "run run_sync",
    "pilotage.runtime.delivery.worker": "WorkerSettings",
    "pilotage.runtime.door.step": "step",
    "pilotage.runtime.journal.lease": "LeaseSettings",
    "pilotage.runtime.run.handles": "RunHandle",
    "pilotage.runtime.runner": "AgentRunner",
    "pilotage.runtime.runs": "AgentRuns",
    "pilotage.safety.fields": "PII MaskingPolicy SecretField SensitiveField",
}
__getattr__, __dir__, __all__ = _exports(__name__, _NAMES)
