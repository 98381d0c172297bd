"""MCP over standard input and output: one client, which has started this process."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from pilotage.adapters.mcp_server.exports import McpExports
from pilotage.adapters.mcp_server.server import mcp_server
from pilotage.agent.principal import LOCAL, Principal
from pilotage.container.application import Application


async def serve_stdio(
    app: Application, exports: McpExports | None = None, *, principal: Principal = LOCAL
) -> None:
    """Serve a started application until the client closes its end.

    Meanwhile whatever the process writes to its standard output goes to its standard error.
    """
    server = mcp_server(app, exports, principal=principal)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
