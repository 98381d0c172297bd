"""The plugin `anthropic`, outside of its adapter, which is imported only by applications that have its settings."""

from __future__ import annotations

import sys

from pilotage.container.application import Application


def initialize(app: Application) -> None:
    """Let the adapter register its model if the application has settings of it.

    An application can have them only if the adapter was imported.
    """
    if "pilotage.adapters.anthropic" not in sys.modules:
        return
    from pilotage.adapters.anthropic.plugin import register  # noqa: PLC0415 - imports the adapter

    register(app)
