"""Registration of the servers that the environment names."""

from __future__ import annotations

from pilotage.adapters.mcp.server import McpServer, McpServers
from pilotage.adapters.mcp.settings import settings_from_environment
from pilotage.container.application import Application


def register(app: Application) -> None:
    """Register `McpServers` with what the environment names, unless the application has its own."""
    if not app.contains(McpServers) and (found := settings_from_environment()):
        app.add(McpServers([McpServer(each) for each in found]))
