"""Agents that are ordinary application components: durable, typed, streaming, with ports.

The names of the runtime are imported when they are first used, so that defining agents stays cheap. `__init__.pyi` has
the types of all names; a test compares the two files.
"""

# pyright: reportUnsupportedDunderAll=false

from importlib import import_module

from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.events import AgentEvent, MessageDeltaEvent, RunPausedEvent, ToolCallStartEvent
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.principal import Principal, RunContext, get_run_context
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
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
from pilotage.agent.tools.context import AgentToolRuntimeContext, plain_calls
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import (
    EvidenceCapture,
    Idempotency,
    TimeoutPolicy,
    ToolApprovalRequirement,
    ToolEffects,
    ToolPermission,
)
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
from pilotage.errors import AgentDefinitionError, PilotageError, ToolError
from pilotage.quick import run, run_sync
from pilotage.safety.fields import PII, MaskingPolicy, SecretField, SensitiveField

__all__ = [
    "PII",
    "Agent",
    "AgentDefinitionError",
    "AgentEvent",
    "AgentExecutionLimits",
    "AgentExecutionSpec",
    "AgentRecoveryRequest",
    "AgentRunner",
    "AgentRuns",
    "AgentSignalKind",
    "AgentState",
    "AgentStatus",
    "AgentTeammate",
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
    "LeaseSettings",
    "MaskingPolicy",
    "MessageDeltaEvent",
    "ModelMessage",
    "ModelRequest",
    "ModelResponse",
    "ModelStreamEvent",
    "ModelStreamEventKind",
    "OfflineModel",
    "PilotageError",
    "Pod",
    "Principal",
    "Progress",
    "Qualifier",
    "RecoveryDecision",
    "RecoveryStrategy",
    "RunAgentInput",
    "RunContext",
    "RunHandle",
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
    "ToolApprovalRequirement",
    "ToolCallStartEvent",
    "ToolCallingSpec",
    "ToolEffects",
    "ToolError",
    "ToolPermission",
    "UseCase",
    "WorkerSettings",
    "agent_tool",
    "get_run_context",
    "plain_calls",
    "run",
    "run_sync",
    "step",
]

_IMPORTED_LATER = {
    "AgentRunner": "pilotage.runtime.runner",
    "AgentRuns": "pilotage.runtime.runs",
    "LeaseSettings": "pilotage.runtime.journal.lease",
    "OfflineModel": "pilotage.models.offline_model",
    "RunHandle": "pilotage.runtime.run.handles",
    "WorkerSettings": "pilotage.runtime.delivery.worker",
    "step": "pilotage.runtime.door.step",
}


def __getattr__(name: str) -> object:
    """Import a name of the runtime when it is asked for."""
    if name not in _IMPORTED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_IMPORTED_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_IMPORTED_LATER]
