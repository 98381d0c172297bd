"""Agents that are ordinary application components: durable, typed, streaming, behind ports."""

from pilotage.agent.events import AgentEvent, MessageDeltaEvent, RunPausedEvent, ToolCallStartEvent
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.principal import Principal, RunContext, get_run_context
from pilotage.agent.run_values import RunAgentInput, RunResult
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.agent.spec import (
    AgentExecutionLimits,
    AgentExecutionSpec,
    RecoveryStrategy,
    StreamingExposureMode,
)
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.agent.stereotype import Agent
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import (
    EvidenceCapture,
    Idempotency,
    TimeoutPolicy,
    ToolEffects,
    ToolPermission,
)
from pilotage.agent.tools.outside import plain_calls
from pilotage.agent.yields import (
    AgentYield,
    AgentYieldJsonEncoder,
    Approval,
    Cancel,
    Error,
    Evidence,
    Final,
    Progress,
    Token,
    Tool,
)
from pilotage.container.application import Application
from pilotage.container.dependency import Qualifier
from pilotage.container.pod import Configuration, Controller, Pod, Scope, UseCase
from pilotage.errors import AgentDefinitionError, PilotageError
from pilotage.quick import run, run_sync
from pilotage.safety.fields import PII, MaskingPolicy, SecretField, SensitiveField

__all__ = [
    "PII",
    "Agent",
    "AgentDefinitionError",
    "AgentEvent",
    "AgentExecutionLimits",
    "AgentExecutionSpec",
    "AgentSignalKind",
    "AgentState",
    "AgentStatus",
    "AgentToolRuntimeContext",
    "AgentYield",
    "AgentYieldJsonEncoder",
    "Application",
    "Approval",
    "ApprovalDecision",
    "Cancel",
    "Configuration",
    "Controller",
    "Error",
    "Evidence",
    "EvidenceCapture",
    "Final",
    "IAgentModel",
    "Idempotency",
    "MaskingPolicy",
    "MessageDeltaEvent",
    "ModelMessage",
    "ModelRequest",
    "ModelResponse",
    "ModelStreamEvent",
    "ModelStreamEventKind",
    "PilotageError",
    "Pod",
    "Principal",
    "Progress",
    "Qualifier",
    "RecoveryStrategy",
    "RunAgentInput",
    "RunContext",
    "RunPausedEvent",
    "RunResult",
    "Scope",
    "SecretField",
    "SensitiveField",
    "StreamingExposureMode",
    "StructuredOutputSpec",
    "TimeoutPolicy",
    "Token",
    "Tool",
    "ToolCallStartEvent",
    "ToolCallingSpec",
    "ToolEffects",
    "ToolPermission",
    "UseCase",
    "agent_tool",
    "get_run_context",
    "plain_calls",
    "run",
    "run_sync",
]
