"""Tools: typed functions and methods that a model may call."""

# Names are packed.
# ruff: noqa: I001
# fmt: off
from pilotage.agent.tools.bind import AgentToolBoundInvocation, bind_agent_tool_invocation
from pilotage.agent.tools.catalog import AgentToolCatalog, AgentToolDescriptor, ToolBinding, discover_agent_tools
from pilotage.agent.tools.context import (
    AgentToolApprovalContext, AgentToolRuntimeContext, CancellationToken, plain_calls,
)
from pilotage.agent.tools.declare import (
    AgentToolDefinition, IToolCalls, ToolOptions, active_tool_calls, agent_tool, get_agent_tool_definition,
    original_function, tool_calls_go_to,
)
from pilotage.agent.tools.described import described_tool
from pilotage.agent.tools.listed import ListedTool, digest_of_list
from pilotage.agent.tools.metadata import (
    AgentToolMetadata, DataAccess, EvidenceCapture, Externality, Idempotency, ResultBudget, TimeoutPolicy,
    ToolApprovalRequirement, ToolEffects, ToolPermission, ToolResumeAction, ToolResumeMetadata, ToolRisk,
    ToolRiskAxis, effective_idempotency,
)
from pilotage.agent.tools.schema import AgentToolIdentity, AgentToolSchemaHandle

__all__ = [
    "AgentToolApprovalContext", "AgentToolBoundInvocation", "AgentToolCatalog", "AgentToolDefinition",
    "AgentToolDescriptor", "AgentToolIdentity", "AgentToolMetadata", "AgentToolRuntimeContext",
    "AgentToolSchemaHandle", "CancellationToken", "DataAccess", "EvidenceCapture", "Externality",
    "IToolCalls", "Idempotency", "ListedTool", "ResultBudget", "TimeoutPolicy", "ToolApprovalRequirement",
    "ToolBinding", "ToolEffects", "ToolOptions", "ToolPermission", "ToolResumeAction", "ToolResumeMetadata", "ToolRisk",
    "ToolRiskAxis", "active_tool_calls", "agent_tool", "bind_agent_tool_invocation", "described_tool",
    "digest_of_list", "discover_agent_tools", "effective_idempotency", "get_agent_tool_definition", "original_function",
    "plain_calls", "tool_calls_go_to",
]
