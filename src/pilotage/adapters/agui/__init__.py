"""Runs as AG-UI events, with human approval, over four transports: `pip install "pilotage[agui]"`."""

from importlib.util import find_spec

if find_spec("ag_ui") is None or find_spec("starlette") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[agui]"')

from pilotage.adapters.agui.driver import AgentDriver, driver_for
from pilotage.adapters.agui.endpoints import (
    AgUiAgent,
    AGUICompatible,
    add_agui_endpoint,
    add_agui_http_stream_endpoint,
    add_agui_websocket_endpoint,
    agui_extension,
    agui_routes,
)
from pilotage.adapters.agui.errors import (
    AbstractAgUiError,
    AgUiApprovalDecodeError,
    AgUiEndpointConflictError,
    AgUiInputTooLargeError,
    AgUiPendingApprovalError,
    AgUiRunResolutionError,
)
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.questions import (
    AgUiApproval,
    AgUiContinuation,
    AgUiDecision,
    AgUiToolResult,
    approval_from_pause,
    carries_approval_decision,
    decisions_in,
    find_pending_approval,
    ingest_decision,
    project_approval,
    project_pending_approval,
    tool_results_in,
)
from pilotage.adapters.agui.run_input import parse_input, run_input_of
from pilotage.adapters.agui.stream import (
    AgUiEncoder,
    AgUiRunDriver,
    Bookmark,
    NdjsonEncoder,
    RunDriverFactory,
    RunOpener,
    SseEncoder,
    encoder_for,
    line_of,
)
from pilotage.adapters.agui.transport import AgUiStdioCommand, frames_for
from pilotage.adapters.agui_plugin import AgUiConfig, AgUiEndpoints, AgUiLimits

__all__ = [
    "AGUICompatible",
    "AbstractAgUiError",
    "AgUiAgent",
    "AgUiApproval",
    "AgUiApprovalDecodeError",
    "AgUiConfig",
    "AgUiContinuation",
    "AgUiDecision",
    "AgUiEncoder",
    "AgUiEndpointConflictError",
    "AgUiEndpoints",
    "AgUiInputTooLargeError",
    "AgUiLimits",
    "AgUiPendingApprovalError",
    "AgUiProjector",
    "AgUiRunDriver",
    "AgUiRunResolutionError",
    "AgUiStdioCommand",
    "AgUiToolResult",
    "AgentDriver",
    "Bookmark",
    "NdjsonEncoder",
    "RunDriverFactory",
    "RunOpener",
    "SseEncoder",
    "add_agui_endpoint",
    "add_agui_http_stream_endpoint",
    "add_agui_websocket_endpoint",
    "agui_extension",
    "agui_routes",
    "approval_from_pause",
    "carries_approval_decision",
    "decisions_in",
    "driver_for",
    "encoder_for",
    "find_pending_approval",
    "frames_for",
    "ingest_decision",
    "line_of",
    "parse_input",
    "project_approval",
    "project_pending_approval",
    "run_input_of",
    "tool_results_in",
]
