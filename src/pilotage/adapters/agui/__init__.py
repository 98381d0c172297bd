"""Runs as AG-UI events, with human approval, over four transports: `pip install "pilotage[agui]"`."""

from importlib.util import find_spec

if find_spec("ag_ui") is None or find_spec("starlette") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[agui]"')

from pilotage.adapters.agui.decisions import (
    AgUiContinuation,
    AgUiDecision,
    AgUiToolResult,
    carries_approval_decision,
    decisions_in,
    ingest_decision,
    tool_results_in,
)
from pilotage.adapters.agui.driver import AgentDriver, driver_for
from pilotage.adapters.agui.encoding import AgUiEncoder, NdjsonEncoder, SseEncoder, encoder_for, line_of
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
    AgUiThreadBusyError,
)
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.adapters.agui.questions import (
    AgUiApproval,
    approval_from_pause,
    find_pending_approval,
    project_approval,
    project_pending_approval,
)
from pilotage.adapters.agui.run_input import parse_input, run_input_of
from pilotage.adapters.agui.stream import AgUiRunDriver, Bookmark, RunDriverFactory, RunOpener
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
    "AgUiThreadBusyError",
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
