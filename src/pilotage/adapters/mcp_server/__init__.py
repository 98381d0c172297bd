"""Agents and tools of an application as MCP tools, over stdio and HTTP: `pip install "pilotage[mcp]"`."""

from importlib.util import find_spec

if find_spec("mcp") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[mcp]"')

from pilotage.adapters.mcp_server.catalog import KEY
from pilotage.adapters.mcp_server.exports import McpExports, McpTasks
from pilotage.adapters.mcp_server.forms import McpForm
from pilotage.adapters.mcp_server.http_endpoint import mcp_extension, mcp_route
from pilotage.adapters.mcp_server.offers import McpPrompt, McpResource
from pilotage.adapters.mcp_server.server import mcp_server
from pilotage.adapters.mcp_server.stdio import serve_stdio
from pilotage.adapters.mcp_server.tool_agents import exported_tools

__all__ = [
    "KEY",
    "McpExports",
    "McpForm",
    "McpPrompt",
    "McpResource",
    "McpTasks",
    "exported_tools",
    "mcp_extension",
    "mcp_route",
    "mcp_server",
    "serve_stdio",
]
