"""The plugin `mcp`, outside of its adapter, which is imported only if the environment names a server."""

from __future__ import annotations

import os

from pilotage.container.application import Application
from pilotage.container.plugins import is_installed

PREFIX = "PILOTAGE_MCP_"


def initialize(app: Application) -> None:
    """Let the adapter register the servers that the environment names, if the extra is installed."""
    # All names as one text: reading them one by one costs as much as the rest of loading the plugins.
    if PREFIX not in " ".join(os.environ):
        return
    if not is_installed("mcp", "httpx"):
        return
    from pilotage.adapters.mcp.plugin import register  # noqa: PLC0415 - imports the adapter

    register(app)
