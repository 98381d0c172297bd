"""The plugin `mcp`, outside of its adapter, which is imported only if the environment names a server."""

from __future__ import annotations

import os

from pilotage.container.application import Application
from pilotage.container.plugins import is_installed

PREFIX = "PILOTAGE_MCP_"


def initialize(app: Application) -> None:
    """Let the adapter register the servers that the environment names, if the extra is installed."""
    if not any(name.startswith(PREFIX) and given.strip() for name, given in os.environ.items()):
        return
    if not is_installed("mcp", "httpx"):
        return
    from pilotage.adapters.mcp.plugin import register  # noqa: PLC0415 - imports the adapter

    register(app)
