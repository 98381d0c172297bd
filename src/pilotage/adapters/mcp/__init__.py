"""Tools of MCP servers, as tools of agents: `pip install "pilotage[mcp]"`."""

from importlib.util import find_spec

if find_spec("mcp") is None or find_spec("httpx") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[mcp]"')

from pilotage.adapters.mcp.errors import (
    McpRefusedError,
    McpStartError,
    McpUnavailableError,
    McpUnknownOutcomeError,
)
from pilotage.adapters.mcp.server import McpServer, McpServers
from pilotage.adapters.mcp.settings import McpLimits, McpQuestion, McpServerSettings, McpTool

__all__ = [
    "McpLimits",
    "McpQuestion",
    "McpRefusedError",
    "McpServer",
    "McpServerSettings",
    "McpServers",
    "McpStartError",
    "McpTool",
    "McpUnavailableError",
    "McpUnknownOutcomeError",
]
